"""Heads and bundles: that they decode, that they agree, and what they claim of the stored messages."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case, named
from restante.hub.doctor.doctor_tally import Register
from restante.hub.engine.core import uuid_text
from restante.model.columns.hashing import text_hash, text_hashes
from restante.model.mailboxes.bundle import BundleRow, decode_bundle
from restante.model.storage.changes import Space
from restante.model.storage.head import Apart, ApartRange, Head, NumberRange, OpenMark, decode_head
from restante.model.storage.keys import Cabinet, bundle_key, key_cabinet, key_number
from restante.model.storage.partition import partitions_of

_PAGE = 10_000
_SHOWN_MAX = 20


@dataclass(slots=True)
class Mailboxes:
    """The small rows of a partition, as columns."""

    register: Register = field(default_factory=Register)
    heads: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The head, and what was forgotten, of each cabinet."""
    marks: dict[bytes, tuple[int, OpenMark]] = field(default_factory=dict)
    """The open bundles that heads name, by the key of the bundle: cabinet and mark."""
    bundles: IntegerColumns = field(default_factory=lambda: IntegerColumns(3))
    """Cabinet, first, last."""
    closed: IntegerColumns = field(default_factory=lambda: IntegerColumns(2))
    """For each dequeued bundle: the number of its change, and a digest of all that its record should say."""


class IntegerColumns:
    """Columns of integers that grow."""

    def __init__(self, width: int) -> None:
        self._columns = [array("q") for _ in range(width)]

    def add(self, *values: int) -> None:
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)

    def arrays(self) -> list[NDArray[np.int64]]:
        return [np.array(column, np.int64) for column in self._columns]


def entries(case: Case, space: Space) -> Iterator[tuple[bytes, bytes]]:
    """All entries of a space, a page at a time."""
    start = b""
    while page := case.store.scan(case.partition, space, start=start, limit=_PAGE):
        yield from page
        start = page[-1][0] + b"\0"


def examine_entries(case: Case, space: Space, what: str, examine: Callable[[bytes, bytes], None]) -> int:
    """Look at each entry of a space; one that makes no sense does not keep the others from being looked at."""
    count = 0
    with case.guard(f"{what} rows"):
        for key, value in entries(case, space):
            count += 1
            with case.guard(f"{what} row {key.hex()}"):
                examine(key, value)
    return count


def read_heads(case: Case, seen: Mailboxes) -> None:
    hashes = array("Q")

    def examine(key: bytes, value: bytes) -> None:
        cabinet, head = key_cabinet(key), decode_head(value)
        owner = seen.register.cabinet(cabinet)
        if owner in seen.heads:
            raise DataDamaged(f"There are two heads of {named(cabinet)}.")
        hashes.append(key_number(key))
        for fault in _head_faults(case, head):
            case.problem(f"head of {named(cabinet)}", fault)
        _claim(seen, owner, head)
        if head.open is not None:
            place = bundle_key(key_number(key), cabinet.recipient, head.open.bundle_id)
            seen.marks[place] = owner, head.open

    case.checked.heads += examine_entries(case, Space.HEAD, "head", examine)
    with case.guard("heads"):
        _check_addresses(case, seen.register.cabinets(), hashes)


def _head_faults(case: Case, head: Head) -> Iterator[str]:
    visible = case.counters.visible
    if not 0 <= head.forgotten <= head.head <= visible:
        yield f"0 ≤ forgotten {head.forgotten} ≤ head {head.head} ≤ visible sequence {visible} does not hold."
    gone = max([head.forgotten, *(entry.last for entry in head.apart if entry.why is Apart.GONE)])
    if gone > case.counters.forgotten:
        yield f"Number {gone} is past its retention, but the counters say none beyond {case.counters.forgotten} is."
    yield from _range_faults("What is settled apart", head.apart, visible)
    mark = head.open
    if mark is not None and not head.head < mark.first <= mark.last <= visible:
        yield f"Its open bundle, {mark.first} to {mark.last}, does not lie beyond the head {head.head}."


def _range_faults(
    subject: str, ranges: tuple[ApartRange, ...] | tuple[NumberRange, ...], visible: int
) -> Iterator[str]:
    before = 0
    for entry in ranges:
        if not before < entry.first <= entry.last <= visible:
            yield f"{subject} is out of order: {entry.first} to {entry.last} after {before}, visible sequence {visible}."
            return
        before = entry.last


def _claim(seen: Mailboxes, owner: int, head: Head) -> None:
    """The rows that the head settles: all up to it, and beyond it what is apart."""
    seen.heads[owner] = head.head, head.forgotten
    seen.register.settled(owner, 0, head.head)
    for entry in head.apart:
        seen.register.settled(owner, max(entry.first, head.head + 1), entry.last)


def _check_addresses(case: Case, cabinets: list[Cabinet], hashes: array[int]) -> None:
    """Keys begin with the recipient's hash, and the recipient belongs to the partition."""
    if not cabinets:
        return
    recipients = pa.array([cabinet.recipient for cabinet in cabinets], pa.string())
    stored = np.array(hashes, np.uint64)
    for wrong, text in (
        (text_hashes(recipients, case.deed.key) != stored, "Its key does not begin with the recipient's hash."),
        (
            partitions_of(recipients, case.deed.partition_count) != case.partition,
            "The recipient belongs to another partition.",
        ),
    ):
        for index in np.flatnonzero(wrong)[:_SHOWN_MAX].tolist():
            case.problem(f"head of {named(cabinets[index])}", text)


def read_bundles(case: Case, seen: Mailboxes) -> None:
    def examine(key: bytes, value: bytes) -> None:
        row, bundle_id = decode_bundle(value), key[8:24]
        what = f"bundle {uuid_text(bundle_id)} of {row.recipient}"
        if key != bundle_key(text_hash(row.recipient, case.deed.key), row.recipient, bundle_id):
            case.problem(what, "Its key is not that of its recipient.")
        owner = seen.register.cabinet(Cabinet(row.recipient, row.origin, row.kind))
        for fault in (*_bundle_faults(case, seen, row, owner), *_mark_faults(seen, row, owner, key)):
            case.problem(what, fault)
        forgotten = seen.heads.get(owner, (0, 0))[1]
        ranges = (NumberRange(row.first, row.last),)
        seen.register.expect("bundle of", owner, ranges, row.left_out, row.count, exact=row.first > forgotten)
        seen.bundles.add(owner, row.first, row.last)
        if row.closed_at:
            said = (row.closed_at, row.recipient, row.origin, row.kind, row.count, ranges, row.left_out, bundle_id)
            seen.closed.add(row.change, digest(said))

    case.checked.bundles += examine_entries(case, Space.BUNDLE, "bundle", examine)
    for owner, mark in seen.marks.values():
        cabinet = seen.register.cabinets()[owner]
        detail = f"Its open bundle {uuid_text(mark.bundle_id)} has no row, or one that is closed."
        case.problem(f"head of {named(cabinet)}", detail)
    with case.guard("bundles"):
        _check_apart(case, seen)


def digest(value: object) -> int:
    """A number that two equal values share."""
    return xxhash.xxh3_64_intdigest(msgspec.msgpack.encode(value)) >> 1


def _bundle_faults(case: Case, seen: Mailboxes, row: BundleRow, owner: int) -> Iterator[str]:
    if not 1 <= row.first <= row.last <= case.counters.visible or row.count < 1:
        yield f"{row.count} messages from {row.first} to {row.last} are not within 1 to {case.counters.visible}."
    yield from _range_faults("What it leaves out", row.left_out, case.counters.visible)
    head = seen.heads.get(owner)
    if head is None:
        yield f"There is no head of {row.recipient}/{row.origin}/{row.kind}."
    elif row.closed_at and head[0] < row.last:
        yield f"It was dequeued up to {row.last}, but the head is at {head[0]}."


def _mark_faults(seen: Mailboxes, row: BundleRow, owner: int, key: bytes) -> Iterator[str]:
    """An open bundle is the one that its cabinet's head names."""
    if row.closed_at:
        return
    marked = seen.marks.pop(key, None)
    if marked is None:
        yield "It is open, but the head of its cabinet does not name it."
        return
    mark = marked[1]
    if marked[0] != owner or (mark.first, mark.last, mark.count, mark.opened_at) != (
        row.first,
        row.last,
        row.count,
        row.opened_at,
    ):
        yield f"Its row ({row.count} from {row.first} to {row.last}) and the head's mark of it do not agree."


def _check_apart(case: Case, seen: Mailboxes) -> None:
    """Check that no message is in two bundles."""
    owner, first, last = seen.bundles.arrays()
    order = np.lexsort([first, owner])
    owner, first, last = owner[order], first[order], last[order]
    overlaps = np.flatnonzero((owner[1:] == owner[:-1]) & (first[1:] <= last[:-1]))
    cabinets = seen.register.cabinets() if len(overlaps) else []
    for index in overlaps[:_SHOWN_MAX].tolist():
        detail = f"Bundles {first[index]} to {last[index]} and {first[index + 1]} to {last[index + 1]} overlap."
        case.problem(f"bundles of {named(cabinets[owner[index]])}", detail)
