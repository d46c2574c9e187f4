"""Batches over several shards: the calls by which shards enlist, close, report and count parts.

The batch's home decides, and the shards that have its messages carry it out. A shard repeats a call until it is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from restante.calls.shards import CloseBatchParts, CountBatchParts, EnlistBatch, EnlistedBatch, ReportBatchParts
from restante.errors import Unavailable
from restante.hub.batches.batch_counts import conclude, counts_of, home_of, row_of
from restante.hub.batches.batch_parts import (
    Enlisted,
    PartWork,
    enlisted_of,
    part_of,
    plan_closed,
    plan_enlist,
    plan_enlisted,
    plan_final,
    put_part,
    report_if_final,
    stored_enlisted,
)
from restante.hub.batches.memory import BatchMemory
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Ask, Functions, Procedure, run
from restante.hub.engine.tasks import when_told
from restante.model.access.access import Grant
from restante.model.batches.batch import NOTHING, BatchRow, Counts, check_open, decode_batch, decode_counts
from restante.model.shards.batch_parts import BatchPart, PartState, bound_only, by_hand_only
from restante.model.shards.ranges import by_shard
from restante.model.storage.changes import EntryKey, Space

_log = logging.getLogger(__name__)


def enlisting(core: Core, batch_id: bytes) -> Procedure[None]:
    """Enlist this shard's partitions at home, before their first message of a batch. Home may refuse."""
    partitions = tuple(core.owned)
    answer: EnlistedBatch = yield Ask(home_of(core, batch_id), EnlistBatch(batch_id, partitions))
    core.commit(partial(plan_enlisted, partitions, batch_id, answer.owner))


def enlist_if_new(core: Core, batch_id: bytes) -> None:
    """Enlist this shard's partitions with a batch that is new here. Call it in a publisher's thread, not the committer's."""
    if is_to_be_enlisted(core, batch_id):
        run(core, enlisting(core, batch_id))


def is_to_be_enlisted(core: Core, batch_id: bytes) -> bool:
    """Whether one of this shard's partitions is not enlisted with the batch, as far as is stored here."""
    if core.shard is None:
        return False
    places = [EntryKey(partition, Space.BATCH_PART, batch_id) for partition in core.owned]
    return len(core.store.get_many(places)) < len(places)


def enlist(core: Core, call: EnlistBatch, _: Grant) -> EnlistedBatch:
    return core.commit(partial(_plan_enlist, core, call))


def _plan_enlist(core: Core, call: EnlistBatch, draft: RequestDraft) -> EnlistedBatch:
    row = check_open(row_of(core, draft, call.batch), call.batch)
    plan_enlist(draft, home_of(core, call.batch), call.batch, call.partitions)
    return EnlistedBatch(row.owner)


def close_parts(core: Core, call: CloseBatchParts, _: Grant) -> tuple[tuple[int, Counts], ...]:
    for partition in call.partitions:
        core.require_owned(partition)
    return core.commit(partial(_plan_close, core, call))


def _plan_close(core: Core, call: CloseBatchParts, draft: RequestDraft) -> tuple[tuple[int, Counts], ...]:
    state, final = PartState.DELETED if call.deleted else PartState.CLOSED, []
    for partition in call.partitions:
        part = part_of(draft, partition, call.batch) or BatchPart()
        if part.state < state:
            closed = msgspec.structs.replace(part, state=state, closed_at=core.clock())
            put_part(draft, partition, call.batch, closed)
        if call.deleted:
            draft.delete(partition, Space.BATCH_REPORT, call.batch)
            draft.applies.append(partial(core.memory(PartWork).reports.discard, (partition, call.batch)))
            continue
        counts = bound_only(counts_of(core, draft, partition, call.batch))
        if report_if_final(core, draft, partition, call.batch, counts):
            final.append((partition, counts))
    if call.deleted:
        draft.applies.append(partial(core.memory(BatchMemory).work.tidy, call.batch))
    return tuple(final)


def report(core: Core, call: ReportBatchParts, _: Grant) -> None:
    core.commit(partial(_plan_report, core, call))


def _plan_report(core: Core, call: ReportBatchParts, draft: RequestDraft) -> None:
    if row_of(core, draft, call.batch) is None:
        return  # The batch was deleted.
    for partition, counts in call.parts:
        plan_final(draft, home_of(core, call.batch), call.batch, partition, counts)
    conclude(core, draft, call.batch)


def count_parts(core: Core, call: CountBatchParts, _: Grant) -> tuple[Counts, ...]:
    for partition in call.partitions:
        core.require_owned(partition)
    places = [EntryKey(partition, Space.BATCH_COUNT, call.batch) for partition in call.partitions]
    found = core.store.get_many(places)
    core.store.require_owned()
    return tuple(bound_only(decode_counts(found[place])) for place in places if place in found)


def gathering(core: Core, batch_id: bytes) -> Procedure[list[Counts]]:
    """All counts of a batch: those of items added by hand, from home, and the current ones of each partition."""
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    home = home_of(core, batch_id)
    own = core.store.get(home, Space.BATCH_COUNT, batch_id)
    gathered = [NOTHING if own is None else by_hand_only(decode_counts(own))]
    for partitions in by_shard(core.shard.carrier.ranges(), stored_enlisted(core, home, batch_id)):
        answer = yield Ask(partitions[0], CountBatchParts(batch_id, partitions))
        gathered.extend(answer)
    return gathered


def learning_final(core: Core, batch_id: bytes) -> Procedure[None]:
    """At home: ask for the final counts of a sealed batch that were not reported, after which it may become complete."""
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    home = home_of(core, batch_id)
    left = [partition for partition, part in stored_enlisted(core, home, batch_id).items() if part.final is None]
    for partitions in by_shard(core.shard.carrier.ranges(), left):
        final = yield Ask(partitions[0], CloseBatchParts(batch_id, partitions, deleted=False))
        core.commit(partial(_plan_closed, core, batch_id, partitions, PartState.CLOSED, final))
    core.commit(lambda draft: conclude(core, draft, batch_id))


def closing(core: Core, batch_id: bytes) -> Procedure[None]:
    """At home, after a batch was sealed or deleted: close all its parts, after which it may become complete."""
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    home = home_of(core, batch_id)
    while True:
        state = _wanted_state(core.store.get(home, Space.BATCH, batch_id))
        known = stored_enlisted(core, home, batch_id)
        late = [partition for partition, part in known.items() if part.state < state]
        if not late and core.commit(partial(_plan_all_closed, core, batch_id)):
            return
        for partitions in by_shard(core.shard.carrier.ranges(), late):
            final = yield Ask(partitions[0], CloseBatchParts(batch_id, partitions, state is PartState.DELETED))
            core.commit(partial(_plan_closed, core, batch_id, partitions, state, final))


def _wanted_state(value: bytes | None) -> PartState:
    """The state that the parts of a batch with this row must reach."""
    row = None if value is None else decode_batch(value)
    return PartState.DELETED if row is None or row.deleted_at else PartState.CLOSED


def _plan_closed(
    core: Core,
    batch_id: bytes,
    partitions: Sequence[int],
    state: PartState,
    final: Sequence[tuple[int, Counts]],
    draft: RequestDraft,
) -> None:
    home = home_of(core, batch_id)
    plan_closed(draft, home, batch_id, partitions, state)
    for partition, counts in final:
        plan_final(draft, home, batch_id, partition, counts)


def _plan_all_closed(core: Core, batch_id: bytes, draft: RequestDraft) -> bool:
    """Record that all parts are closed, and conclude the batch; return False if some are not."""
    home = home_of(core, batch_id)
    state = _wanted_state(draft.get(home, Space.BATCH, batch_id))
    known: Enlisted = enlisted_of(draft, home, batch_id)
    if any(part.state < state for part in known.values()):
        return False
    draft.delete(home, Space.BATCH_CLOSING, batch_id)
    draft.applies.append(partial(core.memory(PartWork).closings.discard, batch_id))
    row: BatchRow | None = conclude(core, draft, batch_id)
    if row is None:
        draft.applies.append(partial(core.memory(BatchMemory).work.tidy, batch_id))
    return True


def reporting(core: Core) -> Procedure[None]:
    """Send final counts to their homes. Counts that are not taken are sent again in the next round."""
    for batch_id, partitions in _due_reports(core):
        places = [EntryKey(partition, Space.BATCH_COUNT, batch_id) for partition in partitions]
        found = core.store.get_many(places)
        parts = tuple(
            (place.partition, bound_only(decode_counts(found[place])) if place in found else NOTHING)
            for place in places
        )
        try:
            yield Ask(home_of(core, batch_id), ReportBatchParts(batch_id, parts))
            core.commit(partial(_plan_taken, core, batch_id, partitions))
        except Unavailable as error:
            _log.info("The counts of batch %s were not taken: %s", uuid_text(batch_id), error)


def _due_reports(core: Core) -> Iterator[tuple[bytes, list[int]]]:
    due: dict[bytes, list[int]] = {}
    for partition, batch_id in sorted(core.memory(PartWork).reports):
        due.setdefault(batch_id, []).append(partition)
    yield from due.items()


def _plan_taken(core: Core, batch_id: bytes, partitions: Sequence[int], draft: RequestDraft) -> None:
    for partition in partitions:
        draft.delete(partition, Space.BATCH_REPORT, batch_id)
        draft.applies.append(partial(core.memory(PartWork).reports.discard, (partition, batch_id)))


def between_shards(core: Core) -> Procedure[None]:
    """Do the pending work between shards about batches, once."""
    for batch_id in sorted(core.memory(PartWork).closings):
        try:
            yield from closing(core, batch_id)
        except Unavailable as error:
            _log.info("The parts of batch %s are not closed yet: %s", uuid_text(batch_id), error)
    yield from reporting(core)


def _once(core: Core) -> int:
    run(core, between_shards(core))
    return 0


TASK = when_told("batch-parts", lambda core: core.memory(PartWork).wanted, _once)

FUNCTIONS: Functions = {
    EnlistBatch: enlist,
    CloseBatchParts: close_parts,
    ReportBatchParts: report,
    CountBatchParts: count_parts,
}
