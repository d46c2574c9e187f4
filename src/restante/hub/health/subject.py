"""The registration of health with a hub."""

from __future__ import annotations

from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.health.deep_check import forget_checks
from restante.hub.health.measures import measure_hub


def _open(core: Core, _: Opening) -> None:
    measure_hub(core)


SUBJECT = HubSubject(open=_open, chores=(forget_checks,))
