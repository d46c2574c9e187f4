"""`HubMetric` is one metric of a hub, which a subject gives as a value, and the server shows."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class MetricKind(Enum):
    """The kinds of metrics. A summary counts events, and adds up how long they took, or how large they were."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"


class MetricSample(NamedTuple):
    """One value of a metric, with the values of its labels."""

    labels: tuple[str, ...]
    value: float
    events: int = 0
    """The number of events that the value is the sum of, in a summary."""


class HubMetric(NamedTuple):
    """A metric of a hub at one moment."""

    kind: MetricKind
    name: str
    text: str
    labels: tuple[str, ...]
    samples: tuple[MetricSample, ...]


def gauge(name: str, text: str, value: float) -> HubMetric:
    """A gauge without labels."""
    return HubMetric(MetricKind.GAUGE, name, text, (), (MetricSample((), value),))


def counter(name: str, text: str, value: float) -> HubMetric:
    """A counter without labels; Prometheus adds `_total` to its name."""
    return HubMetric(MetricKind.COUNTER, name, text, (), (MetricSample((), value),))
