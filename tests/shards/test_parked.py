"""Publishes that wait for what is held are answered within five seconds."""

from __future__ import annotations

import time

from restante.errors import Unavailable
from restante.hub.engine.commit_request import Planned
from restante.hub.engine.plan import RequestDraft
from tests.shards.world import Shards
from tests.waiting import wait_until


def _nothing(_: RequestDraft) -> None:
    pass


def test_who_is_parked_is_refused_before_five_seconds_are_over() -> None:
    with Shards(2) as shards:
        parked, late, early = shards.hubs[0].core.committer.parked, Planned(_nothing), Planned(_nothing)
        now = time.monotonic()
        parked.requests += [(now - 4.9, late), (now + 60, early)]
        wait_until(lambda: late.error is not None, "it was refused")
        assert isinstance(late.error, Unavailable)
        assert early.error is None
