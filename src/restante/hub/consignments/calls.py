"""The functions that carry out the calls about consignments."""

from __future__ import annotations

from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ListConsignments,
    ReadConsignment,
    StageParcel,
)
from restante.calls.nodes import ListRounds
from restante.calls.shards import (
    ApplyConsignment,
    AskRound,
    EndRound,
    LookUpConsignment,
    NoteParcel,
    PrepareConsignment,
    StagePart,
)
from restante.hub.consignments import commit_consignment, consignments, prepared, rounds, stage
from restante.hub.consignments.consignments import check_id
from restante.hub.consignments.rounds_in_doubt import list_rounds
from restante.hub.consignments.staged_parcels import StagingRoom
from restante.hub.engine import filing
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Functions
from restante.hub.publishing.sent import sent_columns, taken_apart
from restante.model.access.access import Grant
from restante.model.consignments.consignment import check_parcel, check_winners
from restante.model.consignments.consignment_answers import ConsignmentDetails, ConsignmentTotals, Staged
from restante.model.consignments.stageable_messages import check_stageable
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.parcel_digest import digests_of_columns
from restante.model.publishing.few_or_many import EncodedPublish


def stage_parcel(core: Core, call: StageParcel, caller: Grant) -> Staged:
    name = check_parcel(call.writer, call.attempt, call.parcel)
    if isinstance(call.sent, EncodedPublish):
        raise taken_apart()
    columns = sent_columns(core, call.sent, caller)
    check_stageable(columns, core.clock())
    if core.shard is not None:
        return rounds.stage_here(core, call, digests_of_columns(columns, core.deed.key).whole, caller)
    return stage.stage(core, check_id(call.consignment_id), columns, name, caller)


def commit(core: Core, call: CommitConsignment, caller: Grant) -> Receipt:
    filing.relieve(core)
    if core.shard is not None:
        return rounds.commit(core, check_id(call.consignment_id), check_winners(call.writers), caller)
    return commit_consignment.commit(core, check_id(call.consignment_id), check_winners(call.writers), caller)


def discard(core: Core, call: DiscardConsignment, caller: Grant) -> None:
    if core.shard is not None:
        rounds.discard_alone(core, check_id(call.consignment_id), caller)
    else:
        consignments.discard(core, check_id(call.consignment_id), caller)


def read_consignment(core: Core, call: ReadConsignment, caller: Grant) -> ConsignmentDetails:
    return consignments.details(core, check_id(call.consignment_id), caller)


def consignment_totals(core: Core) -> ConsignmentTotals:
    room = core.memory(StagingRoom)
    staged = [consignment.staged for consignment in tuple(room.open.values())]
    length, messages = sum([own.length for own in staged]), sum([own.messages for own in staged])
    return ConsignmentTotals(len(staged), length, messages, room.committed, room.accepted, room.duplicates)


FUNCTIONS: Functions = {
    BeginConsignment: consignments.open_consignment,
    StageParcel: stage_parcel,
    CommitConsignment: commit,
    DiscardConsignment: discard,
    ReadConsignment: read_consignment,
    ListConsignments: consignments.page,
    LookUpConsignment: rounds.look_up,
    AskRound: rounds.ask_round,
    NoteParcel: rounds.note_parcel,
    StagePart: prepared.stage_part,
    PrepareConsignment: prepared.prepare_consignment,
    ApplyConsignment: prepared.apply_consignment,
    EndRound: prepared.end_round,
    ListRounds: list_rounds,
}
