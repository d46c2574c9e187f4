"""Counts for Prometheus: base units, few labels, nothing that grows with recipients or messages.

Counting happens in the event loop alone, for every request; so it is plain additions. Metrics are made of the counts only
when they are read.
"""

from __future__ import annotations

import statistics
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.utils import floatToGoString

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RECENT = 256
_RECENT_SECONDS = 60.0
_FAILED = 500
"""An answer with this status, or a higher one, says that the hub failed."""


class CountMetric:
    """A number that only grows."""

    __slots__ = ("name", "text", "value")

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text, self.value = name, text, 0

    def add(self, count: int = 1) -> None:
        self.value += count


class Durations:
    """The durations of requests to one route."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(_SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_SECONDS, seconds)] += 1
        self.seconds += seconds

    def add_all(self, seconds: Sequence[float]) -> None:
        counts = self.counts
        for own in seconds:
            counts[bisect_left(_SECONDS, own)] += 1
        self.seconds += sum(seconds)

    def buckets(self) -> list[tuple[str, float]]:
        bounds = [*map(floatToGoString, _SECONDS), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))


class ApiTotals:
    """The requests as health asks for them: how many there were, how many failed, how long those took that did not wait."""

    __slots__ = ("failures", "quick", "quick_seconds", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.failures = 0
        self.quick = 0
        self.quick_seconds = 0.0

    def add(self, status: int, seconds: float, *, waited: bool) -> None:
        self.requests += 1
        self.failures += status >= _FAILED
        if not waited:
            self.quick += 1
            self.quick_seconds += seconds

    def add_quick(self, status: int, seconds: Sequence[float]) -> None:
        """Requests that were answered alike, and did not wait."""
        count = len(seconds)
        self.requests += count
        self.quick += count
        self.quick_seconds += sum(seconds)
        if status >= _FAILED:
            self.failures += count


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests: dict[tuple[str, str, int], int] = {}
        self.durations: dict[tuple[str, str], Durations] = {}
        self.tallies: list[CountMetric] = []
        self.api = ApiTotals()
        self.accepted = self._tally("restante_messages_accepted", "Messages stored.")
        self.duplicates = self._tally("restante_messages_duplicate", "Messages sent again and skipped.")
        self.staged = self._tally("restante_messages_staged", "Messages staged, parcels sent again included.")
        self.collected = self._tally("restante_messages_collected", "Messages dequeued.")
        self.bundles = self._tally("restante_bundles_answered", "Bundles answered to a peek.")
        self.received = self._tally("restante_received_bytes", "Bytes of request bodies, as they came.")
        self.sent = self._tally("restante_sent_bytes", "Bytes of answers, as they went.")
        self.cut_off = self._tally("restante_clients_cut_off", "Connections closed because the client was too slow.")
        self._publishes: deque[tuple[float, float]] = deque(maxlen=_RECENT)

    def _tally(self, name: str, text: str) -> CountMetric:
        self.tallies.append(CountMetric(name, text))
        return self.tallies[-1]

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._count((method, route), status, seconds)

    def _count(self, route: tuple[str, str], status: int, seconds: float) -> None:
        key = (*route, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Durations()
        durations.add(seconds)

    def exchange(self, route: tuple[str, str], status: int, seconds: Sequence[float], received: int, sent: int) -> None:
        """Requests with bodies and answers of so many bytes together, which waited for nobody but the hub: as long as it says."""
        key = (route[0], route[1], status)
        self.requests[key] = self.requests.get(key, 0) + len(seconds)
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Durations()
        durations.add_all(seconds)
        self.api.add_quick(status, seconds)
        self.received.value += received
        self.sent.value += sent

    def publish(self, *seconds: float) -> None:
        """Publishes took so long."""
        now = time.monotonic()
        self._publishes.extend([(now, own) for own in seconds])

    def typical_publish_seconds(self) -> float:
        """Half of the publishes of the last minute took no longer; 0 if there were none."""
        since = time.monotonic() - _RECENT_SECONDS
        return statistics.median([seconds for at, seconds in self._publishes if at >= since] or [0.0])

    def text(self) -> bytes:
        return generate_latest(self.registry)
