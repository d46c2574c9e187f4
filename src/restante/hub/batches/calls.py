"""The functions that carry out the calls about batches."""

from __future__ import annotations

from collections.abc import Sequence

from restante.calls.batches import (
    AcknowledgeEach,
    AcknowledgeItems,
    AddItems,
    DeleteBatch,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    ReadBatch,
    ReapBatches,
    SealBatch,
    WaitForBatch,
)
from restante.hub.batches import batch_upkeep, batches, part_calls
from restante.hub.batches.acknowledge import Acknowledge
from restante.hub.batches.batches import check_id
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Functions
from restante.model.access.access import Grant
from restante.model.batches.batch_answers import Acknowledged, BatchStatus, ItemGroups, Reaped, Sealed
from restante.model.batches.items import check_calls, named


def add_items(core: Core, call: AddItems, caller: Grant) -> ItemGroups:
    return batches.add_items(core, check_id(call.batch_id), call.count, call.request_id, caller)


def seal(core: Core, call: SealBatch, caller: Grant) -> Sealed:
    return batches.seal(core, check_id(call.batch_id), caller)


def acknowledge(core: Core, call: AcknowledgeItems, caller: Grant) -> Acknowledged:
    request = _request(call, caller)
    core.submit(request)
    return finish(core, request)


def acknowledge_each(core: Core, call: AcknowledgeEach, caller: Grant) -> tuple[Acknowledged, ...]:
    requests = acknowledgements(call, caller)
    core.committer.submit_each(requests)
    return tuple(finish(core, request) for request in requests)


def acknowledgements(call: AcknowledgeEach, caller: Grant) -> Sequence[Acknowledge]:
    """The requests of several calls, to be submitted."""
    check_calls(call.calls)
    return [_request(each, caller) for each in call.calls]


def _request(call: AcknowledgeItems, caller: Grant) -> Acknowledge:
    return Acknowledge(named(call.items, call.ranges, call.indices), caller)


def is_to_be_finished(request: CommitRequest[Acknowledged]) -> bool:
    """Whether a request names items of estimated batches, which are counted after its commit."""
    return isinstance(request, Acknowledge) and request.is_to_be_counted


def finish(core: Core, request: CommitRequest[Acknowledged]) -> Acknowledged:
    """Count the items of estimated batches, which may have to wait for another system."""
    if isinstance(request, Acknowledge) and request.is_to_be_counted:
        return batches.finish(core, request)
    return request.answer()


def read_batch(core: Core, call: ReadBatch, caller: Grant) -> BatchStatus:
    return batches.status(core, check_id(call.batch_id), caller, surely=True)


def wait_for_batch(core: Core, call: WaitForBatch, caller: Grant) -> BatchStatus | None:
    return batches.wait(core, check_id(call.batch_id), call.seconds, caller)


def delete_batch(core: Core, call: DeleteBatch, caller: Grant) -> None:
    batch_upkeep.delete(core, check_id(call.batch_id), caller)


def reap(core: Core, call: ReapBatches, _: Grant) -> Reaped:
    return batch_upkeep.reap(core, dry_run=call.dry_run)


FUNCTIONS: Functions = {
    OpenBatch: batches.open_batch,
    AddItems: add_items,
    SealBatch: seal,
    AcknowledgeItems: acknowledge,
    AcknowledgeEach: acknowledge_each,
    ReadBatch: read_batch,
    ListBatches: batches.batches,
    ListPendingItems: batches.pending_items,
    WaitForBatch: wait_for_batch,
    DeleteBatch: delete_batch,
    ReapBatches: reap,
    **part_calls.FUNCTIONS,
}
