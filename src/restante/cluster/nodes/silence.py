"""Which nodes are silent: those whose beat was seen unchanged for the whole lease, by the clock of who looks."""

from __future__ import annotations

from collections.abc import Sequence

from restante.ports.membership import NodeRow


class SilentNodes:
    """The beats that were heard of the other nodes, and when. No clocks are compared."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[int, float]] = {}

    def among(self, rows: Sequence[NodeRow], now: float) -> list[NodeRow]:
        """The nodes that are silent. `now` is from after the rows were read: until then a beat may have been new."""
        before, self._heard = self._heard, {}
        for row in rows:
            beat, since = before.get(row.session, (row.beat, now))
            self._heard[row.session] = (row.beat, since if beat == row.beat else now)
        return [row for row in rows if now - self._heard[row.session][1] >= row.lease_milliseconds / 1_000]
