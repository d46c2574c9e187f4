"""Publish: messages in, numbered and stored whole or not at all.

The publishes of one commit are planned together, on columns: one look for their identities, one mailbag for each
partition. Each is judged as if it had come alone after those before it; a refused one leaves no trace in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.errors import (
    Fault,
    FaultyMessages,
    InvalidMessage,
    MessageConflict,
    MessageErased,
    PartitionMismatch,
    PartitionUnknown,
)
from restante.hub.committer import Request
from restante.hub.core import Core
from restante.hub.identities import Verdict, judge
from restante.hub.planning import Draft, Plan
from restante.model import intake
from restante.model.answers import PartitionReceipt, Receipt
from restante.model.arrival import Arrivals, arrive, group, mailbags, places
from restante.model.message import Message, MessageColumns
from restante.model.run import Run, RunRow, RunState, SegmentRow
from restante.model.segment import Encoded, decode
from restante.model.uuids import uuid_texts

_ROW_BYTES = 512


class Publish(Request[Receipt]):
    """Some messages to be stored. A few come as they are and are checked with the others of their commit."""

    __slots__ = ("columns", "messages", "partition")

    def __init__(
        self, *, messages: Sequence[Message] = (), columns: MessageColumns | None = None, partition: int | None = None
    ) -> None:
        count = len(messages) if columns is None else len(columns)
        super().__init__(count * _ROW_BYTES + (0 if columns is None else columns.data.nbytes))
        self.messages = messages
        self.columns = columns
        self.partition = partition

    def __len__(self) -> int:
        return len(self.messages) if self.columns is None else len(self.columns)


def checked(columns_and_faults: tuple[MessageColumns, list[Fault]]) -> MessageColumns:
    """The columns, or the error that names every faulty message."""
    columns, faults = columns_and_faults
    if faults:
        raise _refusal(InvalidMessage, faults)
    return columns


def check_partition(core: Core, partition: int | None) -> None:
    if partition is not None and not 0 <= partition < core.deed.partition_count:
        raise PartitionUnknown(f"There is no partition {partition}: they go from 0 to {core.deed.partition_count - 1}.")


@dataclass(slots=True)
class Sends:
    """The publishes of one commit: request i has rows start[i] to start[i + 1] of the columns."""

    requests: list[Publish]
    start: NDArray[np.int64]
    columns: MessageColumns

    def rows(self, index: int) -> slice:
        return slice(int(self.start[index]), int(self.start[index + 1]))

    def accepted(self) -> NDArray[np.bool_]:
        """For each row whether its request has not been refused."""
        fine = np.array([request.error is None for request in self.requests], np.bool_)
        return np.repeat(fine, np.diff(self.start))


def plan_publishes(core: Core, plan: Plan, requests: Sequence[Request[object]]) -> list[Request[object]]:
    """Plan the publishes among these requests; the others are given back."""
    publishes = [request for request in requests if isinstance(request, Publish)]
    if publishes:
        draft = plan.draft()
        _plan(core, draft, _gather(core, publishes))
        plan.accept(draft)
    return [request for request in requests if not isinstance(request, Publish)]


def _gather(core: Core, publishes: Sequence[Publish]) -> Sends:
    """All publishes as columns. They wait side by side, so any order is theirs: the small ones first, together."""
    small = [request for request in publishes if request.columns is None]
    large = [request for request in publishes if request.columns is not None]
    parts = [request.columns for request in large if request.columns is not None]
    start = np.cumsum([0, *(len(request) for request in (*small, *large))])
    sends = [*small, *large]
    if small:
        messages = [message for request in small for message in request.messages]
        columns, faults = intake.from_messages(messages, claim_check_origins=core.claim_check_origins())
        _refuse(sends, start, faults, InvalidMessage)
        parts = [columns, *parts]
    return Sends(sends, start, _with_ids(core, intake.concat(parts)))


def _with_ids(core: Core, columns: MessageColumns) -> MessageColumns:
    made = int(columns.made_id.sum())
    if not made:
        return columns
    random = core.random(made * intake.RANDOM_BYTES_PER_ID)
    return intake.fill_made_ids(columns, now_ms=core.clock() // 1000, random=random)


def _refuse(
    requests: Sequence[Publish], start: NDArray[np.int64], faults: Sequence[Fault], kind: type[FaultyMessages]
) -> None:
    """Refuse every request that has a fault; indices are counted from its own first message."""
    by_request: dict[int, list[Fault]] = {}
    for fault in faults:
        index = int(np.searchsorted(start, fault.index, side="right")) - 1
        own = msgspec.structs.replace(fault, index=fault.index - int(start[index]))
        by_request.setdefault(index, []).append(own)
    for index, own_faults in by_request.items():
        requests[index].error = _refusal(kind, own_faults)


def _refusal(kind: type[FaultyMessages], faults: Sequence[Fault]) -> FaultyMessages:
    bad = len({fault.index for fault in faults})
    first = faults[0]
    named = f" ({first.id})" if first.id else ""
    return kind(
        f"{bad} of the messages cannot be stored, so none was; the first is number {first.index}{named}: {first.detail}",
        faults,
    )


def _plan(core: Core, draft: Draft, sends: Sends) -> None:
    arrivals = arrive(sends.columns, key=core.deed.key, partition_count=core.deed.partition_count)
    _check_partitions(core, sends, arrivals)
    verdict = judge(core, arrivals, sends.start, sends.accepted())
    _refuse_verdict(sends, verdict, Verdict.CONFLICT, MessageConflict)
    _refuse_verdict(sends, verdict, Verdict.ERASED, MessageErased)
    stored = np.flatnonzero((verdict == Verdict.NEW) & sends.accepted())
    if len(stored):
        number = _store(core, draft, _taken(arrivals, stored))
    else:
        number = np.zeros(0, np.int64)
    _receipts(sends, arrivals, stored, number)


def _check_partitions(core: Core, sends: Sends, arrivals: Arrivals) -> None:
    for index, request in enumerate(sends.requests):
        if request.partition is None or request.error is not None:
            continue
        rows = sends.rows(index)
        wrong = np.flatnonzero(arrivals.partition[rows] != request.partition)
        faults = [
            Fault(
                index=row,
                code=PartitionMismatch.code,
                field="recipient",
                detail=f"its recipient belongs to partition {arrivals.partition[rows.start + row]}, "
                f"not {request.partition}",
            )
            for row in wrong.tolist()
        ]
        if faults:
            request.error = _refusal(PartitionMismatch, faults)


def _refuse_verdict(
    sends: Sends, verdict: NDArray[np.int8], bad: Verdict, kind: type[FaultyMessages]
) -> None:
    rows = np.flatnonzero((verdict == bad) & sends.accepted())
    if not len(rows):
        return
    details = {
        Verdict.CONFLICT: "a message with this id was stored for this recipient before, with other content",
        Verdict.ERASED: "the message with this id was erased for good",
    }
    ids = uuid_texts(sends.columns.id[rows])
    faults = [
        Fault(index=row, code=kind.code, field="id", detail=details[bad], id=text)
        for row, text in zip(rows.tolist(), ids, strict=True)
    ]
    _refuse(sends.requests, sends.start, faults, kind)


def _taken(arrivals: Arrivals, rows: NDArray[np.int64]) -> Arrivals:
    if len(rows) == len(arrivals):
        return arrivals
    columns = arrivals.columns.take(rows)
    # Taking rows may drop recipients that no row uses any more, so the hashes are found again through the texts.
    kept = pc.index_in(columns.recipient.values, arrivals.columns.recipient.values).to_numpy(zero_copy_only=False)
    return Arrivals(columns, arrivals.recipient_hash[kept], arrivals.partition[rows], arrivals.fingerprint[rows])


def _store(core: Core, draft: Draft, arrivals: Arrivals) -> NDArray[np.int64]:
    """Number the messages and put their mailbags into the draft; gives the number of each."""
    now = core.clock()
    place, counts = places(arrivals.partition, core.deed.partition_count)
    first = np.zeros(core.deed.partition_count, np.int64)
    for partition in np.flatnonzero(counts).tolist():
        first[partition] = draft.take_numbers(partition, int(counts[partition]))
        draft.add_waiting(partition, int(counts[partition]))
    by_partition: dict[int, list[Encoded]] = {}
    for encoded in mailbags(arrivals, place, published_at=now, key=core.deed.key):
        by_partition.setdefault(encoded.group, []).append(encoded)
    for partition, segments in by_partition.items():
        put_mailbag(core, draft, segments, int(first[partition]), int(counts[partition]))
    draft.concerns.append(arrivals.recipient_hash)
    number = first[arrivals.partition] + place
    draft.applies.append(lambda: _remember(core, arrivals, number))
    return number


def put_mailbag(core: Core, draft: Draft, segments: Sequence[Encoded], first: int, count: int) -> None:
    partition = core.partitions[segments[0].group]
    places_of = []
    for segment in segments:
        blob = draft.take_blob(partition.number)
        draft.blobs.append((blob, segment.parts))
        places_of.append(SegmentRow(blob.number, segment.length, len(segment.front), segment.rows))
    row = RunRow(
        places_of[0].blob, first, first + count - 1, tuple(places_of), RunState.VISIBLE, core.clock(), mailbag=True
    )
    draft.put_run(partition.number, row)
    run = Run.of(row, partition.number, [decode(segment.front, trusted=True) for segment in segments])

    def apply() -> None:
        partition.runs = (*partition.runs, run)
        core.filing_wanted.set()

    draft.applies.append(apply)


def _remember(core: Core, arrivals: Arrivals, number: NDArray[np.int64]) -> None:
    """Add the fingerprints of what was stored, partition by partition."""
    grouped = group(arrivals)
    for partition, first, last in zip(grouped.partitions, grouped.borders[:-1], grouped.borders[1:], strict=True):
        rows = grouped.rows[first:last]
        core.partitions[partition].fingerprints.add(arrivals.fingerprint[rows], number[rows])


def _receipts(sends: Sends, arrivals: Arrivals, stored: NDArray[np.int64], number: NDArray[np.int64]) -> None:
    """Answer every request that was not refused."""
    borders = np.searchsorted(stored, sends.start).tolist()
    partition = arrivals.partition[stored]
    partitions, numbers = (partition.tolist(), number.tolist()) if len(sends.requests) > 1 else ([], [])
    for index, request in enumerate(sends.requests):
        if request.error is not None:
            continue
        first, last = borders[index], borders[index + 1]
        if last - first == 1 and partitions:
            receipts: tuple[PartitionReceipt, ...] = (_receipt(partitions[first], numbers[first], numbers[first]),)
        else:
            receipts = _receipts_of(partition[first:last], number[first:last])
        request.result = Receipt(
            accepted=last - first, duplicates=len(request) - (last - first), partitions=receipts
        )


def _receipt(partition: int, first: int, last: int) -> PartitionReceipt:
    return PartitionReceipt(partition=partition, first_sequence_number=first, last_sequence_number=last)


def _receipts_of(partition: NDArray[np.int64], number: NDArray[np.int64]) -> tuple[PartitionReceipt, ...]:
    """Of one request: its numbers in a partition are contiguous."""
    if not len(partition):
        return ()
    order = np.argsort(partition, kind="stable")
    ordered = partition[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    ends = np.append(begins[1:], len(ordered)) - 1
    return tuple(
        _receipt(*numbers)
        for numbers in zip(
            ordered[begins].tolist(), number[order[begins]].tolist(), number[order[ends]].tolist(), strict=True
        )
    )
