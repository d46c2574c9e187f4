"""Counts of live delivery, for the metrics."""

from __future__ import annotations

from restante.model.live.live_queue import LiveQueue
from restante.server.health.metrics import Durations


class LiveTally:
    """The counts of one server. Used only from the event loop."""

    def __init__(self) -> None:
        self.pushed = 0
        """Messages handed to connections, including those dropped there."""
        self.replayed = 0
        self.replays = 0
        self.sent = 0
        """Messages that clients sent over their connections."""
        self.echoes_dropped = 0
        self.gaps_recovered = 0
        """Gaps that clients have filled from history, by their own reports."""
        self._dropped = 0
        self._gaps = 0
        self.latency = Durations()
        """Seconds from the commit until messages were written to their connections, or put into their queues."""

    def left(self, queue: LiveQueue) -> None:
        """Keep the counts of a connection that has ended."""
        self._dropped += queue.dropped
        self._gaps += queue.gaps

    def dropped(self, queues: list[LiveQueue]) -> int:
        return self._dropped + sum([queue.dropped for queue in queues])

    def gaps(self, queues: list[LiveQueue]) -> int:
        return self._gaps + sum([queue.gaps for queue in queues])
