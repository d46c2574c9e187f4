"""Publishing: each send is numbered and stored whole, or not at all.

A large send is checked, routed, judged and laid out as mailbags in its caller's thread. The commit then only checks that
the verdicts still hold, assigns numbers, and writes. The small sends of a commit are planned together, as one `Unit`; each
is judged as if it came alone after those before it, and a refused one leaves no trace in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.errors import (
    DataDamaged,
    Fault,
    Forbidden,
    InvalidRequest,
    PartitionUnknown,
)
from restante.hub.action_rows.accepted_rows import accept_columns
from restante.hub.engine.commit_request import CommitRequest, RequestLine
from restante.hub.engine.committed_runs import put_mailbag
from restante.hub.engine.core import Core, is_text
from restante.hub.engine.partitions import not_owner
from restante.hub.engine.plan import CommitPlan, RequestDraft
from restante.hub.mailboxes.live_mail import LiveMail
from restante.hub.mailboxes.origins import claim_check_origins
from restante.hub.publishing.batch_items import Duplicates, bind_duplicates, bind_items
from restante.hub.publishing.delayed_memory import DelayedMemory
from restante.hub.publishing.holds import HeldMessages, Holds
from restante.hub.publishing.identities import Verdict, disjoint, holds, judge
from restante.hub.publishing.make_mailbags import arrived, laid_elsewhere, laid_out, owned_arrivals, taken
from restante.hub.publishing.producers import NumberedAdmission, admitted, are_plainly_next, conclude
from restante.hub.publishing.publish_few import plan_few
from restante.hub.publishing.publish_request import LaidOut, PublishRequest, Unit, size_of
from restante.hub.publishing.refuse import verdict_faults, whole_refusal
from restante.hub.publishing.sourced import admit_sources, conclude_sources
from restante.model.access.access import EVERYTHING, Grant
from restante.model.access.origin_access import check_origins
from restante.model.actions.action_columns import action_rows_of
from restante.model.columns.texts import Texts
from restante.model.live.committed_mail import Shipped
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.producers.parcel_digest import digests_of_columns, of_batch
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing import intake
from restante.model.publishing.arrival import Arrivals, arrive, group
from restante.model.publishing.bulk_parcel import BulkParcel
from restante.model.publishing.delay import decode_delayed, delayed_key, rows_of
from restante.model.publishing.few_or_many import are_few
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.storage.changes import Space


def large_publish(
    core: Core,
    columns: MessageColumns,
    partition: int | None,
    numbers: ProducerNumbers | None = None,
    batch: bytes | None = None,
    caller: Grant = EVERYTHING,
    line: RequestLine | None = None,
    laid: BulkParcel | None = None,
) -> PublishRequest:
    """A publish of many valid messages, prepared as far as possible before the commit: judged, and laid out if all are new.

    Pass `laid` if they are laid out already.
    """
    size = size_of(columns)
    request = PublishRequest((), partition=partition, numbers=numbers, batch=batch, caller=caller, line=line, size=size)
    if numbers is not None:
        request.digests = of_batch(digests_of_columns(columns, core.deed.key), batch)
    arrivals = arrived(core, columns) if laid is None else owned_arrivals(core, laid.arrivals)
    if _misplaced(request, arrivals.partition):
        raise whole_refusal(core, columns, (), partition)
    return prepared(core, request, arrivals, laid)


def prepared(core: Core, request: PublishRequest, arrivals: Arrivals, laid: BulkParcel | None = None) -> PublishRequest:
    """Prepare a publish of valid messages that have ids: judge them, and lay them out if all are new."""
    start = np.array([0, len(arrivals)])
    with core.pins.reading():
        grouped = None if laid is None else laid.grouped
        judged = judge(core, arrivals, start, np.ones(len(arrivals), np.bool_), grouped)
    request.unit = Unit([request], start, judged)
    if not judged.verdict.any() and len(arrivals):
        request.unit.parcel = laid_out(core, arrivals, judged.grouped) if laid is None else laid_elsewhere(laid)
    return request


def check_partition(core: Core, partition: int | None) -> None:
    """Raise if the partition does not exist, or another shard has it."""
    check_number(core, partition)
    if partition is not None:
        core.require_owned(partition)


def check_number(core: Core, partition: int | None) -> None:
    if partition is not None and not 0 <= partition < core.deed.partition_count:
        raise PartitionUnknown(
            f"There is no partition {partition}: partitions go from 0 to {core.deed.partition_count - 1}."
        )


def plan_publishes(
    core: Core, plan: CommitPlan, requests: Sequence[CommitRequest[object]]
) -> list[CommitRequest[object]]:
    """Plan the publishes among these requests, and return the other requests."""
    publishes = [request for request in requests if isinstance(request, PublishRequest)]
    if publishes:
        draft = plan.draft()
        publishes = admit_sources(core, draft, [request for request in publishes if _may_go(core, draft, request)])
        stored = _plan_all(core, draft, admitted(core, draft, publishes))
        conclude(core, draft, stored)
        conclude_sources(core, draft, stored)
        _plan_beside(draft, stored)
        bind_items(core, draft, stored)
        plan.accept(draft)
        _park_held(publishes)
    if len(publishes) == len(requests):
        return []
    return [request for request in requests if not isinstance(request, PublishRequest)]


def _may_go(core: Core, draft: RequestDraft, request: PublishRequest) -> bool:
    if core.shard is not None:
        foreign = _foreign(core, request)
        if foreign is not None:
            request.error = request.error or not_owner(foreign)
        if request.line is not None and request.line in core.committer.parked.lines:
            request.parked = True
            return False
    if request.beside is not None:
        request.error = request.error or request.beside.check(draft)
    return request.error is None


def _park_held(publishes: Sequence[PublishRequest]) -> None:
    """Park the requests whose messages a round holds: they can be judged only after the round has ended."""
    for request in publishes:
        if isinstance(request.error, HeldMessages):
            request.error, request.parked = None, True


def _foreign(core: Core, request: PublishRequest) -> int | None:
    """A partition of another shard that a small publish has a message for; None if there is none. Faults are found later."""
    if request.unit is not None:
        return None
    sent = request.letters if request.letters is not None else request.messages
    names = {getattr(each, "recipient", None) for each in sent if isinstance(getattr(each, "recipient", None), str)}
    found = (core.locate(name).partition for name in names if name is not None and is_text(name))
    return next((partition for partition in found if partition not in core.owned), None)


def _plan_beside(draft: RequestDraft, stored: Sequence[PublishRequest]) -> None:
    for request in stored:
        if request.beside is not None and request.error is None:
            request.beside.plan(draft)


def plan_light_publishes(core: Core, plan: CommitPlan, publishes: Sequence[PublishRequest]) -> bool:
    """Plan small publishes without batches, if all are plainly valid and next in their lines; else do nothing."""
    if not _are_few(publishes):
        return False
    if core.shard is not None and any(_foreign(core, request) is not None for request in publishes):
        return False
    numbered = [request for request in publishes if request.numbers is not None]
    if numbered and not are_plainly_next(core, numbered):
        return False
    draft = plan.draft()
    planned = plan_few(core, draft, publishes, ())
    if planned:
        if numbered:
            conclude(core, draft, numbered)
        plan.accept(draft)
    return planned


def _plan_all(core: Core, draft: RequestDraft, admission: NumberedAdmission) -> Sequence[PublishRequest]:
    """Plan the admitted publishes; return those that were not put off.

    The short way refuses nothing, so a publish that follows another in its line is stored after it. On the long way the
    earlier publish may be refused, which makes the follower's number wrong: so followers are put off until that is known.
    """
    publishes = admission.publishes
    small = [request for request in publishes if request.unit is None]
    large = [request for request in publishes if request.unit is not None]
    beside = [request.unit.arrivals.fingerprint for request in large if request.unit is not None]
    planned = bool(small) and _are_few(small) and plan_few(core, draft, small, beside)
    if not planned and admission.followers:
        publishes = [request for request in publishes if not admission.put_off(request)]
    for unit in _units(core, large if planned else publishes):
        _plan(core, draft, unit)
    return publishes


def _are_few(small: Sequence[PublishRequest]) -> bool:
    """Whether the small sends of a commit are few messages together."""
    return are_few(sum([request.count() for request in small]))


def _units(core: Core, publishes: Sequence[PublishRequest]) -> list[Unit]:
    """The units to be planned, small requests first. Any order is right, because the requests were waiting concurrently."""
    small = [request for request in publishes if request.unit is None]
    units = _small_units(core, small)
    large = [request.unit for request in publishes if request.unit is not None]
    units += [unit if holds(core, unit.judged) else _judged_again(core, [unit]) for unit in large]
    if len(units) > 1 and not disjoint([unit.judged for unit in units]):
        return [_judged_again(core, units)]
    return units


def _small_units(core: Core, small: list[PublishRequest]) -> list[Unit]:
    """Group small publishes into units within the bounds of a send. A publish that exceeds them alone is refused."""
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


def _small_unit(core: Core, small: list[PublishRequest]) -> Unit:
    messages = [message for request in small for message in request.messages]
    columns, faults = intake.from_messages(
        messages, claim_check_origins=claim_check_origins(core), data_bytes_max=core.settings.data_bytes_max
    )
    start = np.cumsum([0, *(len(request.messages) for request in small)])
    found = _by_request(start, faults)
    arrivals = arrived(core, columns)
    for index, request in enumerate(small):
        rows = np.arange(start[index], start[index + 1])
        if index not in found:
            _check_origins(request, columns.origin.take(rows))
        if request.error is not None:
            continue
        if index in found or _misplaced(request, arrivals.partition[rows]):
            own = found.get(index, ())
            request.error = whole_refusal(core, columns.take(rows), own, request.partition, request.caller)
        elif request.numbers is not None:
            request.digests = of_batch(digests_of_columns(columns.take(rows), core.deed.key), request.batch)
    fine = np.repeat([request.error is None for request in small], np.diff(start)).astype(np.bool_)
    return Unit(small, start, judge(core, arrivals, start, fine))


def _judged_again(core: Core, units: Sequence[Unit]) -> Unit:
    """Join several units in order, and judge them on the current state."""
    requests = [request for unit in units for request in unit.requests]
    columns = intake.concat([unit.arrivals.columns for unit in units])
    start = np.cumsum([0, *(request.count() for request in requests)])
    arrivals = arrive(columns, key=core.deed.key, partition_count=core.deed.partition_count)
    fine = np.repeat([request.error is None for request in requests], np.diff(start)).astype(np.bool_)
    return Unit(requests, start, judge(core, arrivals, start, fine))


def _by_request(start: NDArray[np.int64], faults: Sequence[Fault]) -> dict[int, list[Fault]]:
    """The faults of each request that has any, with indices counted from its own first message."""
    found: dict[int, list[Fault]] = {}
    for fault in faults:
        index = int(np.searchsorted(start, fault.index, side="right")) - 1
        own = msgspec.structs.replace(fault, index=fault.index - int(start[index]))
        found.setdefault(index, []).append(own)
    return found


def _misplaced(request: PublishRequest, partition: NDArray[np.int64]) -> bool:
    """Whether a parcel sent to one partition has messages for another."""
    return request.partition is not None and bool((partition != request.partition).any())


def _check_origins(request: PublishRequest, origins: Texts) -> None:
    try:
        check_origins(request.caller, origins)
    except Forbidden as error:
        request.error = error


def _plan(core: Core, draft: RequestDraft, unit: Unit) -> None:
    _meet_holds(core, unit)
    _judge_delayed(core, draft, unit)
    verdict = unit.judged.verdict
    if verdict.any():
        _refuse_verdicts(unit)
    stored = np.flatnonzero((verdict == Verdict.NEW) & unit.accepted())
    number = np.zeros(0, np.int64)
    if len(stored):
        parcel = unit.parcel or _parcel_of(core, unit, stored)
        number = _store(core, draft, parcel)
        for request in unit.requests:
            request.published_at = parcel.published_at
    _receipts(unit, stored, number)
    for index, request in enumerate(unit.requests):
        if request.batch is not None and request.result is not None and request.result.duplicates:
            bind_duplicates(core, draft, request.batch, _duplicates(unit, index, stored, number))


def _meet_holds(core: Core, unit: Unit) -> None:
    """Give `HeldMessages` to requests with messages that a round holds."""
    held = core.memory(Holds)
    if not held:
        return
    arrivals = unit.arrivals
    for partition, rows in unit.judged.grouped.parts():
        for row in rows[held.met(partition, arrivals.fingerprint[rows])].tolist():
            request = unit.requests[int(np.searchsorted(unit.start, row, side="right")) - 1]
            request.error = request.error or HeldMessages("A message is held by a commit that is under way.")
            unit.parcel = None


def _judge_delayed(core: Core, draft: RequestDraft, unit: Unit) -> None:
    """Compare new messages with delayed ones: the same again is a duplicate, or in a batch, whose items are stored, a conflict."""
    memory, arrivals = core.memory(DelayedMemory), unit.arrivals
    if not memory.count or not memory.knows_any(arrivals.fingerprint.tolist()):
        return
    for index, request in enumerate(unit.requests):
        if request.error is not None or request.beside is not None:
            continue
        rows = np.arange(unit.start[index], unit.start[index + 1])
        for row in rows[unit.judged.verdict[rows] == Verdict.NEW].tolist():
            verdict = _verdict_of_delayed(draft, arrivals, row, in_batch=request.batch is not None)
            if verdict is not Verdict.NEW:
                unit.judged.verdict[row] = verdict
                unit.parcel = None


def _verdict_of_delayed(draft: RequestDraft, arrivals: Arrivals, row: int, *, in_batch: bool) -> Verdict:
    columns = arrivals.columns.take(np.array([row]))
    own = rows_of(replace(columns, visible_at=np.zeros(1, np.int64)), 0)[0]
    key = delayed_key(int(arrivals.recipient_hash[arrivals.columns.recipient.codes[row]]), own.recipient, own.id)
    value = draft.get(int(arrivals.partition[row]), Space.DELAYED, key)
    if value is None:
        return Verdict.NEW
    return Verdict.DUPLICATE if decode_delayed(value).is_same(own) and not in_batch else Verdict.CONFLICT


def _duplicates(unit: Unit, index: int, stored: NDArray[np.int64], number: NDArray[np.int64]) -> Duplicates:
    """The duplicates of a request, and the numbers of the messages they repeat, which may be stored by this very commit."""
    first, last = unit.start[index : index + 2].tolist()
    rows = np.flatnonzero(unit.judged.verdict[first:last] == Verdict.DUPLICATE) + first
    original = unit.judged.original[rows]
    twins = original < 0
    original[twins] = number[np.searchsorted(stored, -1 - original[twins])]
    return Duplicates(unit.arrivals, rows, original)


def _parcel_of(core: Core, unit: Unit, stored: NDArray[np.int64]) -> LaidOut:
    """The mailbags of the rows to be stored."""
    if len(stored) == len(unit.arrivals):
        return laid_out(core, unit.arrivals, unit.judged.grouped)
    rows = taken(unit.arrivals, stored)
    return laid_out(core, rows, group(rows))


def _refuse_verdicts(unit: Unit) -> None:
    _refuse_damaged(unit)
    rows = np.flatnonzero((unit.judged.verdict >= Verdict.CONFLICT) & unit.accepted())
    for index, faults in _by_request(unit.start, verdict_faults(unit.judged, rows)).items():
        unit.requests[index].error = refusal(faults)


def _refuse_damaged(unit: Unit) -> None:
    """Refuse publishes of messages that may be stored already in damaged places; the others go on."""
    rows = np.flatnonzero((unit.judged.verdict == Verdict.DAMAGED) & unit.accepted())
    for row, text in zip(rows.tolist(), unit.arrivals.columns.id_texts(rows), strict=True):
        index = int(np.searchsorted(unit.start, row, side="right")) - 1
        partition = int(unit.arrivals.partition[row])
        unit.requests[index].error = unit.requests[index].error or maybe_stored(
            f"Message number {row - int(unit.start[index])} ({text})", partition
        )


def maybe_stored(what: str, partition: int) -> DataDamaged:
    """The error for a message that may be stored already in a damaged place."""
    return DataDamaged(
        f"{what} may be stored already, where partition {partition} is damaged; so none was stored. Run `restante "
        "doctor`, and restore the data folder from a backup.",
        partition=partition,
    )


def _store(core: Core, draft: RequestDraft, parcel: LaidOut) -> NDArray[np.int64]:
    """Number the messages and put their mailbags into the draft; return the number of each."""
    first = np.zeros(core.deed.partition_count, np.int64)
    for partition in np.flatnonzero(parcel.counts).tolist():
        first[partition] = draft.add_messages(partition, int(parcel.counts[partition]))
    _put_mailbags(core, draft, parcel, first)
    draft.concerns.append(parcel.arrivals.recipient_hash)
    number = first[parcel.arrivals.partition] + parcel.place
    draft.arrived.append(parcel.arrivals.fingerprint)
    draft.applies.append(lambda: _remember(core, parcel, number))
    actions = action_rows_of(parcel.arrivals.columns)
    if len(actions):
        accept_columns(core, draft, parcel.arrivals, actions, number, parcel.published_at)
    draft.note(LiveMail).mail.append(_shipped(parcel, number, actions))
    return number


def _put_mailbags(core: Core, draft: RequestDraft, parcel: LaidOut, first: NDArray[np.int64]) -> None:
    """Put the mailbags of all partitions into the draft; `first` has the first number in each partition."""
    parcel.named = True
    by_partition: dict[int, list[int]] = {}
    for index, encoded in enumerate(parcel.segments):
        by_partition.setdefault(encoded.group, []).append(index)
    for partition, indices in by_partition.items():
        segments = [parcel.segments[index] for index in indices]
        written = [parcel.blobs[index] for index in indices] if parcel.blobs else ()
        put_mailbag(core, draft, segments, int(first[partition]), int(parcel.counts[partition]), written)


def _shipped(parcel: LaidOut, number: NDArray[np.int64], actions: NDArray[np.int64]) -> Shipped:
    """The messages for live connections: all but actions, which are no mail."""
    if not len(actions):
        return Shipped(parcel.arrivals, number, parcel.published_at)
    mail = np.setdiff1d(np.arange(len(parcel.arrivals)), actions)
    return Shipped(taken(parcel.arrivals, mail), number[mail], parcel.published_at)


def _remember(core: Core, parcel: LaidOut, number: NDArray[np.int64]) -> None:
    """Add the fingerprints of the stored messages, partition by partition."""
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
        if request.hear_rows is not None:
            request.hear_rows(stored[first:last] - starts[index], number[first:last])
        if accepted == 1 and partitions:
            receipts: tuple[PartitionReceipt, ...] = (_receipt(partitions[first], numbers[first], numbers[first]),)
        else:
            receipts = _receipts_of(partition[first:last], number[first:last])
        duplicates = starts[index + 1] - starts[index] - accepted
        request.result = Receipt(accepted=accepted, duplicates=duplicates, partitions=receipts)


def _receipt(partition: int, first: int, last: int) -> PartitionReceipt:
    return PartitionReceipt(partition=partition, first_sequence_number=first, last_sequence_number=last)


def _receipts_of(partition: NDArray[np.int64], number: NDArray[np.int64]) -> tuple[PartitionReceipt, ...]:
    """The receipts of one request. Its numbers in a partition are contiguous."""
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
