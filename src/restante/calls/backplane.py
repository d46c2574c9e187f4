"""The backplane: how far its log is stored, and what of it was refused."""

from __future__ import annotations

from restante.calls.call import Call, Count
from restante.calls.shards import ShardCall
from restante.model.backplane.backplane_answers import BackplaneStatus, RecordOutcome, RefusedPage, RefusedRecord
from restante.model.mailboxes.answers import Receipt


class ReadBackplane(Call[BackplaneStatus], frozen=True):
    """Read how much goes through the backplane, and how far it is stored."""


class ListRefusedRecords(Call[RefusedPage], frozen=True, kw_only=True):
    """The records that could not be stored, by partition and position."""

    limit: Count | None = None
    after: str | None = None


class ReadRefusedRecord(Call[RefusedRecord], frozen=True):
    """A record that could not be stored, and why."""

    partition: int
    position: int


class RepeatRefusedRecord(Call[Receipt], frozen=True):
    """Try once more to store a record that could not be stored; when it is stored, it is refused no longer."""

    partition: int
    position: int


class AwaitRecords(ShardCall[tuple[RecordOutcome, ...]], frozen=True):
    """Ask an owner, from a door, what became of these records of its log; it waits for so long, and answers in the order asked for."""

    records: tuple[tuple[int, int, int], ...]
    """Partition, position, and how many messages."""
    seconds: float


class ReadFitness(ShardCall[str | None], frozen=True):
    """Ask an owner, from a door, why the log does not fit the hub, if it is known not to."""


class DeleteRefusedRecord(Call[None], frozen=True):
    """Forget a record that could not be stored."""

    partition: int
    position: int
