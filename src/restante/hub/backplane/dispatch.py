"""A publish on its way through the backplane: its records, what became of each, and the answer when all are settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from restante.errors import Fault, FaultyMessages, OutcomeUnknown, PartlyStored, RestanteError, Unavailable
from restante.hub.engine.commit_request import CommitRequest
from restante.model.backplane.accept import Accept
from restante.model.mailboxes.answers import LogPosition, PartitionReceipt, Receipt
from restante.model.publishing.refusals import refusal
from restante.ports.backplane import Undelivered

_INDEXES_SHOWN_MAX = 100


class RecordRows(NamedTuple):
    """The partition of a record, and which messages of its publish it has, by their index."""

    partition: int
    rows: Sequence[int]


class SentRecord(NamedTuple):
    """A record that is not settled, and its publish."""

    dispatch: Dispatch
    of: RecordRows


class Dispatch(CommitRequest[Receipt]):
    """A publish through the backplane. It is answered like a request to the committer."""

    __slots__ = ("accept", "deadline", "lost", "open", "positions", "receipts", "refused")

    def __init__(self, accept: Accept, deadline: float) -> None:
        super().__init__()
        self.accept = accept
        self.deadline = deadline
        self.open: set[int] = set()
        """The numbers of the records that are not settled."""
        self.positions: list[LogPosition] = []
        self.receipts: list[Receipt] = []
        self.refused: list[tuple[RecordRows, RestanteError]] = []
        self.lost: list[tuple[RecordRows, Undelivered]] = []

    def conclude(self) -> None:
        """All records are settled: the receipt, or the gravest problem."""
        if self.refused:
            self.error = self._refusal()
        elif self.lost:
            self.error = self._loss()
        elif self.accept is Accept.ACCEPTED:
            positions = tuple(sorted(self.positions, key=lambda own: (own.partition, own.position)))
            self.result = Receipt(
                accepted=sum(own.messages for own in positions),
                duplicates=0,
                partitions=(),
                stored=False,
                positions=positions,
            )
        else:
            self.result = self._stored()

    def _stored(self) -> Receipt:
        partitions = [own for receipt in self.receipts for own in receipt.partitions]
        return Receipt(
            accepted=sum(receipt.accepted for receipt in self.receipts),
            duplicates=sum(receipt.duplicates for receipt in self.receipts),
            partitions=tuple(sorted(partitions, key=_place)),
        )

    def _refusal(self) -> RestanteError:
        """The refusal with the indexes that the sender knows; a publish of several records may be stored in part."""
        faults: list[Fault] = []
        for sent, error in self.refused:
            if not isinstance(error, FaultyMessages):
                return error
            faults += [msgspec.structs.replace(fault, index=int(sent.rows[fault.index])) for fault in error.faults]
        found = refusal(sorted(faults, key=lambda fault: fault.index))
        found.details |= self._told()
        return found

    def _loss(self) -> RestanteError:
        reason = self.lost[0][1].reason
        if self.receipts or self.positions:
            return PartlyStored(
                f"Some messages are not known to be in the backplane: {reason}. `lost` lists them: send those again, under "
                "the same ids.",
                **self._told(),
            )
        if any(lost.maybe for _, lost in self.lost):
            return OutcomeUnknown(
                f"The backplane did not say whether it has the messages: {reason}. Send them again under the same ids.",
                retry_after=1,
            )
        return Unavailable(f"The backplane does not take the messages: {reason}. Try again.", retry_after=1)

    def _told(self) -> dict[str, object]:
        """Tell what is stored or accepted, and what is lost."""
        stored = sorted((own for receipt in self.receipts for own in receipt.partitions), key=_place)
        told: dict[str, object] = {"partitions": msgspec.to_builtins(stored)} if stored else {}
        if self.positions:
            told["positions"] = msgspec.to_builtins(self.positions)
        if self.lost:
            told["lost"] = [
                {
                    "partition": sent.partition,
                    "messages": len(sent.rows),
                    "indexes": [int(row) for row in sent.rows[:_INDEXES_SHOWN_MAX]],
                    "reason": lost.reason,
                }
                for sent, lost in self.lost
            ]
        return told


def _place(own: PartitionReceipt) -> tuple[int, int]:
    return own.partition, own.first_sequence_number
