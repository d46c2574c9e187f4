"""Where the acknowledgements of estimated batches are counted: in memory, or where several hubs and restarts find them."""

from __future__ import annotations

import os

from restante.counters.memory import MemoryCounters
from restante.ports.counters import Counters
from restante.settings import Settings
from restante.settings.rules import DAY_SECONDS

PASSWORD_VARIABLE = "RESTANTE_COUNTERS_PASSWORD"


def open_counters(settings: Settings) -> Counters:
    """The counters that the settings name. The password, if one is needed, is in the environment."""
    if settings.counters_url is None:
        return MemoryCounters()
    from restante.counters.redis import RedisCounters  # noqa: PLC0415  # only who uses it needs the extra

    return RedisCounters(
        settings.counters_url,
        password=os.environ.get(PASSWORD_VARIABLE),
        keep_seconds=max(settings.open_batch_retention_seconds, settings.sealed_batch_retention_seconds) + DAY_SECONDS,
    )
