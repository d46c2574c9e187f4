"""The registration of batches with a hub."""

from __future__ import annotations

from collections.abc import Iterator

from restante.calls.batches import ListBatches, ListPendingItems, ReadBatch, WaitForBatch
from restante.hub.batches import batch_upkeep, calls, part_calls
from restante.hub.batches.batch_parts import load_part_work
from restante.hub.batches.memory import BatchMemory, load_bound
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.model.health.hub_metric import HubMetric, MetricKind, MetricSample, counter
from restante.model.storage.changes import Space


def _open(core: Core, opening: Opening) -> None:
    core.remember(BatchMemory(opening.counters, opening.post_webhook))
    core.remember(load_bound(opening.rows, core.owned))
    core.remember(load_part_work(opening.rows, core.owned))


def _close(core: Core) -> None:
    counters = core.memory(BatchMemory).counters
    if counters is not None:
        counters.close()


def _metrics(core: Core) -> Iterator[HubMetric]:
    memory = core.memory(BatchMemory)
    yield counter("restante_batches_opened", "Batches opened.", memory.opened)
    yield counter("restante_batches_completed", "Batches that became complete.", memory.completed)
    yield counter("restante_batches_reaped", "Batches removed because nobody used them.", memory.reaped)
    yield counter("restante_batch_items_acknowledged", "Items acknowledged by hand.", memory.items_acknowledged)
    yield HubMetric(
        MetricKind.COUNTER,
        "restante_batch_notices",
        "Attempts to tell somebody that a batch is complete.",
        ("to", "result"),
        tuple(
            MetricSample((to, result), count)
            for result, counted in (("delivered", memory.notices_delivered), ("failed", memory.notices_failed))
            for to, count in tuple(counted.items())
        ),
    )


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    reading=(ReadBatch, ListBatches, ListPendingItems, WaitForBatch),
    spaces=(Space.BATCH_BINDING, Space.BATCH_REPORT, Space.BATCH_CLOSING),
    open=_open,
    close=_close,
    metrics=_metrics,
    tasks=(batch_upkeep.TASK, part_calls.TASK),
    chores=(batch_upkeep.reap_due,),
)
