"""Counts of a bridge so far, for the terminal and for metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from restante.errors import ExtraMissing
from restante.model.figures import counted

_COUNTERS = {
    "records": "Records that went over the bridge.",
    "stored": "Records that were stored.",
    "skipped": "Records that were stored before.",
    "poisoned": "Records that did not fit, and were kept aside.",
    "tombstones": "Records without a value, passed over.",
}


@dataclass(slots=True)
class BridgeCounts:
    """Counted by several threads."""

    records: int = 0
    stored: int = 0
    skipped: int = 0
    poisoned: int = 0
    tombstones: int = 0
    lags: dict[str, int] = field(default_factory=dict)
    """The lag of each source: the records that are not over the bridge yet."""
    began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    @property
    def lag(self) -> int:
        return sum(self.lags.values())

    def line(self) -> str:
        """The counts in a line."""
        rate = self.records / max(time.monotonic() - self.began, 0.001)
        parts = [f"{counted(self.records, 'record')} ({rate:,.0f}/s)", f"{self.stored:,} stored"]
        for name in ("skipped", "poisoned", "tombstones"):
            count = getattr(self, name)
            if count:
                parts.append(f"{count:,} {name}")
        return ", ".join([*parts, f"lag {self.lag:,}"])


@contextmanager
def metrics_served(counts: BridgeCounts, port: int, direction: str) -> Iterator[None]:
    """While inside, the counts are served to Prometheus, in a thread of its own, on this machine's loopback address."""
    try:
        from prometheus_client import start_http_server  # noqa: PLC0415 - an extra
        from prometheus_client.core import CollectorRegistry  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise ExtraMissing(
            f"Metrics of a bridge need prometheus-client ({error}): pip install 'restante[server]'."
        ) from error
    registry = CollectorRegistry()
    registry.register(_BridgeCollector(counts, direction))
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _BridgeCollector:
    def __init__(self, counts: BridgeCounts, direction: str) -> None:
        self._counts = counts
        self._direction = direction

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - an extra

        for name, text in _COUNTERS.items():
            family = CounterMetricFamily(f"restante_bridge_{name}", text, labels=("direction",))
            family.add_metric([self._direction], getattr(self._counts, name))
            yield family
        lag = GaugeMetricFamily(
            "restante_bridge_lag", "What is not over the bridge yet.", labels=("direction", "source")
        )
        for source, count in sorted(self._counts.lags.items()):
            lag.add_metric([self._direction, source], count)
        yield lag
