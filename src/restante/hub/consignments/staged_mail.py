"""`prepare` reads, judges and numbers the staged mail of a consignment for one partition, ahead of its commit.

Of most messages only the fingerprint is read (`_fingerprints`). Messages whose fingerprint may be stored or erased, or occurs
twice (`_suspicious`), are read in full and judged like arrivals, in portions that bound memory (`_together`). A conflict
refuses the commit. Runs that have duplicates are written again without them, and very many runs are joined; the others stay
as they are (`_lay_anew`).

What must stay true: messages are numbered in the order of `bags`, by place within each. Messages with one fingerprint are in
one portion, or twins would not meet. And a prepared mail is committed only while `holds` finds that no message with one of
its fingerprints was stored or removed since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante import limits
from restante.errors import DataDamaged, Fault, FaultyMessages
from restante.hub.consignments.stage import staged_row
from restante.hub.engine.core import Core
from restante.hub.engine.identity_reads import find, has_newer
from restante.hub.engine.partitions import Partition, PartitionRow, load_run
from restante.hub.engine.row_reads import read_piece, read_records
from restante.hub.publishing.batch_items import Duplicates
from restante.hub.publishing.identities import Judged, Seen, Verdict, judge
from restante.hub.publishing.publish import maybe_stored
from restante.hub.publishing.refuse import verdict_faults
from restante.model.columns.arrow import Column, column_of, string_array
from restante.model.columns.hashing import Hashes, fingerprints
from restante.model.columns.properties import no_properties
from restante.model.columns.texts import Texts
from restante.model.consignments.consignment import StagedParcel
from restante.model.publishing import intake
from restante.model.publishing.arrival import arrive
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.storage.catalog import damaged_directory
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.keys import number_key
from restante.model.storage.merge import DrawerStretch, merged
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.rows import BUNDLEABLE, INLINE, MADE_ID, ids_of
from restante.model.storage.run import Run, SegmentRow, StoredSegment, decode_run, drawer_of_rows
from restante.model.storage.segment import decode

_JUDGED_AT_ONCE = 100_000
_JUDGED_BYTES_AT_ONCE = 16 * limits.MIB
Offsets = NDArray[np.int64]
"""Indices of messages among all those of a consignment in one partition, in the order of their future numbers."""
_Part = tuple[Run, NDArray[np.bool_]]
"""A run, and a mask over places of its messages that are not duplicates."""


@dataclass(frozen=True, slots=True)
class StagedBag:
    """A staged run and its parcel."""

    parcel: StagedParcel
    run: Run


NamedRun = tuple[StagedParcel, int]
"""A parcel, and the name of its run in a partition."""


@dataclass(slots=True)
class PartitionMail:
    """The mail of a consignment for one partition."""

    partition: int
    runs: list[Run]
    """The runs in the order of their future numbers. Their rows are still those of staged runs."""
    judged: Hashes
    """The ascending fingerprints of all messages, including duplicates."""
    fingerprint: Hashes
    """The ascending fingerprints of the messages to be stored."""
    offset: Offsets
    """The offset of each fingerprint's message."""
    recipients: Hashes
    seen: Seen
    duplicates: list[Duplicates]
    """The duplicates. A number below 0 stands for the message with offset -1 - number."""

    @property
    def messages(self) -> int:
        return len(self.fingerprint)


def load_bags(core: Core, partition: int, runs: Sequence[NamedRun]) -> list[StagedBag] | None:
    """The runs with their directories; None if one is missing."""
    bags = []
    for parcel, identity in runs:
        value = core.store.get(partition, Space.RUN, number_key(identity))
        if value is None:
            return None
        bags.append(StagedBag(parcel, load_run(core.store, partition, decode_run(value))))
    return bags


def reloaded(core: Core, partition: int, names: Sequence[int]) -> PartitionMail:
    """Reload mail from the runs that were prepared before a restart. Its duplicates are no longer known."""
    runs = [load_run(core.store, partition, decode_run(_run_value(core, partition, name))) for name in names]
    read = [_fingerprints(core, run)[0] for run in runs]
    fingerprint = np.concatenate([np.zeros(0, np.uint64), *read])
    order = np.argsort(fingerprint)
    hashes = [stored.segment.recipient_hash for run in runs for stored in run.segments]
    recipients = np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]))
    fingerprint = fingerprint[order]
    seen = Seen.of(core.partitions[partition])
    return PartitionMail(partition, runs, fingerprint, fingerprint, order, recipients, seen, [])


def _run_value(core: Core, partition: int, name: int) -> bytes:
    value = core.store.get(partition, Space.RUN, number_key(name))
    if value is None:
        raise DataDamaged(
            f"A prepared run of partition {partition} is missing. Run `restante doctor`.", partition=partition
        )
    return value


def refreshed(core: Core, mail: PartitionMail) -> bool:
    """Whether the verdicts still hold. If so, `mail.seen` is moved up to now."""
    memory = core.partitions[mail.partition]
    seen = Seen.of(memory)
    if not holds(core, mail):
        return False
    mail.seen = seen
    return True


def holds(core: Core, mail: PartitionMail, counters: PartitionRow | None = None) -> bool:
    """Whether the verdicts still hold: no message with one of these fingerprints was stored since, and none was removed.

    A commit passes its own counters.
    """
    memory = core.partitions[mail.partition]
    if mail.seen.has_lost(counters or memory.counters):
        return False
    return not has_newer(core, memory, mail.judged, beyond=mail.seen.visible, ascending=True)


def without_stored_originals(mail: PartitionMail) -> PartitionMail:
    """The mail without duplicates of stored messages, which may be gone meanwhile. Duplicates of staged messages stay."""
    kept = [
        Duplicates(own.arrivals, own.rows[own.numbers < 0], own.numbers[own.numbers < 0]) for own in mail.duplicates
    ]
    return replace(mail, duplicates=kept)


def prepare(core: Core, partition: int, bags: Sequence[StagedBag], written: list[BlobKey]) -> PartitionMail:
    """Read and judge staged runs, inside `core.pins.reading()`. `written` lists every blob written, even after an error."""
    memory = core.partitions[partition]
    seen = Seen.of(memory)
    read = [_fingerprints(core, bag.run) for bag in bags]
    start = np.cumsum([0, *(len(own) for own, _ in read)])
    fingerprint, length = np.concatenate([own for own, _ in read]), np.concatenate([own for _, own in read])
    order = np.argsort(fingerprint)
    fingerprint = fingerprint[order]
    recipients = np.unique(np.concatenate([stored.segment.recipient_hash for b in bags for stored in b.run.segments]))
    mail = PartitionMail(partition, [bag.run for bag in bags], fingerprint, fingerprint, order, recipients, seen, [])
    counts = np.ones(len(order), np.bool_)
    for some in _together(order[_suspicious(core, memory, fingerprint)], fingerprint, order, length):
        judged = _judge(core, partition, bags, start, some)
        counts[some[judged.verdict == Verdict.DUPLICATE]] = False
        mail.duplicates.append(_slim(judged, some))
    if len(bags) > limits.STAGED_RUNS_MAX or not counts.all():
        _lay_anew(core, mail, bags, start, counts, written)
    return mail


def _fingerprints(core: Core, run: Run) -> tuple[Hashes, NDArray[np.uint32]]:
    """The fingerprint and the data length of each message of a run, in the order of places."""
    found, lengths = np.empty(run.row.rows, np.uint64), np.empty(run.row.rows, np.uint32)
    for stored in run.segments:
        segment = stored.segment
        if segment.damaged is not None:
            first = int(np.argmax(segment.damaged))
            raise damaged_directory(stored, first, first + 1)
        records = read_records(core.store, stored, 0, segment.rows)
        hashes = np.repeat(segment.recipient_hash, segment.drawers["count"].astype(np.int64))
        found[records["place"]] = fingerprints(hashes, ids_of(records))
        lengths[records["place"]] = records["data_length"]
    return found, lengths


def _suspicious(core: Core, memory: Partition, fingerprint: Hashes) -> NDArray[np.bool_]:
    """Which of these ascending fingerprints may be stored or erased, or occur more than once."""
    found = np.zeros(len(fingerprint), np.bool_)
    alike = fingerprint[1:] == fingerprint[:-1]
    found[1:] |= alike
    found[:-1] |= alike
    found[find(core, memory, fingerprint)[0]] = True
    if len(memory.erased):
        found |= memory.erased.may_contain(fingerprint)
    return found


def _together(suspects: Offsets, fingerprint: Hashes, order: Offsets, length: NDArray[np.uint32]) -> Iterator[Offsets]:
    """Portions of the suspects, each in offset order. Suspects with the same fingerprint stay in one portion."""
    if not len(suspects):
        return
    own = np.empty(len(order), np.uint64)
    own[order] = fingerprint
    prints = own[suspects]  # Ascending, because the suspects come in the order of their fingerprints.
    share = np.maximum(
        np.arange(len(suspects)) // _JUDGED_AT_ONCE,
        np.cumsum(length[suspects], dtype=np.int64) // _JUDGED_BYTES_AT_ONCE,
    )
    borders = np.flatnonzero(np.diff(share)) + 1
    # Each border moves back to the first suspect with its fingerprint, so that equal fingerprints stay together.
    borders = np.unique(np.searchsorted(prints, prints[borders], side="left"))
    for part in np.split(suspects, borders):
        if len(part):
            yield np.sort(part)


def _judge(core: Core, partition: int, bags: Sequence[StagedBag], start: Offsets, suspects: Offsets) -> Judged:
    """Judge some messages. Raises if one is damaged, erased or in conflict, which refuses the commit."""
    columns = intake.concat([part for part in _columns(core, bags, start, suspects) if len(part)])
    arrivals = arrive(columns, key=core.deed.key, partition_count=core.deed.partition_count)
    judged = judge(core, arrivals, np.array([0, len(columns)]), np.ones(len(columns), np.bool_))
    damaged = np.flatnonzero(judged.verdict == Verdict.DAMAGED)
    if len(damaged):
        raise maybe_stored(_source(bags, start, int(suspects[damaged[0]])), partition)
    bad = np.flatnonzero(judged.verdict >= Verdict.CONFLICT)[: limits.FAULTS_SHOWN_MAX]
    faults = [
        _located(fault, bags, start, suspects, int(judged.original[row]))
        for fault, row in zip(verdict_faults(judged, bad), bad.tolist(), strict=True)
    ]
    if faults:
        raise _refused(faults)
    return judged


def _refused(faults: Sequence[Fault]) -> FaultyMessages:
    first, kind = faults[0], type(refusal(faults))
    return kind(
        f"At least {len(faults)} of the messages cannot be stored, so nothing was committed; the consignment stays open. "
        f"The first is {first.id}, {first.detail}.",
        faults,
    )


def _located(fault: Fault, bags: Sequence[StagedBag], start: Offsets, suspects: Offsets, original: int) -> Fault:
    """The fault with the parcel of its message, and that of the other message if that is staged too."""
    detail = f"{_source(bags, start, int(suspects[fault.index]))}: {fault.detail}"
    if original < 0:
        detail += f": a {_source(bags, start, int(suspects[-1 - original]))}"
    return Fault(index=fault.index, code=fault.code, field=fault.field, detail=detail, id=fault.id)


def _source(bags: Sequence[StagedBag], start: Offsets, offset: int) -> str:
    (writer, attempt), parcel = bags[int(np.searchsorted(start, offset, side="right")) - 1].parcel
    return f"message of writer {writer!r}, attempt {attempt}, parcel {parcel}"


def _slim(judged: Judged, suspects: Offsets) -> Duplicates:
    """The duplicates without their data."""
    rows = np.flatnonzero(judged.verdict == Verdict.DUPLICATE)
    original = judged.original[rows]
    twins = original < 0
    original[twins] = -1 - suspects[-1 - original[twins]]  # From a row of this portion to an offset.
    columns = judged.arrivals.columns
    nothing = pa.array([], pa.large_binary())  # An empty slice would keep the whole column in memory.
    slim = replace(columns, data=nothing, properties=no_properties(0))
    return Duplicates(replace(judged.arrivals, columns=slim), rows, original)


def _lay_anew(
    core: Core,
    mail: PartitionMail,
    bags: Sequence[StagedBag],
    start: Offsets,
    counts: NDArray[np.bool_],
    written: list[BlobKey],
) -> None:
    """Remove duplicates from the runs, join runs if there are too many, and renumber the messages that remain.

    Offsets must stay those of the numbers that the messages will get. So removing a message moves all later offsets.
    """
    parts = [(bag.run, counts[start[index] : start[index + 1]]) for index, bag in enumerate(bags)]
    mail.runs = []
    for together in _grouped(parts):
        (run, own) = together[0]
        if len(together) == 1 and own.all():
            mail.runs.append(run)
            continue
        if any(own.any() for _, own in together):
            mail.runs.append(_written_again(core, mail.partition, together, written))
    number, kept = np.cumsum(counts) - 1, counts[mail.offset]
    mail.fingerprint, mail.offset = mail.fingerprint[kept], number[mail.offset[kept]]
    mail.duplicates = [replace(some, numbers=_renumbered(some.numbers, number)) for some in mail.duplicates]


def _grouped(parts: list[_Part]) -> list[list[_Part]]:
    """The runs one by one or, if there are very many, in groups of neighbours that fit into one segment."""
    if len(parts) <= limits.STAGED_RUNS_MAX:
        return [[part] for part in parts]
    groups: list[list[_Part]] = []
    room = 0
    for part in parts:
        length = part[0].row.length
        if length > room:
            groups.append([])
            room = limits.SEGMENT_BYTES_TARGET
        groups[-1].append(part)
        room -= length
    return groups


def _renumbered(original: Offsets, number: Offsets) -> Offsets:
    renumbered = original.copy()
    twins = original < 0
    renumbered[twins] = -1 - number[-1 - original[twins]]
    return renumbered


def _written_again(core: Core, partition: int, parts: Sequence[_Part], written: list[BlobKey]) -> Run:
    """Write one run of the messages that are no duplicates, with consecutive places."""
    pieces, masks, stretches, following = [], [], [], 0
    for run, counts in parts:
        place = np.cumsum(counts) - 1 + following
        following += int(counts.sum())
        for stored in run.segments:
            piece = read_piece(core.store, stored, 0, stored.segment.rows)
            records = piece.records.copy()
            masks.append(counts[records["place"]])
            # Only the rows that `merged` drops can have a place of -1, which the unsigned field cannot hold.
            records["place"] = np.maximum(place[records["place"]], 0)
            pieces.append(replace(piece, records=records))
            stretches.append(DrawerStretch(stored, 0, len(stored.segment.drawers)))
    left, first = iter(masks), parts[0][0].row  # `merged` asks once for each piece, in order.
    laid, segments = [], []
    for encoded in merged(stretches, pieces, first.first, lambda _piece, _drawer: next(left)):
        blob = core.partitions[partition].take_blob()
        core.store.put_blob(blob, encoded.parts, fence=core.fence)
        written.append(blob)
        laid.append(SegmentRow(blob.number, encoded.length, len(encoded.front), encoded.rows))
        segments.append(decode(encoded.front, trusted=True))
    return Run.of(staged_row(laid, first.made_at), partition, segments)


def _columns(core: Core, bags: Sequence[StagedBag], start: Offsets, wanted: Offsets) -> Iterator[MessageColumns]:
    """The messages with these ascending offsets, run by run."""
    borders = np.searchsorted(wanted, start)
    for index, bag in enumerate(bags):
        places = wanted[borders[index] : borders[index + 1]] - start[index]
        if not len(places):
            continue
        parts, found = [], []
        for stored in bag.run.segments:
            piece = read_piece(core.store, stored, 0, stored.segment.rows)
            rows = np.flatnonzero(np.isin(piece.records["place"], places))
            if len(rows):
                parts.append(_piece_columns(piece, stored).take(rows))
                found.append(piece.records["place"][rows])
        yield intake.concat(parts).take(np.argsort(np.concatenate(found)))


def _texts(codes: NDArray[np.uint32], names: list[str]) -> Texts:
    return Texts(codes.astype(np.int32), string_array(names)).compact()


def _piece_columns(piece: SegmentPiece, stored: StoredSegment) -> MessageColumns:
    """A whole segment as message columns."""
    segment, records, drawer = stored.segment, piece.records, drawer_of_rows(stored)
    names, flags = segment.names, records["flags"]
    properties: Column = no_properties(len(records))
    if records["properties_length"].any():
        properties = piece.properties_column().cast("binary")
    return MessageColumns(
        id=ids_of(records),
        made_id=(flags & MADE_ID) != 0,
        recipient=Texts.encode(segment.recipients.take(column_of(drawer))),
        origin=_texts(segment.drawers["origin"][drawer], names.origins),
        kind=_texts(segment.drawers["kind"][drawer], names.kinds),
        document_type=_texts(records["document_type"], names.document_types),
        media_type=_texts(records["media_type"], names.media_types),
        weight=records["weight"].astype(np.int32),
        bundleable=(flags & BUNDLEABLE) != 0,
        inline=(flags & INLINE) != 0,
        data=piece.data_column(),
        properties=properties,
        expires_at=records["expires_at"].astype(np.int64),
    )
