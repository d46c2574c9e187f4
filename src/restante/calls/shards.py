"""Calls of shards to one another. Nobody outside makes them: no route leads here.

Each may be repeated, and may come late or twice, so each carries a version, a number or a time that shows which is newer.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from restante.calls.call import Answer_co, Call, Home
from restante.errors import Fault
from restante.model.batches.batch import Counts
from restante.model.consignments.consignment import StagedRun
from restante.model.consignments.consignment_answers import ConsignmentState, Staged
from restante.model.groups.group import GroupRow
from restante.model.groups.group_answers import Running
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many
from restante.model.shards.group_parts import PartitionMove, PlacedPosition
from restante.model.shards.rounds import RoundPhase


class ShardCall(Call[Answer_co], frozen=True):
    """A call from one shard to another."""


class EnlistedBatch(msgspec.Struct, frozen=True, array_like=True):
    """A batch that takes messages of a partition from now on."""

    owner: bytes


class EnlistBatch(ShardCall[EnlistedBatch], frozen=True):
    """Tell the home shard that these partitions will have messages of the batch. Refused if the batch is closed."""

    batch: bytes
    partitions: tuple[int, ...]


class CloseBatchParts(ShardCall[tuple[tuple[int, Counts], ...]], frozen=True):
    """Have these partitions take no more messages of the batch, as its home shard asks. Answered when that is durable.

    The answer has the final counts of those partitions in which nothing of the batch is pending.
    """

    batch: bytes
    partitions: tuple[int, ...]
    deleted: bool = False


class ReportBatchParts(ShardCall[None], frozen=True):
    """Tell the home shard that nothing of the batch is pending in these partitions any more, with their final counts."""

    batch: bytes
    parts: tuple[tuple[int, Counts], ...]


class CountBatchParts(ShardCall[tuple[Counts, ...]], frozen=True):
    """Ask, from the home shard, what these partitions count of the batch now."""

    batch: bytes
    partitions: tuple[int, ...]


class DeliverNotice(ShardCall[None], frozen=True):
    """Tell a mailbox, from the batch's home shard, that the batch is complete. The message has always the same id, so it is there once."""

    recipient: str
    batch: bytes
    payload: bytes


class StagedPart(msgspec.Struct, frozen=True, array_like=True):
    """The part of a parcel that a shard has staged."""

    messages: int
    length: int
    runs: tuple[StagedRun, ...]


class StagePart(ShardCall[StagedPart], frozen=True):
    """Stage the messages of a parcel that a shard gets; `digest` is that of the whole parcel."""

    home = Home.ALL

    consignment_id: str
    sent: Few | Many | EncodedPublish
    writer: str
    attempt: int
    parcel: int
    digest: bytes


class JudgeMessages(ShardCall[tuple[Fault, ...]], frozen=True):
    """Ask, from a door that refuses the messages, which of them are in conflict here, or were erased. Nothing is stored."""

    sent: Few | Many | EncodedPublish


class NoteParcel(ShardCall[Staged], frozen=True):
    """Tell the home shard that all parts are staged: the parcel counts as staged from now on."""

    consignment_id: str
    writer: str
    attempt: int
    parcel: int
    digest: bytes
    messages: int
    length: int
    runs: tuple[StagedRun, ...]


class NamedStagedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that counts, and the parcel that it is of."""

    writer: str
    attempt: int
    parcel: int
    partition: int
    identity: int


class Vote(msgspec.Struct, frozen=True, array_like=True):
    """The mail that a shard can deliver. A shard that cannot deliver at all raises why."""

    busy: bool
    """Another round holds the same messages: try again later."""
    parts: tuple[tuple[int, int, int], ...] = ()
    """Partition, messages, duplicates."""


class PrepareConsignment(ShardCall[Vote], frozen=True):
    """Judge these runs, make them ready, hold their messages, and vote, as the home shard asks."""

    consignment: bytes
    round: int
    runs: tuple[NamedStagedRun, ...]
    batch: bytes = b""


class ApplyConsignment(ShardCall[tuple[tuple[int, int, int], ...]], frozen=True):
    """Make the messages of the round visible, once: the home shard has decided. Gives partition, first and last number."""

    consignment: bytes
    round: int
    decided_at: int
    partitions: tuple[int, ...]


class EndRound(ShardCall[None], frozen=True):
    """Let go of everything that this round and those before it hold: the home shard says that they come to nothing."""

    consignment: bytes
    round: int
    partitions: tuple[int, ...]


class RoundState(msgspec.Struct, frozen=True, array_like=True):
    phase: RoundPhase
    decided_at: int = 0


class AskRound(ShardCall[RoundState], frozen=True):
    """Ask the home shard, from a shard that is prepared, what became of the round."""

    consignment: bytes
    round: int
    partitions: tuple[int, ...]


class ShowMessage(ShardCall[bytes], frozen=True):
    """Ask the shard of a recipient for one of its messages as JSON, for a sender in another shard."""

    recipient: str
    message_id: str


class CutStep(Enum):
    """The steps of a shard for a backup of one moment over all shards, one after the other."""

    PREPARE = "prepare"
    HOLD = "hold"
    RELEASE = "release"
    DROP = "drop"


class CutShard(ShardCall[float | None], frozen=True):
    """Take a step of a backup that a door makes. The answer to `RELEASE` is for how many seconds commits were held; None: of no use."""

    cut: str
    step: CutStep


class LookUpConsignment(ShardCall[ConsignmentState | None], frozen=True):
    """Ask the home shard, from a shard that has staged parts, for the state of the consignment. None: it is unknown."""

    consignment: bytes


class LearnGroups(ShardCall[None], frozen=True):
    """Learn from the home of groups the rows of these groups, and which groups were deleted. Answered when that is durable."""

    partitions: tuple[int, ...]
    """The partitions of the shard that is asked."""
    groups: tuple[GroupRow, ...]
    deleted: tuple[tuple[str, int], ...] = ()
    """Name and version."""
    whole: int = 0
    """If not 0: as of this version there are no other groups."""


class MovePartitions(ShardCall[tuple[PlacedPosition, ...]], frozen=True):
    """Give these partitions to members, each under a new generation, or to nobody, as the home of groups asks.

    The answer has the rows after that. A row whose generation is not the one named by its move is left unchanged.
    """

    name: str
    made_at: int
    moves: tuple[PartitionMove, ...]


class ReadPositions(ShardCall[tuple[PlacedPosition, ...]], frozen=True):
    """Ask, from the home of groups, who has these partitions. The answer leaves out groups that the shard does not know."""

    partitions: tuple[int, ...]
    names: tuple[str, ...]


class NoteWork(ShardCall[None], frozen=True):
    """Note what a member works on in the partitions of a shard, as it has told a door with a heartbeat."""

    member_id: str
    running: tuple[Running, ...]
    revision: int


class NotePosition(ShardCall[None], frozen=True):
    """Tell the home of groups that a holder has written a checkpoint, maybe its release, or that an operator has reset a position."""

    placed: PlacedPosition
    release: bool | None
    """Whether this is a release, as the holder said; False: it is none."""
