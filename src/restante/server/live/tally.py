"""Counts of live delivery, for the metrics."""

from __future__ import annotations

from restante.model.live.live_queue import LiveQueue
from restante.server.health.metrics import Durations


class LiveTally:
    """Counts of one post; used from the event loop only."""

    def __init__(self) -> None:
        self.pushed = 0
        """Messages handed to connections, those included that were dropped there."""
        self.replayed = 0
        self.replays = 0
        self.sent = 0
        """Messages that clients sent over their connections."""
        self.echoes_dropped = 0
        self.gaps_recovered = 0
        """Gaps that clients read from history, as they say themselves."""
        self._dropped = 0
        self._gaps = 0
        self.latency = Durations()
        """Seconds from the commit until a message was written to its connections, or put into their queues."""

    def left(self, queue: LiveQueue) -> None:
        """A connection has ended: what it counted stays."""
        self._dropped += queue.dropped
        self._gaps += queue.gaps

    def dropped(self, queues: list[LiveQueue]) -> int:
        return self._dropped + sum([queue.dropped for queue in queues])

    def gaps(self, queues: list[LiveQueue]) -> int:
        return self._gaps + sum([queue.gaps for queue in queues])
