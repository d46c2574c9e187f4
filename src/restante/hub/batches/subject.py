"""The registration of batches with a hub."""

from __future__ import annotations

from restante.calls.batches import ListBatches, ListPendingItems, ReadBatch, WaitForBatch
from restante.hub.batches import batch_upkeep, calls, part_calls
from restante.hub.batches.batch_parts import load_part_work
from restante.hub.batches.memory import BatchMemory, load_bound
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.model.storage.changes import Space


def _open(core: Core, opening: Opening) -> None:
    core.remember(BatchMemory(opening.counters, opening.post_webhook))
    core.remember(load_bound(opening.rows, core.owned))
    core.remember(load_part_work(opening.rows, core.owned))


def _close(core: Core) -> None:
    counters = core.memory(BatchMemory).counters
    if counters is not None:
        counters.close()


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    reading=(ReadBatch, ListBatches, ListPendingItems, WaitForBatch),
    spaces=(Space.BATCH_BINDING, Space.BATCH_REPORT, Space.BATCH_CLOSING),
    open=_open,
    close=_close,
    tasks=(batch_upkeep.TASK, part_calls.TASK),
    chores=(batch_upkeep.reap_due,),
)
