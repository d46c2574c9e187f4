"""Metrics of a hub and its server, computed when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from restante.model.health.hub_metric import HubMetric, MetricKind
from restante.model.health.tree import score_of
from restante.server.connections.room import Wait
from restante.server.desk import Desk
from restante.server.health.health_rounds import HealthRounds
from restante.server.health.metrics import Metrics


class HubMetrics(Collector):
    """The metrics of one desk, computed each time that they are read."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def describe(self) -> Iterable[Metric]:
        return ()  # else registering it would already collect

    def collect(self) -> Iterator[Metric]:
        yield from _requests(self._desk.metrics)
        metrics, hub = self._desk.metrics, self._desk.hub.consignment_totals()
        consigned = {metrics.accepted: hub.accepted, metrics.duplicates: hub.duplicates}
        for tally in metrics.tallies:
            yield CounterMetricFamily(tally.name, tally.text, value=tally.value + consigned.get(tally, 0))
        yield from _state(self._desk)
        yield from map(_family, self._desk.hub.metrics())
        yield from _live(self._desk)
        yield from _health(self._desk.health)


class DoorMetrics(Collector):
    """The counts of a door itself."""

    def __init__(self, metrics: Metrics, own: Callable[[], Iterable[HubMetric]]) -> None:
        self._metrics = metrics
        self._own = own

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from _requests(self._metrics)
        for tally in self._metrics.tallies:
            yield CounterMetricFamily(tally.name, tally.text, value=tally.value)
        yield from map(_family, self._own())


def _family(metric: HubMetric) -> Metric:
    """A metric of the hub as Prometheus takes it."""
    if metric.kind is MetricKind.SUMMARY:
        summary = SummaryMetricFamily(metric.name, metric.text, labels=metric.labels)
        for sample in metric.samples:
            summary.add_metric(sample.labels, count_value=sample.events, sum_value=sample.value)
        return summary
    kind = GaugeMetricFamily if metric.kind is MetricKind.GAUGE else CounterMetricFamily
    family = kind(metric.name, metric.text, labels=metric.labels)
    for sample in metric.samples:
        family.add_metric(sample.labels, sample.value)
    return family


def _health(rounds: HealthRounds) -> Iterator[Metric]:
    """The metrics of health as of the last round; before the first, nothing is known."""
    score = GaugeMetricFamily("restante_health_score", "1 when all is well; less for each leaf that is not.")
    states = GaugeMetricFamily("restante_health_state", "0 green, 1 yellow, 2 red.", labels=("leaf",))
    values = GaugeMetricFamily(
        "restante_health_value", "What was measured over the last minute.", labels=("leaf", "measure", "unit")
    )
    tree = None if rounds.last is None else rounds.last.tree
    for leaf in () if tree is None else tree.leaves:
        states.add_metric((leaf.name,), leaf.state.severity)
        for measure in leaf.measures:
            values.add_metric((leaf.name, measure.name, measure.unit), measure.value)
    if tree is not None:
        score.add_metric((), score_of(tree.leaves))
    yield from (score, states, values)


def _requests(metrics: Metrics) -> Iterator[Metric]:
    requests = CounterMetricFamily("restante_requests", "Requests answered.", labels=("method", "route", "status"))
    for (method, route, status), count in tuple(metrics.requests.items()):
        requests.add_metric((method, route, str(status)), count)
    yield requests
    took = HistogramMetricFamily(
        "restante_request_duration_seconds",
        "From the first byte asked to the last byte answered.",
        labels=("method", "route"),
    )
    for labels, durations in tuple(metrics.durations.items()):
        took.add_metric(labels, durations.buckets(), durations.seconds)
    yield took


def _state(desk: Desk) -> Iterator[Metric]:
    partitions = desk.hub.partition_statuses()
    size = desk.hub.store_size()
    gauges = {
        "restante_messages_waiting": ("Messages that wait.", sum(p.waiting for p in partitions)),
        "restante_runs_unfiled": (
            "Stored runs of messages that wait to be merged.",
            sum(p.unfiled for p in partitions),
        ),
        "restante_partitions": ("Partitions.", len(partitions)),
        "restante_store_bytes": ("What the store occupies.", size.stored_bytes),
        "restante_publishes_in_flight": ("Publishes under way.", desk.room.publishes),
        "restante_publish_in_flight_bytes": ("Bytes of publishes under way.", desk.room.publish_bytes),
        "restante_reads_in_flight": ("Reading requests under way.", desk.room.reads),
        "restante_peeks_waiting": ("Peeks that wait for mail.", desk.room.waits[Wait.PEEK]),
        "restante_batch_waits": ("Calls that wait for a batch to complete.", desk.room.waits[Wait.BATCH]),
        "restante_feeds_waiting": ("Readers of the feed that wait for changes.", desk.room.waits[Wait.FEED]),
        "restante_members_waiting": ("Members of groups that wait for changes.", desk.room.waits[Wait.GROUP]),
        "restante_action_waits": ("Calls that wait for the outcome of an action.", desk.room.waits[Wait.ACTION]),
    }
    for name, (text, value) in gauges.items():
        yield GaugeMetricFamily(name, text, value=value)
    counters = {
        "restante_store_written_bytes": ("Bytes written to the store.", size.written_bytes),
        "restante_overloaded_requests": ("Requests refused as overloaded.", desk.room.refused),
    }
    for name, (text, value) in counters.items():
        yield CounterMetricFamily(name, text, value=value)


def _live(desk: Desk) -> Iterator[Metric]:
    post = desk.post
    queues = [connection.queue for connection in tuple(post.connections())]
    gauges = {
        "restante_live_connections": ("Clients that are connected for live delivery.", len(queues)),
        "restante_live_queued_messages": ("Messages that wait in the queues of clients.", sum(map(len, queues))),
        "restante_live_fullest_queue": ("Messages in the fullest of these queues.", max(map(len, queues), default=0)),
    }
    for name, (text, value) in gauges.items():
        yield GaugeMetricFamily(name, text, value=value)
    tally = post.tally
    counters = {
        "restante_live_pushed": ("Messages handed to connected clients, also those dropped there.", tally.pushed),
        "restante_live_dropped": ("Messages that a full queue dropped.", tally.dropped(queues)),
        "restante_live_gaps": ("How often a queue began to drop.", tally.gaps(queues)),
        "restante_live_replays": ("Times that a client was given messages from history.", tally.replays),
        "restante_live_replayed": ("Messages that were given from history.", tally.replayed),
        "restante_live_gaps_recovered": ("Gaps that clients filled from history.", tally.gaps_recovered),
        "restante_live_sent": ("Messages that clients sent over their connections.", tally.sent),
        "restante_live_echoes_dropped": ("Echoes that were left out for a client too slow.", tally.echoes_dropped),
    }
    for name, (text, value) in counters.items():
        yield CounterMetricFamily(name, text, value=value)
    latency = HistogramMetricFamily(
        "restante_live_push_duration_seconds", "From the commit until its messages were handed to their clients."
    )
    latency.add_metric((), tally.latency.buckets(), tally.latency.seconds)
    yield latency
