"""What is counted, for Prometheus: base units, few labels, nothing that grows with recipients or messages."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from restante.server.desk import Desk

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RECENT = 256
_RECENT_SECONDS = 60.0


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "restante_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "restante_request_duration_seconds",
            "From the first byte asked to the last byte answered.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.accepted = self._counter("restante_messages_accepted", "Messages stored.")
        self.duplicates = self._counter("restante_messages_duplicate", "Messages sent again and skipped.")
        self.collected = self._counter("restante_messages_collected", "Messages dequeued.")
        self.bundles = self._counter("restante_bundles_answered", "Bundles answered to a peek.")
        self.received = self._counter("restante_received_bytes", "Bytes of request bodies, as they came.")
        self.sent = self._counter("restante_sent_bytes", "Bytes of answers, as they went.")
        self.cut_off = self._counter("restante_clients_cut_off", "Connections closed because the client was too slow.")
        self._publishes: deque[tuple[float, float]] = deque(maxlen=_RECENT)
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        known = self._known.get(key)
        if known is None:
            known = self._requests.labels(method, route, str(status)), self._seconds.labels(method, route)
            self._known[key] = known
        known[0].inc()
        known[1].observe(seconds)

    def publish(self, seconds: float) -> None:
        """A publish took so long."""
        self._publishes.append((time.monotonic(), seconds))

    def typical_publish_seconds(self) -> float:
        """Half of the publishes of the last minute took no longer; 0 if there were none."""
        since = time.monotonic() - _RECENT_SECONDS
        return statistics.median([seconds for at, seconds in self._publishes if at >= since] or [0.0])

    def watch(self, desk: Desk) -> None:
        """Show what the hub itself can tell."""
        self.registry.register(_HubState(desk))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _HubState(Collector):
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def describe(self) -> Iterable[Metric]:
        return ()  # else registering it would already collect

    def collect(self) -> Iterator[Metric]:
        desk = self._desk
        partitions = desk.hub.partitions()
        size = desk.hub.core.store.size()
        gauges = {
            "restante_messages_waiting": ("Messages that wait.", sum(p.waiting for p in partitions)),
            "restante_runs_unfiled": ("Mailbags that wait to be filed.", sum(p.unfiled for p in partitions)),
            "restante_partitions": ("Partitions.", len(partitions)),
            "restante_store_bytes": ("What the store occupies.", size.stored_bytes),
            "restante_publishes_in_flight": ("Publishes under way.", desk.room.publishes),
            "restante_publish_in_flight_bytes": ("Bytes of publishes under way.", desk.room.publish_bytes),
            "restante_reads_in_flight": ("Reading requests under way.", desk.room.reads),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=value)
        yield CounterMetricFamily(
            "restante_store_written_bytes", "Bytes written to the store.", value=size.written_bytes
        )
        yield CounterMetricFamily(
            "restante_overloaded_requests", "Requests refused as overloaded.", value=desk.room.refused
        )
