"""One segment: its bytes, its directory, and that the directory says what the rows say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante import limits
from restante.errors import DataDamaged
from restante.hub.doctor.doctor_blocks import damaged_blocks, drawer_name, records_in, span_faults
from restante.hub.doctor.doctor_findings import Case
from restante.model.columns.arrays import Mask
from restante.model.columns.hashing import text_hashes
from restante.model.columns.texts import Texts
from restante.model.storage.changes import BlobKey, Buffer
from restante.model.storage.partition import partitions_of
from restante.model.storage.row_formats import DrawerArray, RecordArray
from restante.model.storage.rows import BUNDLEABLE, INLINE, MADE_ID, TEXT_ID, cabinet_hashes
from restante.model.storage.run import RunRow, SegmentRow, StoredSegment
from restante.model.storage.segment import Area, Segment, decode

_FLAGS = BUNDLEABLE | INLINE | MADE_ID | TEXT_ID
_READ_BYTES_MAX = 8 * limits.LARGE_BLOB_BYTES_MAX
"""No blob is read that claims to be larger than this."""


@dataclass(frozen=True, slots=True)
class Sound:
    """A segment that can be counted: every row belongs to its drawer, and the places ascend."""

    stored: StoredSegment
    records: RecordArray


def examine_segment(case: Case, run: RunRow, place: SegmentRow) -> Sound | None:
    """Report all that is wrong with a segment; None if it is too damaged to be counted."""
    what = f"run {run.identity}, blob {place.blob}"
    blob = BlobKey(case.partition, place.blob)
    with case.guard(what):
        content = read_whole(case, what, blob, place.length)
        segment = decode(bytes(memoryview(content)[: place.front]))
        if (
            segment.rows != place.rows
            or segment.frame_length + segment.ledger_length + segment.data_length != place.length
        ):
            raise DataDamaged(
                f"Its row says {place.rows} messages in {place.length} bytes; the segment has {segment.rows} messages in "
                f"{segment.frame_length + segment.ledger_length + segment.data_length} bytes."
            )
        return _examine(case, what, StoredSegment(blob, run.first, segment), content)
    return None


def read_whole(case: Case, what: str, blob: BlobKey, length: int) -> Buffer:
    """A blob that should be exactly this long."""
    if not 0 <= length <= _READ_BYTES_MAX:
        raise DataDamaged(f"Its length cannot be {length} bytes.")
    content = case.store.read_blob(blob, 0, length)
    case.checked.blob_bytes += length
    try:
        case.store.read_blob(blob, length, 1)
    except DataDamaged:
        return content
    case.problem(what, f"The blob is longer than the {length} bytes that its row names.")
    return content


def _examine(case: Case, what: str, stored: StoredSegment, content: Buffer) -> Sound | None:
    segment = stored.segment
    damages = damaged_blocks(segment, content)
    for damage in damages:
        case.problem(what, f"Block {damage.block} of the {damage.area.value} fails its checksum; {damage.drawers}.")
    if any(damage.area is Area.LEDGER for damage in damages):
        return None
    segment.recipients.validate(full=True)
    lines, records = segment.drawers, records_in(segment, content)
    disorder = [*_shares(lines, segment.rows)] or [*_places(lines, records)] or [*_order(segment)]
    summaries = () if disorder else _summaries(lines, records)
    for mask, text in (*disorder, *summaries, *_addresses(case, segment)):
        _report(case, what, segment, mask, text)
    for fault in (*span_faults(segment, records), *_record_faults(segment, records)):
        case.problem(what, fault)
    return None if disorder else Sound(stored, records)


def _report(case: Case, what: str, segment: Segment, wrong: Mask, text: str) -> None:
    found = np.flatnonzero(wrong)
    if len(found):
        first = int(found[0])
        more = f" (and {len(found) - 1} more drawers)" if len(found) > 1 else ""
        case.problem(what, f"Drawer {first}, {drawer_name(segment, first)},{more} {text}.")


def _shares(lines: DrawerArray, rows: int) -> Iterator[tuple[Mask, str]]:
    """The drawers divide the rows among them."""
    count = lines["count"].astype(np.int64)
    size = (count < 1) | (count > limits.DRAWER_MESSAGES_MAX)
    if size.any():
        yield size, f"has not 1 to {limits.DRAWER_MESSAGES_MAX} messages"
    misplaced = lines["row"] != np.cumsum(count) - count
    if misplaced.any():
        yield misplaced, "does not begin where the one before it ends"
    if int(count.sum()) != rows:
        yield np.arange(len(lines)) == len(lines) - 1, f"ends with row {int(count.sum())} of {rows}"


def _places(lines: DrawerArray, records: RecordArray) -> Iterator[tuple[Mask, str]]:
    """Places ascend inside each drawer."""
    place = records["place"].astype(np.int64)
    falls = np.zeros(len(place), np.bool_)
    falls[1:] = place[1:] <= place[:-1]
    falls[lines["row"]] = False
    of_drawer = np.logical_or.reduceat(falls, lines["row"])
    if of_drawer.any():
        yield of_drawer, "has places that do not ascend"


def _order(segment: Segment) -> Iterator[tuple[Mask, str]]:
    """Drawers come one after another: by hashes, then by the full key, then by place."""
    lines = segment.drawers
    before, after = lines[:-1], lines[1:]
    same = after["recipient_hash"] == before["recipient_hash"]
    wrong = np.zeros(len(lines), np.bool_)
    wrong[1:] = (after["recipient_hash"] < before["recipient_hash"]) | (
        same & (after["cabinet_hash"] < before["cabinet_hash"])
    )
    # Few: drawers of one cabinet that go on, and cabinets whose hashes collide.
    for index in np.flatnonzero(same & (after["cabinet_hash"] == before["cabinet_hash"])).tolist():
        earlier = segment.cabinet(index), int(lines["last_place"][index])
        wrong[index + 1] = (segment.cabinet(index + 1), int(lines["first_place"][index + 1])) <= earlier
    if wrong.any():
        yield wrong, "does not lie in the order of the cabinets"


def _summaries(lines: DrawerArray, records: RecordArray) -> Iterator[tuple[Mask, str]]:
    """Compare what the directory says of a drawer with what its rows say."""
    row, count = lines["row"], lines["count"].astype(np.int64)
    weight = np.add.reduceat(records["weight"].astype(np.uint64), row)
    yield lines["weight"] != weight, "has another weight than its messages"
    expiry = np.minimum.reduceat(records["expires_at"], row)
    yield lines["earliest_expiry"] != expiry, "has another earliest expiry than its messages"
    published = np.minimum.reduceat(records["published_at"], row)
    yield lines["earliest_published"] != published, "has another time of publishing than its messages"
    yield lines["first_place"] != records["place"][row], "does not begin with its first place"
    yield lines["last_place"] != records["place"][row + count - 1], "does not end with its last place"


def _addresses(case: Case, segment: Segment) -> Iterator[tuple[Mask, str]]:
    """Hashes and partition are those of the recipients."""
    lines, deed = segment.drawers, case.deed
    recipient = Texts.encode(segment.recipients)
    hashes = text_hashes(recipient.values, deed.key)[recipient.codes]
    yield segment.recipient_hash != hashes, "has a wrong hash of its recipient"
    origin, kind = (_texts(lines[field], names) for field, names in _named_columns(segment))
    cabinets = cabinet_hashes(hashes, origin, kind, deed.key)
    yield lines["cabinet_hash"] != cabinets, "has a wrong hash of its cabinet"
    partition = partitions_of(recipient.values, deed.partition_count)[recipient.codes]
    yield partition != case.partition, "is of a recipient that belongs to another partition"
    blank = pc.equal(pc.utf8_length(segment.recipients), pa.scalar(0, pa.int32()))
    yield np.asarray(blank.to_numpy(zero_copy_only=False), np.bool_), "has no recipient"


def _named_columns(segment: Segment) -> tuple[tuple[str, list[str]], tuple[str, list[str]]]:
    return ("origin", segment.names.origins), ("kind", segment.names.kinds)


def _texts(codes: NDArray[np.uint32], names: list[str]) -> Texts:
    return Texts(codes.astype(np.int32), pa.array(names, pa.string()))


def _record_faults(segment: Segment, records: RecordArray) -> Iterator[str]:
    """Each message is one that could have been sent."""
    names = segment.names
    for wrong, text in (
        (records["weight"] < 1, "weighs nothing"),
        (
            records["data_length"] > limits.LARGE_DATA_BYTES_MAX,
            f"has more than {limits.LARGE_DATA_BYTES_MAX} bytes of data",
        ),
        ((records["flags"] | _FLAGS) != _FLAGS, "has flags that nobody gives"),
        ((records["flags"] & INLINE == 0) & (records["data_length"] > 0), "is a claim check and has data"),
        (records["document_type"] >= len(names.document_types), "has an unknown document type"),
        (records["media_type"] >= max(1, len(names.media_types)), "has an unknown media type"),
    ):
        if wrong.any():
            yield f"The message in row {int(np.argmax(wrong))} {text}; {int(wrong.sum())} in all."
