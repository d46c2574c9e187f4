"""A consignment over several shards, at its home: noting parcels, running rounds, deciding, and carrying out the decision.

A round asks all shards to prepare (`voting`). If all of them promise, home decides alone, in one commit, with the time and the
seal of the batch (`plan_decision`); then the shards apply it (`applying`). After a crash, a round that was not decided is
ended, and a decided one is carried on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from restante.calls.consignments import StageParcel
from restante.calls.shards import (
    ApplyConsignment,
    AskRound,
    EndRound,
    LookUpConsignment,
    NamedStagedRun,
    NoteParcel,
    PrepareConsignment,
    RoundState,
    StagePart,
    Vote,
)
from restante.errors import RestanteError, Unavailable
from restante.hub.batches.batch_counts import home_of, row_of
from restante.hub.batches.batch_parts import PartWork, plan_enlist
from restante.hub.batches.batches import plan_seal
from restante.hub.batches.part_calls import closing
from restante.hub.consignments.commit_consignment import count_committed, staged_runs
from restante.hub.consignments.consignments import check_id, discard, leave, require_no_round, touch, usable_row
from restante.hub.consignments.prepared import Prepared, inquiring, stage_part
from restante.hub.consignments.rounds_in_doubt import note_doubts
from restante.hub.consignments.stage import check_room, open_consignment, repeated, stored_row
from restante.hub.consignments.staged_parcels import (
    NOTHING_STAGED,
    OpenRounds,
    StagedSoFar,
    StagingRoom,
    is_staged_before,
)
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Ask, Procedure, Rest, run
from restante.hub.engine.tasks import Task, when_told
from restante.model.access.access import EVERYTHING, Grant
from restante.model.batches.batch import check_open
from restante.model.consignments.consignment import (
    Attempt,
    ParcelRow,
    answer_again,
    check_complete,
    check_parcel,
    decode_consignment,
    digest_of,
    encode_consignment,
    encode_parcel,
    parcel_key,
)
from restante.model.consignments.consignment_answers import ConsignmentState, Staged
from restante.model.mailboxes.answers import Receipt
from restante.model.shards.ranges import by_shard
from restante.model.shards.rounds import (
    Numbered,
    PartCounts,
    RoundPhase,
    RoundRow,
    decode_round,
    encode_round,
    next_round,
    phase_for,
)
from restante.model.storage.changes import Space

_ROUNDS_MAX = 20
_WAIT_SECONDS = 5.0
_LATE_SECONDS = 0.2
"""The interval at which callers that have waited too long are refused."""
_PAUSE_SECONDS = 0.05
_log = logging.getLogger(__name__)


def round_of(draft: RequestDraft, home: int, consignment: bytes) -> RoundRow | None:
    value = draft.get(home, Space.CONSIGNMENT_ROUND, consignment)
    return None if value is None else decode_round(value)


def _put_round(core: Core, draft: RequestDraft, consignment: bytes, row: RoundRow) -> None:
    draft.put(home_of(core, consignment), Space.CONSIGNMENT_ROUND, consignment, encode_round(row))
    draft.applies.append(partial(core.memory(OpenRounds).enter, consignment, row))


def look_up(core: Core, call: LookUpConsignment, _: Grant) -> ConsignmentState | None:
    value = stored_row(core, call.consignment)
    core.store.require_owned()
    return None if value is None else decode_consignment(value).state


def ask_round(core: Core, call: AskRound, _: Grant) -> RoundState:
    value = core.store.get(home_of(core, call.consignment), Space.CONSIGNMENT_ROUND, call.consignment)
    core.store.require_owned()
    row = None if value is None else decode_round(value)
    phase = phase_for(row, call.round, call.partitions)
    return RoundState(phase, 0 if row is None else row.decided_at)


def note_parcel(core: Core, call: NoteParcel, caller: Grant) -> Staged:
    """Note a parcel all parts of which are staged, which makes it part of the consignment."""
    return run(core, noting(core, call, caller))


def stage_here(core: Core, call: StageParcel, digest: bytes, caller: Grant) -> Staged:
    """Stage a parcel whose messages are all for this shard, which is also the consignment's home."""
    name = (call.writer, call.attempt, call.parcel)
    part = stage_part(core, StagePart(call.consignment_id, call.sent, *name, digest), caller)
    noted = NoteParcel(call.consignment_id, *name, digest, part.messages, part.length, part.runs)
    return note_parcel(core, noted, caller)


def noting(core: Core, call: NoteParcel, caller: Grant) -> Procedure[Staged]:
    consignment_id = check_id(call.consignment_id)
    yield from waiting_out(core, consignment_id)
    parcel = check_parcel(call.writer, call.attempt, call.parcel)
    consignment = open_consignment(core, consignment_id, stored_row(core, consignment_id), caller)
    row = ParcelRow(call.messages, call.digest, core.clock(), call.length, call.runs)

    def plan(draft: RequestDraft) -> Staged:
        home, key = home_of(core, consignment_id), parcel_key(consignment_id, parcel)
        require_no_round(draft, home, consignment_id)
        open_consignment(core, consignment_id, draft.get(home, Space.CONSIGNMENT, consignment_id))
        before = draft.get(home, Space.CONSIGNMENT_PARCEL, key)
        if before is not None:
            return repeated(before, call.digest, parcel)
        check_room(consignment, parcel)
        draft.put(home, Space.CONSIGNMENT_PARCEL, key, encode_parcel(row))
        draft.note(StagedSoFar).consignments.add(consignment_id)
        draft.applies.append(partial(core.memory(StagingRoom).add, consignment, parcel, row, reservation))
        return Staged(staged=row.messages)

    with core.memory(StagingRoom).reserved(core.settings, consignment, call.length) as reservation:
        return core.commit(plan)


def discard_alone(core: Core, consignment_id: bytes, caller: Grant) -> None:
    """Discard a consignment while no round is being prepared."""
    run(core, waiting_out(core, consignment_id))
    discard(core, consignment_id, caller)


def waiting_out(core: Core, consignment: bytes) -> Procedure[None]:
    """Wait while a round is being prepared, whose parcels must not change."""
    for _ in range(round(_WAIT_SECONDS / _PAUSE_SECONDS)):
        row = core.memory(OpenRounds).rows.get(consignment)
        if row is None or row.phase is not RoundPhase.PREPARING:
            return
        yield Rest(_PAUSE_SECONDS)


def commit(core: Core, consignment_id: bytes, announced: Mapping[Attempt, int], caller: Grant) -> Receipt:
    """Make the messages of the announced attempts visible, in all shards or in none."""
    return run(core, committing(core, consignment_id, announced, caller))


def committing(
    core: Core, consignment_id: bytes, announced: Mapping[Attempt, int], caller: Grant
) -> Procedure[Receipt]:
    """Run rounds until one is decided, then apply it. A consignment that is committed already gets the same answer."""
    usable_row(core, consignment_id, caller)
    yield from _taking_turn(core, consignment_id)
    try:
        touch(core, consignment_id)
        if usable_row(core, consignment_id, caller).state is ConsignmentState.OPEN:
            yield from _deciding(core, consignment_id, announced)
        yield from applying(core, consignment_id)
    finally:
        core.memory(OpenRounds).under_way.discard(consignment_id)
    return answer_again(usable_row(core, consignment_id, caller), uuid_text(consignment_id), announced)


def _taking_turn(core: Core, consignment_id: bytes) -> Procedure[None]:
    """Wait until no other caller is committing the same consignment."""
    under_way = core.memory(OpenRounds).under_way
    while consignment_id in under_way:
        yield Rest(_PAUSE_SECONDS)
    under_way.add(consignment_id)


def _deciding(core: Core, consignment_id: bytes, announced: Mapping[Attempt, int]) -> Procedure[None]:
    for tried in range(_ROUNDS_MAX):
        row, runs, batch = begin(core, consignment_id, announced)
        votes = yield from voting(core, consignment_id, row, runs, batch)
        if votes is not None:
            decided = yield from _decision(core, consignment_id, row, votes, announced)
            if decided:
                return
        yield Rest((tried + core.random(1)[0] / 256) * _PAUSE_SECONDS)
    raise Unavailable(
        "Other commits under way have the same messages. Nothing was committed; the consignment stays open."
    )


def begin(
    core: Core, consignment_id: bytes, announced: Mapping[Attempt, int]
) -> tuple[RoundRow, Sequence[NamedStagedRun], bytes]:
    """Begin the next round of a consignment; return its row, the runs of the winners, and the batch."""
    runs = _named_runs(core, consignment_id, announced)

    def plan(draft: RequestDraft) -> tuple[RoundRow, bytes]:
        home = home_of(core, consignment_id)
        consignment = open_consignment(core, consignment_id, draft.get(home, Space.CONSIGNMENT, consignment_id))
        if is_staged_before(draft, consignment_id):
            raise Unavailable("Messages are being staged for the consignment. Try again.")
        staged = {attempt: consignment.attempts.get(attempt, NOTHING_STAGED).messages for attempt in announced}
        check_complete(announced, staged)
        if consignment.row.batch:
            check_open(row_of(core, draft, consignment.row.batch), consignment.row.batch)
        row = next_round(round_of(draft, home, consignment_id), sorted({run_.partition for run_ in runs}))
        _put_round(core, draft, consignment_id, row)
        return row, consignment.row.batch

    row, batch = core.commit(plan)
    if runs != _named_runs(core, consignment_id, announced):
        core.commit(partial(_plan_end, core, consignment_id, row.number))
        raise Unavailable("Messages were staged while the consignment was being committed. Try again.")
    return row, runs, batch


def _named_runs(core: Core, consignment_id: bytes, announced: Mapping[Attempt, int]) -> list[NamedStagedRun]:
    """The runs of the winners. Nothing is added to them while a round is being prepared."""
    return [
        NamedStagedRun(parcel.attempt.writer, parcel.attempt.number, parcel.number, partition, identity)
        for partition, named in sorted(staged_runs(core, consignment_id, announced).items())
        for parcel, identity in named
    ]


def voting(
    core: Core, consignment_id: bytes, row: RoundRow, runs: Sequence[NamedStagedRun], batch: bytes
) -> Procedure[list[PartCounts] | None]:
    """Ask all shards to prepare; return their promises, or None if one is busy. Errors end the round, and are raised."""
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    parts: list[PartCounts] = []
    for partitions in by_shard(core.shard.carrier.ranges(), row.partitions):
        own = tuple(run_ for run_ in runs if run_.partition in partitions)
        try:
            vote: Vote = yield Ask(partitions[0], PrepareConsignment(consignment_id, row.number, own, batch))
        except RestanteError:
            yield from ending(core, consignment_id, row)
            raise
        if vote.busy:
            yield from ending(core, consignment_id, row)
            return None
        parts += vote.parts
    return parts


def ending(core: Core, consignment_id: bytes, row: RoundRow) -> Procedure[None]:
    """End a round without a decision: home records it first, then tells the shards. A shard that misses it will ask."""
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    core.commit(partial(_plan_end, core, consignment_id, row.number))
    for partitions in by_shard(core.shard.carrier.ranges(), row.partitions):
        try:
            yield Ask(partitions[0], EndRound(consignment_id, row.number, partitions))
        except Unavailable as error:
            _log.info("Consignment %s: %s", uuid_text(consignment_id), error)


def _plan_end(core: Core, consignment_id: bytes, number: int, draft: RequestDraft) -> None:
    row = round_of(draft, home_of(core, consignment_id), consignment_id)
    if row is not None and row.number == number and row.phase is RoundPhase.PREPARING:
        _put_round(core, draft, consignment_id, msgspec.structs.replace(row, phase=RoundPhase.ENDED))


def _decision(
    core: Core, consignment_id: bytes, row: RoundRow, parts: Sequence[PartCounts], announced: Mapping[Attempt, int]
) -> Procedure[bool]:
    try:
        decided = core.commit(partial(plan_decision, core, consignment_id, row.number, tuple(parts), announced))
    except RestanteError as error:
        if not isinstance(error, Unavailable):  # Certainly nothing was stored.
            yield from ending(core, consignment_id, row)
        raise
    return decided


def plan_decision(
    core: Core,
    consignment_id: bytes,
    number: int,
    parts: tuple[PartCounts, ...],
    announced: Mapping[Attempt, int],
    draft: RequestDraft,
) -> bool:
    """Record the decision, with its time and the seal of the batch; return False if the round was ended meanwhile."""
    home, now = home_of(core, consignment_id), core.clock()
    row, value = round_of(draft, home, consignment_id), draft.get(home, Space.CONSIGNMENT, consignment_id)
    if row is None or value is None or row.number != number or row.phase is not RoundPhase.PREPARING:
        return False
    before = decode_consignment(value)
    accepted = sum([messages for _, messages, _ in parts])
    committed = msgspec.structs.replace(
        before,
        state=ConsignmentState.COMMITTED,
        closed_at=now,
        accepted=accepted,
        duplicates=sum([duplicates for _, _, duplicates in parts]),
        named=digest_of(announced),
    )
    draft.put(home, Space.CONSIGNMENT, consignment_id, encode_consignment(committed))
    _put_round(
        core, draft, consignment_id, msgspec.structs.replace(row, phase=RoundPhase.DECIDED, decided_at=now, parts=parts)
    )
    if before.batch:
        check_open(row_of(core, draft, before.batch), before.batch)
        plan_enlist(draft, home, before.batch, row.partitions)
        plan_seal(core, before.batch, EVERYTHING, draft)
    draft.applies.append(partial(leave, core, consignment_id))
    draft.applies.append(partial(count_committed, core, committed))
    return True


def applying(core: Core, consignment_id: bytes) -> Procedure[None]:
    """Carry out a decision in all shards, and record their numbers; then close the other parts of the batch."""
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    home = home_of(core, consignment_id)
    value = core.store.get(home, Space.CONSIGNMENT_ROUND, consignment_id)
    row = None if value is None else decode_round(value)
    if row is None or row.phase is not RoundPhase.DECIDED:
        return
    for partitions in by_shard(core.shard.carrier.ranges(), row.missing):
        call = ApplyConsignment(consignment_id, row.number, row.decided_at, partitions)
        numbered = yield Ask(partitions[0], call)
        core.commit(partial(_plan_recorded, core, consignment_id, numbered))
    stored = stored_row(core, consignment_id)
    batch = b"" if stored is None else decode_consignment(stored).batch
    if batch:
        yield from closing(core, batch)


def _plan_recorded(core: Core, consignment_id: bytes, numbered: Sequence[Numbered], draft: RequestDraft) -> None:
    home = home_of(core, consignment_id)
    row, value = round_of(draft, home, consignment_id), draft.get(home, Space.CONSIGNMENT, consignment_id)
    if row is None or value is None:
        return
    new = [tuple(own) for own in numbered if own[0] in row.missing]
    applied = tuple(sorted([*row.applied, *new]))
    _put_round(core, draft, consignment_id, msgspec.structs.replace(row, applied=applied))
    shown = tuple(own for own in applied if own[1] <= own[2])
    told = msgspec.structs.replace(decode_consignment(value), partitions=shown)
    draft.put(home, Space.CONSIGNMENT, consignment_id, encode_consignment(told))


def between_shards(core: Core) -> Procedure[None]:
    """Do the pending work between shards about consignments, once."""
    rounds = core.memory(OpenRounds)
    for consignment_id, row in sorted(rounds.rows.items()):
        if consignment_id in rounds.under_way:
            continue
        rounds.under_way.add(consignment_id)
        try:
            if row.phase is RoundPhase.PREPARING:
                yield from ending(core, consignment_id, row)
            else:
                yield from applying(core, consignment_id)
        except Unavailable as error:
            _log.info("Consignment %s: %s", uuid_text(consignment_id), error)
        finally:
            rounds.under_way.discard(consignment_id)
    yield from inquiring(core)


def hasten(core: Core) -> bool:
    """Start the pending work between shards now, for batches too; return whether there is any."""
    rounds, work = core.memory(OpenRounds), core.memory(PartWork)
    rounds.wanted.set()
    work.wanted.set()
    return bool(rounds.rows or core.memory(Prepared).rows or work.reports or work.closings)


def _refuse_late(core: Core) -> None:
    """Refuse publishes that have been parked too long. A task of its own, because other tasks may wait for another shard."""
    while not core.closing.wait(_LATE_SECONDS):
        core.committer.refuse_parked(_WAIT_SECONDS - _LATE_SECONDS)


def _once(core: Core) -> int:
    note_doubts(core)
    run(core, between_shards(core))
    return 0


PARKED_TASK = Task("parked", _refuse_late, is_wanted=lambda core: core.shard is not None)
TASK = when_told("rounds", lambda core: core.memory(OpenRounds).wanted, _once)
