"""The owner's side: the logs of its partitions are read in bulk and stored, each record once, in the order of the log.

A fetch of records is one publish: judged, laid out and committed together, with the new positions in the same commit. So
whatever crashes, a record is stored with its position or not at all, and who reads again begins after the position. A
record that is refused (a conflict, or it cannot be read) is kept as poison in that commit, and the others are stored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from restante.errors import (
    DataDamaged,
    Fault,
    FaultyMessages,
    InvalidOperation,
    PartitionMismatch,
    RestanteError,
    Unavailable,
)
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.backplane.outcomes import RecordOutcomes
from restante.hub.backplane.positions import MovedPositions, log_key, stored_positions
from restante.hub.engine import filing
from restante.hub.engine.core import Core, Stale
from restante.hub.publishing.publish import prepared
from restante.hub.publishing.publish_request import PlainPublish, PublishedBeside, PublishRequest, size_of
from restante.model.access.access import EVERYTHING
from restante.model.backplane.poison import poison_row
from restante.model.backplane.record import DecodedRecord, decode_record, letter_columns
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.publishing import intake
from restante.model.publishing.arrival import arrive
from restante.model.publishing.few_or_many import are_few
from restante.model.publishing.letters import messages_of_letters
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.storage.letter import Letter
from restante.ports.backplane import FetchedRecord

_log = logging.getLogger("restante.backplane")


@dataclass(slots=True)
class Taken:
    """A record that is to be stored, or the reason why it cannot be."""

    record: FetchedRecord
    decoded: DecodedRecord | None
    error: RestanteError | None = None
    receipt: Receipt | None = None

    @property
    def messages(self) -> int:
        return 0 if self.decoded is None else self.decoded.head.messages

    @property
    def outcome(self) -> Receipt | RestanteError:
        found = self.error or self.receipt
        assert found is not None, "what was committed has an outcome"
        return found


def take_in(core: Core, records: Sequence[FetchedRecord]) -> None:
    """Store records of the log; when it returns, each is stored, or kept as poison, or was so before."""
    memory = core.memory(BackplaneMemory)
    assert memory.backplane is not None, "who reads a log has one"
    key, taken = log_key(memory.backplane.name), [_taken(record) for record in records]
    memory.totals.records += len(records)
    _store_all(core, key, taken)


def _taken(record: FetchedRecord) -> Taken:
    try:
        return Taken(record, decode_record(record.content))
    except DataDamaged as error:
        return Taken(record, None, error)


def _store_all(core: Core, key: bytes, taken: Sequence[Taken]) -> None:
    """Store records, without those that turn out to be refused; the reason of one is not that of the others."""
    while True:
        before = stored_positions(core, key, {one.record.partition for one in taken})
        fresh = [one for one in taken if one.record.position > before[one.record.partition]]
        core.memory(BackplaneMemory).totals.skipped += len(taken) - len(fresh)
        taken = fresh
        if not taken:
            return
        good = [one for one in taken if one.error is None]
        try:
            _commit(core, key, before, taken, good)
        except Stale:
            continue
        except FaultyMessages as error:
            _blame(good, error)
        except Unavailable:
            raise
        except RestanteError as error:
            if len(good) > 1:
                half = len(taken) // 2
                _store_all(core, key, taken[:half])
                _store_all(core, key, taken[half:])
                return
            good[0].error = error
        else:
            _conclude(core, taken)
            return


def _commit(core: Core, key: bytes, before: dict[int, int], taken: Sequence[Taken], good: Sequence[Taken]) -> None:
    """One commit: the messages of the good ones, the poison, the positions."""
    now = core.clock()
    poison = {
        (one.record.partition, one.record.position): poison_row(one.error, one.messages, one.record.content, now)
        for one in taken
        if one.error is not None
    }
    after = {one.record.partition: one.record.position for one in taken}
    moved = MovedPositions(core, key, before, after, poison)
    if good:
        publish_records(core, good, moved, moved.accepted)
    else:
        core.commit(moved.plan)


def publish_records(
    core: Core, good: Sequence[Taken], beside: PublishedBeside, accepted: dict[int, int] | None = None
) -> None:
    """One commit: the messages of records, and what goes beside them. Each record gets its receipt.

    `accepted` is filled with the number of messages stored in each partition, before `beside` is planned.
    """
    filing.relieve(core)
    start = np.cumsum([0, *(one.messages for one in good)])
    letters = _few_letters(good, int(start[-1]))
    request = _columns_request(core, good, start) if letters is None else _few_request(core, good, start, letters)
    request.beside = beside
    rows = _StoredRows(good, start, {} if accepted is None else accepted)
    request.hear_rows = rows.hear
    core.submit(request)
    rows.give_receipts()


def _few_letters(good: Sequence[Taken], count: int) -> list[Letter] | None:
    """The messages, if they are few and all came as letters."""
    found: list[Letter] = []
    for one in good if are_few(count) else ():
        assert one.decoded is not None, "what cannot be read is not good"
        if isinstance(one.decoded.content, MessageColumns):
            return None
        found += one.decoded.content
    return found or None


def _few_request(
    core: Core, good: Sequence[Taken], start: NDArray[np.int64], letters: Sequence[Letter]
) -> PublishRequest:
    """A request by the short way of few, which is much quicker. Its commit goes the long way if a message may be known already."""
    _check_partitions(good, start, np.array([core.locate(letter.recipient).partition for letter in letters]))
    request = PlainPublish(letters, partial(messages_of_letters, letters), EVERYTHING)
    request.light = False  # the positions go with it, which an event loop does not plan
    return request


def _columns_request(core: Core, good: Sequence[Taken], start: NDArray[np.int64]) -> PublishRequest:
    columns = intake.concat(_columns(good))
    arrivals = arrive(columns, key=core.deed.key, partition_count=core.deed.partition_count)
    _check_partitions(good, start, arrivals.partition)
    return prepared(core, PublishRequest((), size=size_of(columns)), arrivals)


class _StoredRows:
    """Which messages of some records are stored, and under which numbers."""

    def __init__(self, good: Sequence[Taken], start: NDArray[np.int64], accepted: dict[int, int]) -> None:
        self._good = good
        self._start = start
        self._accepted = accepted
        self._borders: NDArray[np.int64] = np.zeros(1, np.int64)
        self._numbers: NDArray[np.int64] = np.zeros(0, np.int64)

    def hear(self, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Hear of the commit that is being planned: these rows, in order, take these numbers."""
        self._borders, self._numbers = np.searchsorted(rows, self._start), numbers
        self._accepted.clear()
        for one, count in zip(self._good, np.diff(self._borders).tolist(), strict=True):
            partition = one.record.partition
            self._accepted[partition] = self._accepted.get(partition, 0) + count

    def give_receipts(self) -> None:
        for index, one in enumerate(self._good):
            own = self._numbers[self._borders[index] : self._borders[index + 1]]
            one.receipt = _receipt(one, own)


def _receipt(one: Taken, numbers: NDArray[np.int64]) -> Receipt:
    stored: tuple[PartitionReceipt, ...] = ()
    if len(numbers):
        first, last = int(numbers[0]), int(numbers[-1])
        partition = one.record.partition
        stored = (PartitionReceipt(partition=partition, first_sequence_number=first, last_sequence_number=last),)
    return Receipt(accepted=len(numbers), duplicates=one.messages - len(numbers), partitions=stored)


def _columns(good: Sequence[Taken]) -> list[MessageColumns]:
    """The messages in their order; letters of neighbouring records become columns together."""
    found: list[MessageColumns] = []
    letters: list[Letter] = []
    for one in good:
        assert one.decoded is not None, "what cannot be read is not good"
        content = one.decoded.content
        if isinstance(content, MessageColumns):
            found += [letter_columns(letters)] if letters else []
            found.append(content)
            letters = []
        else:
            letters.extend(content)
    return [*found, letter_columns(letters)] if letters else found


def _check_partitions(good: Sequence[Taken], start: NDArray[np.int64], partition: NDArray[np.int64]) -> None:
    """A record in the log of one partition may hold nothing for another."""
    expected = np.repeat([one.record.partition for one in good], np.diff(start))
    rows = np.flatnonzero(expected != partition)
    if len(rows):
        detail = "its recipient belongs to another partition than the log that it was found in"
        code = PartitionMismatch.code
        raise refusal([Fault(index=row, code=code, field="recipient", detail=detail) for row in rows.tolist()])


def _blame(good: Sequence[Taken], error: FaultyMessages) -> None:
    """Give the faults to the records that have them, each with the index that it has there."""
    starts = np.cumsum([0, *(one.messages for one in good)])
    faults: dict[int, list[Fault]] = {}
    for fault in error.faults:
        index = int(np.searchsorted(starts, fault.index, side="right")) - 1
        own = Fault(
            index=fault.index - int(starts[index]),
            code=fault.code,
            detail=fault.detail,
            field=fault.field,
            id=fault.id,
        )
        faults.setdefault(index, []).append(own)
    assert faults, "a refusal names what it is about"
    for index, own_faults in faults.items():
        good[index].error = refusal(own_faults)


def _conclude(core: Core, taken: Sequence[Taken]) -> None:
    """Tell the doors, after the commit."""
    memory, totals = core.memory(BackplaneMemory), core.memory(BackplaneMemory).totals
    if core.shard is not None:
        outcomes = [((one.record.partition, one.record.position), one.outcome) for one in taken]
        core.memory(RecordOutcomes).told(outcomes)
    for one in taken:
        memory.stored[one.record.partition] = one.record.position
        if one.error is not None:
            totals.refused += 1
            where = f"partition {one.record.partition}, position {one.record.position}"
            _log.warning("A record of the backplane (%s) was refused: %s", where, one.error.message)
        elif one.receipt is not None:
            totals.messages += one.receipt.accepted
            totals.duplicates += one.receipt.duplicates
        if memory.doorway is not None and one.decoded is not None:
            memory.doorway.told(one.decoded.head.door, one.decoded.head.number, one.outcome)


def starts(core: Core) -> dict[int, int]:
    """The position from which the log of each partition is to be read; `InvalidOperation` if the log does not reach so far."""
    memory = core.memory(BackplaneMemory)
    assert memory.backplane is not None, "who reads a log has one"
    name, own = memory.backplane.name, core.owned
    stored, ends = stored_positions(core, log_key(name), own), memory.backplane.ends(own)
    memory.stored = dict(stored)
    memory.totals.gaps = 0
    for partition, position in stored.items():
        if position >= ends[partition].next:
            raise InvalidOperation(
                f"Partition {partition} has stored the log {name!r} up to {position}, but the log ends before "
                f"{ends[partition].next}: it was deleted and made again, or is that of another cluster. Name another topic in "
                f"backplane.topic, or let an operator delete the source {name!r}."
            )
        missing = ends[partition].first - (position + 1)
        if missing > 0 and position >= 0:
            memory.totals.gaps += missing
            _log.error(
                "The log of partition %s has removed %s records that were not stored: raise its retention.",
                partition,
                missing,
            )
    return {partition: max(position + 1, ends[partition].first) for partition, position in stored.items()}
