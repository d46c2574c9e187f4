"""The registration of the feed and of snapshots with a hub."""

from __future__ import annotations

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.feed import calls
from restante.hub.feed.feed_memory import FeedMemory
from restante.hub.removal.scrub import Erasures
from restante.model.health.hub_metric import HubMetric, MetricKind, MetricSample


def _open(core: Core, _: Opening) -> None:
    core.memory(Erasures).forgetters.append(core.memory(FeedMemory).loaded.clear)


def _metrics(core: Core) -> tuple[HubMetric, ...]:
    readers, labels = calls.feed_readers(core), ("reader",)
    lags = tuple(MetricSample((own.reader,), own.lag) for own in readers)
    changes = tuple(MetricSample((own.reader,), own.changes) for own in readers)
    return (
        HubMetric(MetricKind.GAUGE, "restante_feed_lag", "Numbers that a reader has not read yet.", labels, lags),
        HubMetric(MetricKind.COUNTER, "restante_feed_changes", "Rows of changes given to a reader.", labels, changes),
    )


SUBJECT = HubSubject(functions=calls.FUNCTIONS, reading=(ReadFeed, ReadSnapshot), open=_open, metrics=_metrics)
