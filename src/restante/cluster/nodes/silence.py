"""Which nodes are silent: those whose beat was seen unchanged for the whole lease, by the clock of who looks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from restante.ports.membership import NodeRow


class SilentNodes:
    """The beats that were heard of the other nodes, and when. No clocks are compared."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[int, float]] = {}
        self._ends: dict[str, float] = {}
        """When each is silent, unless it is heard before."""

    def among(self, rows: Sequence[NodeRow], now: float) -> list[NodeRow]:
        """The nodes that are silent. `now` is from after the rows were read: until then a beat may have been new."""
        before, self._heard = self._heard, {}
        for row in rows:
            beat, since = before.get(row.session, (row.beat, now))
            self._heard[row.session] = (row.beat, since if beat == row.beat else now)
        self._ends = {row.session: self._heard[row.session][1] + row.lease_milliseconds / 1_000 for row in rows}
        return [row for row in rows if now >= self._ends[row.session]]

    def seconds_left(self, session: str, now: float) -> float | None:
        """The time that is left of a node's lease, for all that is known here; None of one that was not seen."""
        ends = self._ends.get(session)
        return None if ends is None else round(max(0.0, ends - now), 3)

    def soonest(self, now: float) -> float:
        """How long until the next one is silent, if nothing is heard of it; infinite if there is none."""
        return min((max(0.0, ends - now) for ends in self._ends.values()), default=math.inf)
