"""A shard's share of a consignment over several shards: its parts are staged, prepared in a round, and applied or released.

Preparing stores the final runs and the holds on their messages durably. A hub loads all holds on opening, before its first
call. It asks the consignment's home repeatedly what became of the round, and does what home answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec

from restante.calls.shards import (
    ApplyConsignment,
    AskRound,
    EndRound,
    LookUpConsignment,
    NamedStagedRun,
    PrepareConsignment,
    RoundState,
    StagedPart,
    StagePart,
    Vote,
)
from restante.errors import Unavailable
from restante.hub.batches.batch_counts import count, counts_of, home_of
from restante.hub.batches.batch_parts import part_of, put_part, report_if_final
from restante.hub.consignments.commit_consignment import ahead, has_met, number_mail
from restante.hub.consignments.consignments import check_id
from restante.hub.consignments.stage import blobs_of, by_partition, laid_out_parcel, put_staged_run
from restante.hub.consignments.staged_mail import (
    PartitionMail,
    holds,
    load_bags,
    prepare,
    refreshed,
    reloaded,
    without_stored_originals,
)
from restante.hub.engine.core import Core, MailboxAddress, Stale, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Ask, Procedure, run
from restante.hub.publishing.holds import HeldSoFar, Holds, is_held_before
from restante.hub.publishing.sent import sent_columns, taken_apart
from restante.model.access.access import Grant
from restante.model.batches.batch import Counts
from restante.model.consignments.consignment import (
    Attempt,
    StagedParcel,
    StagedRun,
    check_known,
    check_parcel,
    closed_as,
)
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.model.publishing.few_or_many import EncodedPublish
from restante.model.shards.batch_parts import BatchPart, PartState, bound_only
from restante.model.shards.rounds import (
    Numbered,
    PreparedRow,
    RoundPhase,
    StagedPartRow,
    decode_prepared,
    decode_staged_part,
    encode_round,
    staged_part_key,
)
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.keys import after_prefix, number_key
from restante.model.storage.run import RunState, decode_run
from restante.model.storage.segment_frame import EncodedSegment
from restante.ports.store import StoreReader

_TRIES = 3
_ID_BYTES = 16

ConsignmentPlace = tuple[int, bytes]
"""A partition and a consignment."""


@dataclass(slots=True)
class Prepared:
    """The parts of this shard in consignments over several shards, as committed."""

    rows: dict[ConsignmentPlace, PreparedRow] = field(default_factory=dict)
    mail: dict[ConsignmentPlace, PartitionMail] = field(default_factory=dict)
    """The judged mail of rows that are not applied. After a restart it is read from the runs."""
    staged: dict[bytes, int] = field(default_factory=dict)
    """The consignments with staged parts, and when home was last asked about each."""
    look_again: int = 60 * 1_000_000
    """How long to wait before asking home again."""


def load_prepared(core: Core, rows: StoreReader) -> None:
    """Load what is prepared, and its holds. Called before the hub's first call."""
    memory = core.memory(Prepared)
    for partition in core.owned:
        for key, _ in rows.scan(partition, Space.STAGED_PART):
            memory.staged[key[:_ID_BYTES]] = 0
        for consignment, value in rows.scan(partition, Space.PREPARED):
            row = decode_prepared(value)
            memory.rows[partition, consignment] = row
            if not row.applied:
                mail = reloaded(core, partition, row.runs)
                memory.mail[partition, consignment] = mail
                core.memory(Holds).add(partition, consignment, mail.fingerprint)


def promised_for(core: Core, address: MailboxAddress) -> int:
    """How many messages for a mailbox are prepared but not visible yet."""
    mail = core.memory(Prepared).mail
    segments = [
        stored.segment
        for (partition, _), own in tuple(mail.items())
        if partition == address.partition
        for each in own.runs
        for stored in each.segments
    ]
    return sum([int(one.drawers["count"][one.recipient_hash == address.hash].sum()) for one in segments])


def stage_part(core: Core, call: StagePart, caller: Grant) -> StagedPart:
    """Stage this shard's share of a parcel, after asking home whether the consignment is open."""
    return run(core, staging(core, call, caller))


def staging(core: Core, call: StagePart, caller: Grant) -> Procedure[StagedPart]:
    parcel, consignment = check_parcel(call.writer, call.attempt, call.parcel), check_id(call.consignment_id)
    if isinstance(call.sent, EncodedPublish):
        raise taken_apart()
    state: ConsignmentState | None = yield Ask(home_of(core, consignment), LookUpConsignment(consignment))
    if state is None:
        check_known(None, call.consignment_id)
    elif state is not ConsignmentState.OPEN:
        raise closed_as(state, call.consignment_id)
    columns = sent_columns(core, call.sent, caller)
    segments = laid_out_parcel(core, columns) if len(columns) else []
    key = staged_part_key(consignment, parcel, call.digest)
    return core.commit(partial(_plan_stage, core, key, segments))


def _plan_stage(core: Core, key: bytes, segments: Sequence[EncodedSegment], draft: RequestDraft) -> StagedPart:
    """Put the runs of a part; runs that are staged already are returned again."""
    runs, messages, length = [], 0, 0
    for own in by_partition(segments):
        partition = own[0].group
        row = _staged_before(draft, partition, key)
        if row is None:
            identity = put_staged_run(core, draft, own).identity
            row = StagedPartRow(sum([each.rows for each in own]), sum([each.length for each in own]), identity)
            draft.put(partition, Space.STAGED_PART, key, encode_round(row))
        runs.append(StagedRun(partition, row.identity))
        messages, length = messages + row.messages, length + row.length
    draft.applies.append(lambda: core.memory(Prepared).staged.setdefault(key[:_ID_BYTES], core.clock()))
    return StagedPart(messages, length, tuple(runs))


def _staged_before(draft: RequestDraft, partition: int, key: bytes) -> StagedPartRow | None:
    value = draft.get(partition, Space.STAGED_PART, key)
    return None if value is None else decode_staged_part(value)


def prepare_consignment(core: Core, call: PrepareConsignment, _: Grant) -> Vote:
    """Judge and prepare the runs that home names, in one commit. A repeated call for the same round gets the same answer."""
    for named in call.runs:
        core.require_owned(named.partition)
    for _try in range(_TRIES):
        with core.pins.reading(), suppress(Stale), ahead(core) as written:
            mail = _look(core, call, written)
            if not all(refreshed(core, own) for own in mail):
                raise Stale
            return core.commit(partial(_plan_prepare, core, call, mail))
    return Vote(busy=True)


def _look(core: Core, call: PrepareConsignment, written: list[BlobKey]) -> list[PartitionMail]:
    mail = []
    for partition, runs in sorted(_by_partition(call.runs).items()):
        bags = load_bags(core, partition, runs)
        if bags is None:
            raise Unavailable(f"Consignment {uuid_text(call.consignment)} is not staged here any more. Try again.")
        mail.append(prepare(core, partition, bags, written))
    return mail


def _by_partition(runs: Sequence[NamedStagedRun]) -> dict[int, list[tuple[StagedParcel, int]]]:
    found: dict[int, list[tuple[StagedParcel, int]]] = {}
    for run_ in runs:
        parcel = StagedParcel(Attempt(run_.writer, run_.attempt), run_.parcel)
        found.setdefault(run_.partition, []).append((parcel, run_.identity))
    return found


def _plan_prepare(core: Core, call: PrepareConsignment, mail: Sequence[PartitionMail], draft: RequestDraft) -> Vote:
    before = {own.partition: prepared_row(draft, own.partition, call.consignment) for own in mail}
    if any(row is not None and (row.round > call.round or row.applied) for row in before.values()):
        raise Unavailable("This round is over. Ask again.")
    if all(row is not None and row.round == call.round for row in before.values()):
        return _vote(before)
    if not all(holds(core, own, draft.count(own.partition)) for own in mail) or has_met(draft, mail):
        raise Stale
    if any(_is_busy(core, draft, own, call.consignment) for own in mail):
        return Vote(busy=True)
    staged = _by_partition(call.runs)
    for own in mail:
        _let_go(core, draft, own.partition, call.consignment)
        before[own.partition] = _put_prepared(core, draft, own, call, [name for _, name in staged[own.partition]])
    return _vote(before)


def _vote(rows: dict[int, PreparedRow | None]) -> Vote:
    parts = tuple((at, row.messages, row.duplicates) for at, row in rows.items() if row is not None)
    return Vote(busy=False, parts=parts)


def _is_busy(core: Core, draft: RequestDraft, mail: PartitionMail, consignment: bytes) -> bool:
    met = core.memory(Holds).met(mail.partition, mail.judged, but=consignment)
    return bool(met.any()) or is_held_before(draft, mail.partition, mail.judged, but=consignment)


def _put_prepared(
    core: Core, draft: RequestDraft, mail: PartitionMail, call: PrepareConsignment, staged: Sequence[int]
) -> PreparedRow:
    for own in mail.runs:
        if own.row.identity not in staged:
            draft.put_run(mail.partition, own.row)
            draft.counters[mail.partition] = draft.count(mail.partition)  # Writes `next_blob`.
    names = tuple(own.row.identity for own in mail.runs)
    duplicates = len(mail.judged) - mail.messages
    row = PreparedRow(call.round, call.batch, names, tuple(staged), mail.messages, duplicates)
    _put(core, draft, (mail.partition, call.consignment), row)
    draft.note(HeldSoFar).held.append((mail.partition, call.consignment, mail.fingerprint))
    draft.applies.append(partial(_hold, core, (mail.partition, call.consignment), mail))
    return row


def _hold(core: Core, place: ConsignmentPlace, mail: PartitionMail) -> None:
    core.memory(Prepared).mail[place] = mail
    core.memory(Holds).add(*place, mail.fingerprint)


def prepared_row(draft: RequestDraft, partition: int, consignment: bytes) -> PreparedRow | None:
    value = draft.get(partition, Space.PREPARED, consignment)
    return None if value is None else decode_prepared(value)


def _put(core: Core, draft: RequestDraft, place: ConsignmentPlace, row: PreparedRow) -> None:
    draft.put(place[0], Space.PREPARED, place[1], encode_round(row))
    draft.applies.append(partial(core.memory(Prepared).rows.__setitem__, place, row))


def _let_go(core: Core, draft: RequestDraft, partition: int, consignment: bytes) -> None:
    """Undo the preparation of a round: free its holds, and drop the runs that only it needed."""
    row = prepared_row(draft, partition, consignment)
    if row is None or row.applied:
        return
    _drop_runs(core, draft, partition, [name for name in row.runs if name not in row.staged])
    draft.delete(partition, Space.PREPARED, consignment)
    draft.applies.append(partial(_forget, core, (partition, consignment)))


def _end(core: Core, draft: RequestDraft, partition: int, consignment: bytes) -> None:
    """Undo the preparation for good, and report the batch's part: this may be what completes it."""
    row = prepared_row(draft, partition, consignment)
    _let_go(core, draft, partition, consignment)
    if row is not None and not row.applied:
        _report(core, draft, partition, row.batch)


def _report(core: Core, draft: RequestDraft, partition: int, batch_id: bytes) -> None:
    if batch_id:
        report_if_final(core, draft, partition, batch_id, bound_only(counts_of(core, draft, partition, batch_id)))


def _forget(core: Core, place: ConsignmentPlace) -> None:
    core.memory(Prepared).rows.pop(place, None)
    core.memory(Prepared).mail.pop(place, None)
    core.memory(Holds).remove(*place)
    core.committer.unpark()


def _drop_runs(core: Core, draft: RequestDraft, partition: int, names: Sequence[int]) -> None:
    """Drop those of these runs that are still staged."""
    blobs: list[BlobKey] = []
    for name in names:
        value = draft.get(partition, Space.RUN, number_key(name))
        row = None if value is None else decode_run(value)
        if row is not None and row.state is RunState.STAGED:
            draft.delete(partition, Space.RUN, number_key(name))
            blobs += blobs_of(partition, row)
    draft.applies.append(lambda: core.pins.bury(blobs))


def end_round(core: Core, call: EndRound, _: Grant) -> None:
    for partition in call.partitions:
        core.require_owned(partition)
    core.commit(partial(_plan_end, core, call))


def _plan_end(core: Core, call: EndRound, draft: RequestDraft) -> None:
    for partition in call.partitions:
        row = prepared_row(draft, partition, call.consignment)
        if row is not None and row.round <= call.round:
            _end(core, draft, partition, call.consignment)


def apply_consignment(core: Core, call: ApplyConsignment, _: Grant) -> tuple[Numbered, ...]:
    """Make the decided messages visible, once; return their numbers, also on repeated calls."""
    for partition in call.partitions:
        core.require_owned(partition)
    return core.commit(partial(_plan_apply, core, call))


def _plan_apply(core: Core, call: ApplyConsignment, draft: RequestDraft) -> tuple[Numbered, ...]:
    numbered = []
    for partition in call.partitions:
        row = prepared_row(draft, partition, call.consignment)
        if row is None or row.round != call.round:
            raise Unavailable("This round is not prepared here. Ask again.")
        if not row.applied:
            row = _apply(core, draft, partition, call, row)
        numbered.append((partition, row.first, row.last))
    return tuple(numbered)


def _apply(core: Core, draft: RequestDraft, partition: int, call: ApplyConsignment, row: PreparedRow) -> PreparedRow:
    place = (partition, call.consignment)
    mail = core.memory(Prepared).mail[place]
    if mail.seen.has_lost(draft.count(partition)):
        mail = without_stored_originals(mail)
    if row.batch:
        part = part_of(draft, partition, row.batch) or BatchPart()
        state = PartState(max(part.state, PartState.CLOSED))
        put_part(draft, partition, row.batch, msgspec.structs.replace(part, state=state, closed_at=core.clock()))
    numbers = number_mail(core, draft, mail, row.batch, call.decided_at)
    bound = sum([len(some.rows) for some in mail.duplicates])
    if row.batch and row.duplicates > bound:  # Duplicates that a restart or an erasure has forgotten are only counted.
        count(core, draft, partition, row.batch, Counts(duplicates=row.duplicates - bound))
    _, first, last = numbers or (partition, 0, -1)
    done = msgspec.structs.replace(row, applied=True, first=first, last=last)
    _put(core, draft, place, done)
    _report(core, draft, partition, row.batch)
    draft.applies.append(partial(_applied, core, place))
    return done


def _applied(core: Core, place: ConsignmentPlace) -> None:
    core.memory(Prepared).mail.pop(place, None)
    core.memory(Holds).remove(*place)
    core.committer.unpark()


def inquiring(core: Core) -> Procedure[None]:
    """Ask home about every round prepared or applied here, and do what it answers; then ask about staged parts."""
    rounds: dict[tuple[bytes, int], list[int]] = {}
    for (partition, consignment), row in sorted(core.memory(Prepared).rows.items()):
        rounds.setdefault((consignment, row.round), []).append(partition)
    for (consignment, number), partitions in rounds.items():
        with suppress(Unavailable):
            yield from _inquiring(core, consignment, number, tuple(partitions))
    yield from _looking_after(core)


def _inquiring(core: Core, consignment: bytes, number: int, partitions: tuple[int, ...]) -> Procedure[None]:
    home = home_of(core, consignment)
    state: RoundState = yield Ask(home, AskRound(consignment, number, partitions))
    if state.phase is RoundPhase.DECIDED:
        core.commit(partial(_plan_apply, core, ApplyConsignment(consignment, number, state.decided_at, partitions)))
    elif state.phase is RoundPhase.ENDED:
        core.commit(partial(_plan_end, core, EndRound(consignment, number, partitions)))
    elif state.phase is RoundPhase.RECORDED:
        core.commit(partial(_plan_recorded, core, consignment, partitions))


def _plan_recorded(core: Core, consignment: bytes, partitions: Sequence[int], draft: RequestDraft) -> None:
    """Forget rounds whose numbers home has recorded. Rows not applied were prepared again by a late message, and end."""
    for partition in partitions:
        row = prepared_row(draft, partition, consignment)
        if row is not None and row.applied:
            draft.delete(partition, Space.PREPARED, consignment)
            draft.applies.append(partial(core.memory(Prepared).rows.pop, (partition, consignment), None))
        else:
            _end(core, draft, partition, consignment)


def _looking_after(core: Core) -> Procedure[None]:
    """Drop parts whose consignment is closed or unknown at home."""
    memory = core.memory(Prepared)
    used = {consignment for _, consignment in memory.rows}
    for consignment, asked_at in sorted(memory.staged.items()):
        if consignment in used or core.clock() < asked_at + memory.look_again:
            continue
        with suppress(Unavailable):
            state = yield Ask(home_of(core, consignment), LookUpConsignment(consignment))
            memory.staged[consignment] = core.clock()
            if state is not ConsignmentState.OPEN:
                drop_parts(core, consignment)


def drop_parts(core: Core, consignment: bytes) -> None:
    """Drop everything staged here for a consignment, except what is prepared or visible."""
    for partition in core.owned:
        end = after_prefix(consignment)
        while entries := core.store.scan(partition, Space.STAGED_PART, start=consignment, end=end, limit=20):
            core.commit(partial(_plan_drop, core, partition, entries))
    core.memory(Prepared).staged.pop(consignment, None)


def _plan_drop(core: Core, partition: int, entries: Sequence[tuple[bytes, bytes]], draft: RequestDraft) -> None:
    for key, value in entries:
        row = prepared_row(draft, partition, key[:_ID_BYTES])
        if row is not None and not row.applied:
            raise Unavailable("The consignment is being committed. Try again.")
        draft.delete(partition, Space.STAGED_PART, key)
        _drop_runs(core, draft, partition, [decode_staged_part(value).identity])
