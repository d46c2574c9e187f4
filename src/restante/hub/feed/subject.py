"""The registration of the feed and of snapshots with a hub."""

from __future__ import annotations

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.feed import calls
from restante.hub.feed.feed_memory import FeedMemory
from restante.hub.removal.scrub import Erasures


def _open(core: Core, _: Opening) -> None:
    core.memory(Erasures).forgetters.append(core.memory(FeedMemory).loaded.clear)


SUBJECT = HubSubject(functions=calls.FUNCTIONS, reading=(ReadFeed, ReadSnapshot), open=_open)
