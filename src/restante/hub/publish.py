"""Publish: messages in, numbered and stored whole or not at all.

What can be done before the commit is done in the caller's thread: a large send is checked, routed, judged and laid out
as mailbags there, so that the commit only looks whether the verdict still holds, numbers and writes. The small sends of
a commit are planned together, as one. Each is judged as if it had come alone after those before it; a refused one
leaves no trace in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.errors import (
    DataDamaged,
    Fault,
    FaultyMessages,
    InvalidRequest,
    MessageConflict,
    MessageErased,
    PartitionMismatch,
    PartitionUnknown,
)
from restante.hub.binding_arrivals import Duplicates, bind_duplicates, bind_items
from restante.hub.committer import Request
from restante.hub.core import Core
from restante.hub.identities import Judged, Verdict, disjoint, holds, judge
from restante.hub.live_mail import Shipped
from restante.hub.mailbags import put_mailbag
from restante.hub.planning import Draft, Plan
from restante.hub.producers import Admission, admitted, conclude
from restante.hub.publish_few import plan_few
from restante.model import intake
from restante.model.answers import PartitionReceipt, Receipt
from restante.model.arrival import Arrivals, Grouped, arrive, group, mailbags, places
from restante.model.message import Message, MessageColumns
from restante.model.parcel_digest import Digests, digests_of_columns, of_batch
from restante.model.producer import ProducerNumbers
from restante.model.refusals import refusal
from restante.model.segment import Encoded
from restante.model.uuids import uuid_texts

_ROW_BYTES = 512


@dataclass(frozen=True, slots=True)
class Parcel:
    """Messages laid out as mailbags, before they have numbers."""

    arrivals: Arrivals
    grouped: Grouped
    place: NDArray[np.int64]
    counts: NDArray[np.int64]
    segments: list[Encoded]
    published_at: int


@dataclass(slots=True)
class Unit:
    """Publishes that are judged together: all small ones of a commit, or one large one.

    Request i has rows start[i] to start[i + 1]. The parcel is there if everything is new.
    """

    requests: list[Publish]
    start: NDArray[np.int64]
    judged: Judged
    parcel: Parcel | None = None

    @property
    def arrivals(self) -> Arrivals:
        return self.judged.arrivals

    def accepted(self) -> NDArray[np.bool_]:
        """For each row whether its request has not been refused."""
        fine = np.array([request.error is None for request in self.requests], np.bool_)
        return np.repeat(fine, np.diff(self.start))


class Publish(Request[Receipt]):
    """Some messages to be stored. A few come as they are and are checked with the others of their commit."""

    __slots__ = ("batch", "digests", "messages", "numbers", "partition", "unit")

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        partition: int | None = None,
        numbers: ProducerNumbers | None = None,
        batch: bytes | None = None,
        size: int = 0,
    ) -> None:
        line = None if numbers is None or partition is None else (partition, numbers.group)
        super().__init__(size + sum([_size(message) for message in messages]), line)
        self.messages = messages
        self.partition = partition
        self.numbers = numbers
        self.batch = batch
        """The id of the batch whose items its new messages are."""
        self.digests: Digests | None = None
        """Of a numbered one, once it has been taken."""
        self.unit: Unit | None = None
        """A large publish is prepared by its caller's thread."""

    def count(self) -> int:
        return len(self.messages) if self.unit is None else len(self.unit.arrivals)


def _size(message: Message) -> int:
    """About what it takes; the size of a value is known only when it is encoded."""
    data = message.data
    return _ROW_BYTES + len(data) if type(data) is bytes else _ROW_BYTES


def large_publish(
    core: Core,
    columns: MessageColumns,
    partition: int | None,
    numbers: ProducerNumbers | None = None,
    batch: bytes | None = None,
) -> Publish:
    """A publish of many messages, as far prepared as can be before the commit: judged, sorted, laid out."""
    size = len(columns) * _ROW_BYTES + columns.data.nbytes
    request = Publish((), partition=partition, numbers=numbers, batch=batch, size=size)
    if numbers is not None:
        request.digests = of_batch(digests_of_columns(columns, core.deed.key), batch)
    arrivals = arrived(core, columns)
    start = np.array([0, len(columns)])
    if partition is not None:
        _check_partition(request, arrivals.partition)
    request.answer()
    with core.pins.reading():
        judged = judge(core, arrivals, start, np.ones(len(columns), np.bool_))
    request.unit = Unit([request], start, judged)
    if not judged.verdict.any() and len(columns):
        request.unit.parcel = laid_out(core, arrivals, judged.grouped)
    return request


def check_partition(core: Core, partition: int | None) -> None:
    if partition is not None and not 0 <= partition < core.deed.partition_count:
        raise PartitionUnknown(f"There is no partition {partition}: they go from 0 to {core.deed.partition_count - 1}.")


def plan_publishes(core: Core, plan: Plan, requests: Sequence[Request[object]]) -> list[Request[object]]:
    """Plan the publishes among these requests; the others are given back."""
    publishes = [request for request in requests if isinstance(request, Publish)]
    if publishes:
        draft = plan.draft()
        stored = _plan_all(core, draft, admitted(core, draft, publishes))
        conclude(core, draft, stored)
        bind_items(core, draft, stored)
        plan.accept(draft)
    if len(publishes) == len(requests):
        return []
    return [request for request in requests if not isinstance(request, Publish)]


def _plan_all(core: Core, draft: Draft, admission: Admission) -> Sequence[Publish]:
    """Plan what was admitted; gives what was not put off.

    On the short way nothing is refused, so who follows another in its line is stored behind it. On the long way the one
    before may be refused, and then the follower's number is not the next: it is put off until that is known.
    """
    publishes = admission.publishes
    small = [request for request in publishes if request.unit is None]
    large = [request for request in publishes if request.unit is not None]
    beside = [request.unit.arrivals.fingerprint for request in large if request.unit is not None]
    planned = bool(small) and plan_few(core, draft, small, beside)
    if not planned and admission.followers:
        publishes = [request for request in publishes if not admission.put_off(request)]
    for unit in _units(core, large if planned else publishes):
        _plan(core, draft, unit)
    return publishes


def _units(core: Core, publishes: Sequence[Publish]) -> list[Unit]:
    """What is judged together. They wait side by side, so any order is theirs: the small ones first."""
    small = [request for request in publishes if request.unit is None]
    units = _small_units(core, small)
    large = [request.unit for request in publishes if request.unit is not None]
    units += [unit if holds(core, unit.judged) else _judged_again(core, [unit]) for unit in large]
    if len(units) > 1 and not disjoint([unit.judged for unit in units]):
        return [_judged_again(core, units)]
    return units


def _small_units(core: Core, small: list[Publish]) -> list[Unit]:
    """One unit, or as many as the bounds of a send ask for; whoever is beyond them alone is refused."""
    if not small:
        return []
    try:
        return [_small_unit(core, small)]
    except InvalidRequest as error:
        if len(small) == 1:
            small[0].error = error
            return []
    half = len(small) // 2
    return [*_small_units(core, small[:half]), *_small_units(core, small[half:])]


def _small_unit(core: Core, small: list[Publish]) -> Unit:
    messages = [message for request in small for message in request.messages]
    columns, faults = intake.from_messages(messages, claim_check_origins=core.claim_check_origins())
    start = np.cumsum([0, *(len(request.messages) for request in small)])
    _refuse(small, start, faults)
    arrivals = arrived(core, columns)
    for index, request in enumerate(small):
        rows = np.arange(start[index], start[index + 1])
        if request.partition is not None and request.error is None:
            _check_partition(request, arrivals.partition[rows])
        if request.numbers is not None and request.error is None:
            request.digests = of_batch(digests_of_columns(columns.take(rows), core.deed.key), request.batch)
    fine = np.repeat([request.error is None for request in small], np.diff(start)).astype(np.bool_)
    return Unit(small, start, judge(core, arrivals, start, fine))


def _judged_again(core: Core, units: Sequence[Unit]) -> Unit:
    """Several units as one, in order, on what is stored now."""
    requests = [request for unit in units for request in unit.requests]
    columns = intake.concat([unit.arrivals.columns for unit in units])
    start = np.cumsum([0, *(request.count() for request in requests)])
    arrivals = arrive(columns, key=core.deed.key, partition_count=core.deed.partition_count)
    fine = np.repeat([request.error is None for request in requests], np.diff(start)).astype(np.bool_)
    return Unit(requests, start, judge(core, arrivals, start, fine))


def arrived(core: Core, columns: MessageColumns) -> Arrivals:
    made = int(columns.made_id.sum())
    if made:
        random = core.random(made * intake.RANDOM_BYTES_PER_ID)
        columns = intake.fill_made_ids(columns, now_ms=core.clock() // 1000, random=random)
    return arrive(columns, key=core.deed.key, partition_count=core.deed.partition_count)


def laid_out(core: Core, arrivals: Arrivals, grouped: Grouped) -> Parcel:
    place, counts = places(arrivals.partition, core.deed.partition_count)
    now = core.clock()
    segments = mailbags(arrivals, place, published_at=now, key=core.deed.key)
    return Parcel(arrivals, grouped, place, counts, segments, now)


def _refuse(requests: Sequence[Publish], start: NDArray[np.int64], faults: Sequence[Fault]) -> None:
    """Refuse every request that has a fault; indices are counted from its own first message."""
    by_request: dict[int, list[Fault]] = {}
    for fault in faults:
        index = int(np.searchsorted(start, fault.index, side="right")) - 1
        own = msgspec.structs.replace(fault, index=fault.index - int(start[index]))
        by_request.setdefault(index, []).append(own)
    for index, own_faults in by_request.items():
        requests[index].error = refusal(own_faults)


def _check_partition(request: Publish, partition: NDArray[np.int64]) -> None:
    """A parcel to one partition may hold nothing for another."""
    faults = [
        Fault(
            index=row,
            code=PartitionMismatch.code,
            field="recipient",
            detail=f"its recipient belongs to partition {partition[row]}, not {request.partition}",
        )
        for row in np.flatnonzero(partition != request.partition).tolist()
    ]
    if faults:
        request.error = refusal(faults)


def _plan(core: Core, draft: Draft, unit: Unit) -> None:
    verdict = unit.judged.verdict
    if verdict.any():
        _refuse_verdicts(unit)
    stored = np.flatnonzero((verdict == Verdict.NEW) & unit.accepted())
    number = np.zeros(0, np.int64)
    if len(stored):
        number = _store(core, draft, unit.parcel or _parcel_of(core, unit, stored))
    _receipts(unit, stored, number)
    for index, request in enumerate(unit.requests):
        if request.batch is not None and request.result is not None and request.result.duplicates:
            bind_duplicates(core, draft, request.batch, _duplicates(unit, index, stored, number))


def _duplicates(unit: Unit, index: int, stored: NDArray[np.int64], number: NDArray[np.int64]) -> Duplicates:
    """The duplicates of a request, and the numbers of what they repeat: stored before, or in this commit."""
    first, last = unit.start[index : index + 2].tolist()
    rows = np.flatnonzero(unit.judged.verdict[first:last] == Verdict.DUPLICATE) + first
    original = unit.judged.original[rows]
    twins = original < 0
    original[twins] = number[np.searchsorted(stored, -1 - original[twins])]
    return Duplicates(unit.arrivals, rows, original)


def _parcel_of(core: Core, unit: Unit, stored: NDArray[np.int64]) -> Parcel:
    """The rows that are to be stored."""
    if len(stored) == len(unit.arrivals):
        return laid_out(core, unit.arrivals, unit.judged.grouped)
    taken = _taken(unit.arrivals, stored)
    return laid_out(core, taken, group(taken))


_REFUSALS: dict[int, tuple[type[FaultyMessages], str]] = {
    Verdict.CONFLICT: (
        MessageConflict,
        "a message with this id came for this recipient before, with other content",
    ),
    Verdict.ERASED: (MessageErased, "the message with this id was erased for good"),
}


def _refuse_verdicts(unit: Unit) -> None:
    _refuse_damaged(unit)
    rows = np.flatnonzero((unit.judged.verdict >= Verdict.CONFLICT) & unit.accepted())
    _refuse(unit.requests, unit.start, verdict_faults(unit.judged, rows))


def verdict_faults(judged: Judged, rows: NDArray[np.int64]) -> list[Fault]:
    """What is wrong with arrivals that are in conflict, or were erased."""
    faults = []
    for row, text in zip(rows.tolist(), uuid_texts(judged.arrivals.columns.id[rows]), strict=True):
        kind, detail = _REFUSALS[int(judged.verdict[row])]
        faults.append(Fault(index=row, code=kind.code, field="id", detail=detail, id=text))
    return faults


def _refuse_damaged(unit: Unit) -> None:
    """Who sends what may be stored already, where nobody can read it, is told so; the others go on."""
    rows = np.flatnonzero((unit.judged.verdict == Verdict.DAMAGED) & unit.accepted())
    for row, text in zip(rows.tolist(), uuid_texts(unit.arrivals.columns.id[rows]), strict=True):
        index = int(np.searchsorted(unit.start, row, side="right")) - 1
        partition = int(unit.arrivals.partition[row])
        unit.requests[index].error = unit.requests[index].error or maybe_stored(
            f"Message number {row - int(unit.start[index])} ({text})", partition
        )


def maybe_stored(what: str, partition: int) -> DataDamaged:
    """The error for a message that may be stored already, where nobody can read it."""
    return DataDamaged(
        f"{what} may be stored already, where partition {partition} is damaged; so none was stored. Run `restante "
        "doctor`, and restore the data folder from a backup.",
        partition=partition,
    )


def _taken(arrivals: Arrivals, rows: NDArray[np.int64]) -> Arrivals:
    columns = arrivals.columns.take(rows)
    # Taking rows may drop recipients that no row uses any more, so the hashes are found again through the texts.
    kept = pc.index_in(columns.recipient.values, arrivals.columns.recipient.values).to_numpy(zero_copy_only=False)
    return Arrivals(columns, arrivals.recipient_hash[kept], arrivals.partition[rows], arrivals.fingerprint[rows])


def _store(core: Core, draft: Draft, parcel: Parcel) -> NDArray[np.int64]:
    """Number the messages and put their mailbags into the draft; gives the number of each."""
    first = np.zeros(core.deed.partition_count, np.int64)
    for partition in np.flatnonzero(parcel.counts).tolist():
        first[partition] = draft.add_messages(partition, int(parcel.counts[partition]))
    by_partition: dict[int, list[Encoded]] = {}
    for encoded in parcel.segments:
        by_partition.setdefault(encoded.group, []).append(encoded)
    for partition, segments in by_partition.items():
        put_mailbag(core, draft, segments, int(first[partition]), int(parcel.counts[partition]))
    draft.concerns.append(parcel.arrivals.recipient_hash)
    number = first[parcel.arrivals.partition] + parcel.place
    draft.arrived.append(parcel.arrivals.fingerprint)
    draft.applies.append(lambda: _remember(core, parcel, number))
    draft.mail.append(Shipped(parcel.arrivals, number, parcel.published_at))
    return number


def _remember(core: Core, parcel: Parcel, number: NDArray[np.int64]) -> None:
    """Add the fingerprints of what was stored, partition by partition."""
    for partition, rows in parcel.grouped.parts():
        core.partitions[partition].remember(parcel.arrivals.fingerprint[rows], number[rows])


def _receipts(unit: Unit, stored: NDArray[np.int64], number: NDArray[np.int64]) -> None:
    """Answer every request that was not refused."""
    borders, starts = np.searchsorted(stored, unit.start).tolist(), unit.start.tolist()
    partition = unit.arrivals.partition[stored]
    partitions, numbers = (partition.tolist(), number.tolist()) if len(unit.requests) > 1 else ([], [])
    for index, request in enumerate(unit.requests):
        if request.error is not None:
            continue
        first, last = borders[index], borders[index + 1]
        accepted = last - first
        if accepted == 1 and partitions:
            receipts: tuple[PartitionReceipt, ...] = (_receipt(partitions[first], numbers[first], numbers[first]),)
        else:
            receipts = _receipts_of(partition[first:last], number[first:last])
        duplicates = starts[index + 1] - starts[index] - accepted
        request.result = Receipt(accepted=accepted, duplicates=duplicates, partitions=receipts)


def _receipt(partition: int, first: int, last: int) -> PartitionReceipt:
    return PartitionReceipt(partition=partition, first_sequence_number=first, last_sequence_number=last)


def _receipts_of(partition: NDArray[np.int64], number: NDArray[np.int64]) -> tuple[PartitionReceipt, ...]:
    """Of one request: its numbers in a partition are contiguous."""
    if not len(partition):
        return ()
    order = np.argsort(partition.astype(np.uint16), kind="stable")
    ordered = partition[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    ends = np.append(begins[1:], len(ordered)) - 1
    return tuple(
        _receipt(*numbers)
        for numbers in zip(
            ordered[begins].tolist(), number[order[begins]].tolist(), number[order[ends]].tolist(), strict=True
        )
    )
