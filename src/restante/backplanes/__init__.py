"""Backplanes: logs that carry messages from doors to the owners of partitions, in memory or in Kafka."""

from __future__ import annotations

from restante.ports.backplane import Backplane
from restante.settings import Settings


def open_backplane(settings: Settings) -> Backplane | None:
    """The backplane that the settings name, if they name one."""
    if settings.backplane.topic is None:
        return None
    from restante.backplanes.kafka import KafkaBackplane  # noqa: PLC0415 - only who uses it needs the extra

    return KafkaBackplane(settings.backplane)
