"""Extras that a hub has only if they are used: jobs, several nodes or shards. Extras that are not used are not shown.

The hub is asked for them at most once in a few seconds for each visitor, not with every page.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from restante.console.web.visits import HubExtras
from restante.errors import RestanteError
from restante.limits import CONSOLE_REMEMBERED_MAX, CONSOLE_STREAM_SECONDS
from restante.model.jobs.job_answers import JobPage
from restante.model.shards.node_answers import NodeMap

if TYPE_CHECKING:
    from restante.console.web.doors import HubAsker
    from restante.console.web.visits import ConsoleVisitor


class KnownExtras:
    """The extras that are known of one hub, for each sight of it. Used from the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[ConsoleVisitor, tuple[float, HubExtras]] = OrderedDict()

    async def of(self, visitor: ConsoleVisitor, hub: HubAsker) -> HubExtras:
        sight = visitor.sight
        known = self._known.get(sight)
        if known is not None and self._clock() - known[0] < CONSOLE_STREAM_SECONDS:
            return known[1]
        jobs, nodes = await asyncio.gather(_has_jobs(visitor, hub), _has_several(visitor, hub))
        found = HubExtras(jobs=jobs, nodes=nodes)
        self._known[sight] = (self._clock(), found)
        self._known.move_to_end(sight)
        while len(self._known) > CONSOLE_REMEMBERED_MAX:
            self._known.popitem(last=False)
        return found


async def _has_jobs(visitor: ConsoleVisitor, hub: HubAsker) -> bool:
    """Whether one has ever run. An older hub knows none."""
    try:
        return visitor.runs_jobs and bool((await hub.get(JobPage, "jobs", limit=1)).jobs)
    except RestanteError:
        return False


async def _has_several(visitor: ConsoleVisitor, hub: HubAsker) -> bool:
    """Whether there are several nodes or shards. An older hub has one."""
    if not visitor.looks:
        return False
    try:
        found = await hub.get(NodeMap, "nodes")
    except RestanteError:
        return False
    return len(found.nodes) > 1 or len(found.shards) > 1
