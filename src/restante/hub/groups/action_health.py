"""The health of a group's actions: how long they wait and take, and how many fail, become poison, or pile up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import msgspec
import numpy as np

from restante.errors import PositionAhead, PositionGone
from restante.hub.action_rows.action_memory import ActionMemory
from restante.hub.engine.core import Core
from restante.hub.feed.feed import read_feed
from restante.hub.groups.action_pages import waiting_rows
from restante.hub.groups.memory import KnownGroup
from restante.model.actions.action_counts import ActionTotals
from restante.model.columns.arrow import numbers_of
from restante.model.health.bounds import RateWindow, Reading, mean

_OLD = 60_000_000
"""The waiting time, in microseconds, from which actions count as backlog."""
_COUNTED_MAX = 1_000
_COLUMNS = ("sequence_number", "at", "recipient", "origin", "properties")


class ActionHealth:
    """Measures the actions of each group over the last minute."""

    def __init__(self, core: Core, clock: Callable[[], float] = monotonic) -> None:
        self._core = core
        self._clock = clock
        self._windows: dict[str, RateWindow] = {}

    def readings(self, known: KnownGroup) -> Iterator[Reading]:
        """The readings of a group; none if it has no actions."""
        if not known.row.actions:
            return
        totals = self._totals(known)
        window = self._windows.setdefault(known.row.name, RateWindow())
        counters = (totals.begun, totals.queued_seconds, totals.doing_seconds, totals.failed, totals.poisoned)
        begun, queued, doing, failed, poisoned = window.added(self._clock(), counters)
        for name, seconds in (("time_in_queue", queued), ("time_to_do", doing)):
            took = mean(seconds * 1_000, begun)
            if took is not None:
                yield Reading(name=name, value=took, unit="ms")
        yield Reading(name="failures", value=failed, unit="per_minute")
        reason = f"GET /v1/groups/{known.row.name}/poison lists what could not be done."
        yield Reading(name="poisoned", value=poisoned, unit="per_minute", reason=reason if poisoned else None)
        yield Reading(name="backlog", value=self._backlog(known), unit="actions")

    def _totals(self, known: KnownGroup) -> ActionTotals:
        memory, totals = self._core.memory(ActionMemory), ActionTotals()
        for name in known.row.actions:
            if (own := memory.totals.get(name)) is not None:
                totals.take_in(own)
        return totals

    def _backlog(self, known: KnownGroup) -> int:
        """How many actions have waited for a minute, counted in the first page of each partition, up to a bound."""
        count = 0
        for partition in self._core.owned:
            row = known.positions[partition]
            if count < _COUNTED_MAX and known.lag(partition, self._core.partitions[partition].counters.visible):
                count += self._old_in(known, partition, max(row.position, known.passed(partition)))
        return min(count, _COUNTED_MAX)

    def _old_in(self, known: KnownGroup, partition: int, position: int) -> int:
        wish = msgspec.structs.replace(known.row.wish, columns=_COLUMNS)
        try:
            table = read_feed(self._core, partition, position, wish, _COUNTED_MAX, only_messages=True).table
        except (PositionGone, PositionAhead):
            return 0
        rows, _, _ = waiting_rows(self._core, known.row.name, partition, table)
        at = numbers_of(table["at"].cast("int64"))[np.array(rows, np.int64)]
        return int((at <= self._core.clock() - _OLD).sum())
