"""Metrics of a hub and its server, computed when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from restante.hub.backplane.doorway import Doorway
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.batches.memory import BatchMemory
from restante.hub.consignments.calls import ConsignmentTotals
from restante.model.actions.action_answers import NamedTotals
from restante.model.feed.feed_answers import ReaderStatus
from restante.model.groups.group_answers import GroupTotals
from restante.model.health.tree import score_of
from restante.server.connections.room import Wait
from restante.server.desk import Desk
from restante.server.health.health_rounds import HealthRounds
from restante.server.health.metrics import Metrics

_WAITING = "Records of the backplane for which senders wait."
_LOST = "Records that the backplane did not confirm."


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
        yield from _health(self._desk.health)


class DoorMetrics(Collector):
    """The counts of a door itself."""

    def __init__(self, metrics: Metrics, doorway: Doorway | None) -> None:
        self._metrics = metrics
        self._doorway = doorway

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from _requests(self._metrics)
        for tally in self._metrics.tallies:
            yield CounterMetricFamily(tally.name, tally.text, value=tally.value)
        if self._doorway is not None:
            yield GaugeMetricFamily("restante_backplane_waiting", _WAITING, value=self._doorway.waiting)
            yield CounterMetricFamily("restante_backplane_lost", _LOST, value=self._doorway.lost)


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
        "restante_messages_delayed": ("Messages kept aside until their visible_at.", desk.hub.delayed_count()),
        "restante_runs_unfiled": (
            "Stored runs of messages that wait to be merged.",
            sum(p.unfiled for p in partitions),
        ),
        "restante_partitions": ("Partitions.", len(partitions)),
        "restante_store_bytes": ("What the store occupies.", size.stored_bytes),
        "restante_backplane_waiting": (
            _WAITING,
            0 if desk.hub.backplane.doorway is None else desk.hub.backplane.doorway.waiting,
        ),
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
    producers = desk.hub.producer_totals
    counters = {
        "restante_store_written_bytes": ("Bytes written to the store.", size.written_bytes),
        "restante_overloaded_requests": ("Requests refused as overloaded.", desk.room.refused),
        "restante_producer_replays": ("Numbered parcels sent again and answered as before.", producers.replays),
        "restante_producer_fenced": (
            "Producers refused because a higher owner level has taken over.",
            producers.fenced,
        ),
        "restante_source_skipped": (
            "Messages skipped because their source is stored beyond them.",
            desk.hub.source_totals.skipped,
        ),
        **_backplane(desk.hub.backplane),
        "restante_producer_refused": ("Numbered parcels refused because of their numbers.", producers.refused_numbers),
    }
    for name, (text, value) in counters.items():
        yield CounterMetricFamily(name, text, value=value)
    yield from _batches(desk.hub.batch_totals)
    yield from _consignments(desk.hub.consignment_totals())
    yield from _readers(desk.hub.feed_readers())
    yield from _groups(desk.hub.group_totals())
    yield from _actions(desk.hub.action_totals())
    yield from _live(desk)


def _backplane(memory: BackplaneMemory) -> dict[str, tuple[str, int]]:
    totals, doorway = memory.totals, memory.doorway
    return {
        "restante_backplane_records": ("Records read from the backplane.", totals.records),
        "restante_backplane_messages": ("Messages stored from the backplane.", totals.messages),
        "restante_backplane_skipped": ("Records that were stored before.", totals.skipped),
        "restante_backplane_refused": ("Records that could not be stored, and are kept.", totals.refused),
        "restante_backplane_lost": (_LOST, 0 if doorway is None else doorway.lost),
    }


def _groups(groups: Iterable[GroupTotals]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "restante_group_lag", "Numbers that a group has not done with.", labels=("group", "partition")
    )
    members = GaugeMetricFamily("restante_group_members", "Members of a group.", labels=("group",))
    given = CounterMetricFamily(
        "restante_group_partitions_given", "Times that a partition was given to a member.", labels=("group",)
    )
    overtaken = CounterMetricFamily(
        "restante_group_overtaken", "Times that a group asked for what the feed no longer had.", labels=("group",)
    )
    for own in groups:
        for partition, numbers in own.lags.items():
            lag.add_metric((own.group, str(partition)), numbers)
        members.add_metric((own.group,), own.members)
        given.add_metric((own.group,), own.givings)
        overtaken.add_metric((own.group,), own.overtaken)
    yield from (lag, members, given, overtaken)


_ACTIONS = {
    "accepted": "Actions that were accepted.",
    "done": "Actions that were done.",
    "failed": "Actions that failed, and were not tried again.",
    "expired": "Actions that expired before they were done.",
    "poisoned": "Actions that could not be done, and are kept.",
}


def _actions(actions: Iterable[NamedTotals]) -> Iterator[Metric]:
    """Metrics of actions by the names that groups have; all other names are one, without a name."""
    named = ("group", "action")
    counters = {
        name: CounterMetricFamily(f"restante_actions_{name}", text, labels=named) for name, text in _ACTIONS.items()
    }
    queued = SummaryMetricFamily(
        "restante_action_queue_seconds", "From acceptance until the last attempt of an action began.", labels=named
    )
    doing = SummaryMetricFamily("restante_action_seconds", "How long the last attempts of actions took.", labels=named)
    for own in actions:
        labels = (own.group, own.action)
        for name, counter in counters.items():
            counter.add_metric(labels, getattr(own, name))
        queued.add_metric(labels, count_value=own.begun, sum_value=own.queued_seconds)
        doing.add_metric(labels, count_value=own.begun, sum_value=own.doing_seconds)
    yield from (*counters.values(), queued, doing)


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


def _batches(totals: BatchMemory) -> Iterator[Metric]:
    counters = {
        "restante_batches_opened": ("Batches opened.", totals.opened),
        "restante_batches_completed": ("Batches that became complete.", totals.completed),
        "restante_batches_reaped": ("Batches removed because nobody used them.", totals.reaped),
        "restante_batch_items_acknowledged": ("Items acknowledged by hand.", totals.items_acknowledged),
    }
    for name, (text, value) in counters.items():
        yield CounterMetricFamily(name, text, value=value)
    notices = CounterMetricFamily(
        "restante_batch_notices", "Attempts to tell somebody that a batch is complete.", labels=("to", "result")
    )
    for result, counted in (("delivered", totals.notices_delivered), ("failed", totals.notices_failed)):
        for to, count in tuple(counted.items()):
            notices.add_metric((to, result), count)
    yield notices


def _consignments(totals: ConsignmentTotals) -> Iterator[Metric]:
    gauges = {
        "restante_consignments_open": ("Consignments that are open.", totals.open),
        "restante_staged_messages": ("Messages that open consignments have staged.", totals.staged_messages),
        "restante_staged_bytes": ("Bytes that open consignments have staged.", totals.staged_bytes),
    }
    for name, (text, value) in gauges.items():
        yield GaugeMetricFamily(name, text, value=value)
    yield CounterMetricFamily("restante_consignments_committed", "Consignments committed.", value=totals.committed)


def _readers(readers: Iterable[ReaderStatus]) -> Iterator[Metric]:
    lag = GaugeMetricFamily("restante_feed_lag", "Numbers that a reader has not read yet.", labels=("reader",))
    changes = CounterMetricFamily("restante_feed_changes", "Rows of changes given to a reader.", labels=("reader",))
    for status in readers:
        lag.add_metric((status.reader,), status.lag)
        changes.add_metric((status.reader,), status.changes)
    yield lag
    yield changes
