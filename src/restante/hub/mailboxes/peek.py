"""Peek: gives the open bundle again, or opens the next one.

The bundle is chosen on a view of the mailbox, outside the committer's thread, and committed only if the mailbox's heads are
still those of the view; otherwise it is chosen again. So two concurrent peeks give one bundle, and reading thousands of rows
does not hold up commits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante import limits
from restante.calls.mailboxes import Peek
from restante.errors import BundleIdUsed, BundleOpen, InvalidRequest
from restante.hub.batches.bound_messages import shares_of
from restante.hub.engine.core import Core, MailboxAddress, Stale, parse_uuid, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.row_reads import with_data
from restante.hub.mailboxes.mailbox import (
    Chunk,
    Opened,
    chunks,
    count_aside,
    first_number,
    known,
    look_for_mail,
    mail_heads,
    requested,
)
from restante.hub.mailboxes.message_columns import bundle_table, document_types
from restante.hub.mailboxes.settle import settle
from restante.model.access.access import EVERYTHING, Grant
from restante.model.mailboxes.answers import Reason
from restante.model.mailboxes.bundle import BundleBounds, BundleRow, Filling, decode_bundle, encode_bundle
from restante.model.mailboxes.few_rows import StoredLetter, stored_letters, table_of
from restante.model.mailboxes.filters import check_filters
from restante.model.storage.catalog import DrawerPlace
from restante.model.storage.change import ChangeKind
from restante.model.storage.changes import Space
from restante.model.storage.head import NumberRange, OpenMark, decode_head, in_ranges
from restante.model.storage.keys import Cabinet, bundle_key, key_cabinet, number_key
from restante.model.storage.piece import SegmentPiece

DEFAULT_FORMAT = "json"
_LETTERS_MAX = 64
"""Up to this many messages of a bundle are read as letters, because columns cost the same for one row as for a hundred."""
_LETTER_BYTES_MAX = 64 * limits.KIB


@dataclass(frozen=True, slots=True)
class PeekWish:
    """The checked options of a peek."""

    origins: Collection[str] = ()
    origin_groups: Collection[str] = ()
    bundle_id: bytes | None = None
    format: str | None = None
    bounds: BundleBounds = field(default_factory=BundleBounds)
    by: str = ""
    """The name of the caller's token; empty if the hub requires none."""


@dataclass(frozen=True, slots=True)
class OpenedBundle:
    """A bundle and its messages."""

    bundle_id: bytes
    row: BundleRow
    document_types: tuple[str, ...]
    columns: pa.Table | None
    few: tuple[StoredLetter, ...] = ()
    """The messages, if they are few, in place of `columns`."""

    @staticmethod
    def of(core: Core, bundle_id: bytes, row: BundleRow, chunks: Sequence[Chunk]) -> OpenedBundle:
        cabinet, types = Cabinet(row.recipient, row.origin, row.kind), document_types(chunks)
        pieces = [with_data(core.store, chunk.stored, chunk.row, chunk.records) for chunk in chunks]
        if _fit_in_letters(pieces):
            return OpenedBundle(bundle_id, row, types, None, stored_letters(pieces, cabinet))
        return OpenedBundle(bundle_id, row, types, bundle_table(cabinet, pieces))

    @property
    def table(self) -> pa.Table:
        return table_of(self.few) if self.columns is None else self.columns


def _fit_in_letters(pieces: Sequence[SegmentPiece]) -> bool:
    rows, size = sum(len(piece.records) for piece in pieces), sum(len(piece.data) for piece in pieces)
    return 0 < rows <= _LETTERS_MAX and size <= _LETTER_BYTES_MAX


def wish(call: Peek, caller: Grant = EVERYTHING) -> PeekWish:
    """Check the options of a call."""
    check_filters("origin", call.origins)
    check_filters("format", () if call.format is None else (call.format,))
    for name, value in (("max_messages", call.max_messages), ("max_weight", call.max_weight)):
        if value is not None and value < 1:
            raise InvalidRequest(f"{name} must be at least 1, not {value}.", parameter=name)
    most = limits.BUNDLE_WEIGHT_KIB_MAX
    bounds = BundleBounds(messages=min(call.max_messages or most, most), weight=min(call.max_weight or most, most))
    proposed = None if call.bundle_id is None else parse_uuid(call.bundle_id, "bundle_id")
    by = "" if caller is EVERYTHING else caller.name
    return PeekWish(frozenset(call.origins), frozenset(call.origin_groups), proposed, call.format, bounds, by)


def peek(core: Core, address: MailboxAddress, asked: PeekWish, *, wait: float = 0) -> OpenedBundle | Reason:
    """The bundle, or the reason why there is none. With `wait`, wait up to that many seconds for a bundle.

    It looks again after each commit that concerns the recipient. It listens before it looks, so no commit is missed in
    between. When the time is up, the last look is the answer.
    """
    if wait <= 0:
        return peek_now(core, address, asked)
    deadline = time.monotonic() + min(wait, limits.WAIT_SECONDS_MAX)
    rung = threading.Event()
    with core.bell.listening(address.hash, rung.set):
        while isinstance(found := peek_now(core, address, asked), Reason):
            if core.closing.is_set() or not rung.wait(max(0, deadline - time.monotonic())):
                break
            rung.clear()
    return found


def peek_now(core: Core, address: MailboxAddress, asked: PeekWish) -> OpenedBundle | Reason:
    return core.look_and_commit(lambda: _peek_once(core, address, asked))


def _peek_once(core: Core, address: MailboxAddress, asked: PeekWish) -> OpenedBundle | Reason:
    now = core.clock()
    opened = look_for_mail(core, address)
    cabinets = requested(core, opened, asked.origins, asked.origin_groups)
    already = open_bundle(core, opened, cabinets, asked)
    if already is not None:
        return already
    _check_unused(core, address, asked)
    chosen = choose(core, opened, free_cabinets(core, opened, cabinets), now)
    if chosen is None:
        return empty_reason(core, opened, cabinets, now)
    cabinet, first = chosen
    bounds = replace(asked.bounds, before=strict_end(core, opened, cabinet, first, now))
    filling = Filling(opened.head(cabinet), now, bounds)
    read = fill(core, opened.places[cabinet], filling)
    bundle_id = asked.bundle_id or core.new_uuid()
    row = core.commit(lambda draft: open_planned(core, draft, opened, cabinet, filling, bundle_id, asked))
    return OpenedBundle.of(core, bundle_id, row, _trimmed(read, row))


def empty_reason(core: Core, opened: Opened, cabinets: Collection[Cabinet], now: int) -> Reason:
    """Why a peek of these cabinets is empty, given that none has an open bundle, and none that is free has mail."""
    if any(first_number(core, opened, cabinet, now) is not None for cabinet in cabinets):
        return Reason.BUNDLE_OPEN_IN_GROUP
    if count_aside(core, opened.address):
        return Reason.NOT_YET_VISIBLE
    return Reason.NOTHING_WAITING if known(core, opened) else Reason.RECIPIENT_UNKNOWN


def open_bundle(core: Core, opened: Opened, cabinets: Collection[Cabinet], asked: PeekWish) -> OpenedBundle | None:
    """The open bundle of these cabinets, the one with the smallest number if there are several; else None."""
    marks = {cabinet: mark for cabinet in cabinets if (mark := opened.head(cabinet).open) is not None}
    if not marks:
        return None
    cabinet = min(marks, key=lambda cabinet: marks[cabinet].first)
    mark = marks[cabinet]
    if asked.bundle_id is not None and asked.bundle_id != mark.bundle_id:
        raise _other_open(mark.bundle_id, "Dequeue it first, or peek without a bundle id.")
    address = opened.address
    value = core.store.get(address.partition, Space.BUNDLE, bundle_key(address.hash, address.recipient, mark.bundle_id))
    if value is None:
        raise Stale
    row = decode_bundle(value)
    if not row.inline and asked.format is not None and asked.format != row.format:
        raise _other_open(mark.bundle_id, f"It was opened with format {row.format!r}.")
    places = opened.places.get(cabinet, [])
    return OpenedBundle.of(
        core, mark.bundle_id, row, _trimmed(list(chunks(core, places, after=row.first - 1, last=row.last)), row)
    )


def _other_open(bundle_id: bytes, advice: str) -> BundleOpen:
    text = uuid_text(bundle_id)
    return BundleOpen(f"Bundle {text} is open. {advice}", bundle_id=text)


def _check_unused(core: Core, address: MailboxAddress, asked: PeekWish) -> None:
    if asked.bundle_id is None:
        return
    value = core.store.get(
        address.partition, Space.BUNDLE, bundle_key(address.hash, address.recipient, asked.bundle_id)
    )
    if value is not None:
        text = uuid_text(asked.bundle_id)
        raise BundleIdUsed(f"{address.recipient} has had a bundle {text} before. Propose another id.", bundle_id=text)


def free_cabinets(core: Core, opened: Opened, cabinets: Collection[Cabinet]) -> list[Cabinet]:
    """The cabinets whose origin group has no open bundle."""
    group_of = core.settings.group_of
    busy = {group_of(cabinet.origin) for cabinet, head in opened.heads.items() if head.open is not None}
    return [cabinet for cabinet in cabinets if group_of(cabinet.origin) not in busy]


def choose(core: Core, opened: Opened, cabinets: Collection[Cabinet], now: int) -> tuple[Cabinet, int] | None:
    """The cabinet with the smallest first waiting number, and that number."""
    firsts = [(number, c) for c in cabinets if (number := first_number(core, opened, c, now)) is not None]
    if not firsts:
        return None
    number, cabinet = min(firsts)
    return cabinet, number


def strict_end(core: Core, opened: Opened, cabinet: Cabinet, first: int, now: int) -> int:
    """The number at which strict order ends a bundle: the first after its own first that waits in another cabinet."""
    group = core.settings.group_of(cabinet.origin)
    if not core.settings.strict_order(group):
        return 2**63 - 1
    others = [c for c in opened.places if c != cabinet and core.settings.group_of(c.origin) == group]
    firsts = [first_number(core, opened, other, now, after=first) for other in others]
    return min((number for number in firsts if number is not None), default=2**63 - 1)


def fill(core: Core, places: Sequence[DrawerPlace], filling: Filling) -> list[Chunk]:
    """Fill the bundle; return the chunks that were read."""
    read = []
    for chunk in chunks(core, places, after=filling.head.head):
        filling.add(chunk.numbers, chunk.records)
        read.append(chunk)
        if filling.ended:
            break
    return read


def open_planned(
    core: Core,
    draft: RequestDraft,
    opened: Opened,
    cabinet: Cabinet,
    filling: Filling,
    bundle_id: bytes,
    asked: PeekWish,
) -> BundleRow:
    """Open the bundle in a draft. Raises `Stale` if the mailbox has changed since the view."""
    address = opened.address
    _check_fresh(draft, opened)
    head = filling.head
    for part in filling.expired:
        if part[1].any():
            head = settle(core, draft, address, cabinet, head, kind=ChangeKind.EXPIRED, at=filling.now, part=part)
    first, last = filling.first_taken, filling.last_taken
    left_out = [
        NumberRange(max(e.first, first), min(e.last, last)) for e in head.apart if e.first <= last and e.last >= first
    ]
    row = BundleRow(
        *cabinet,
        first,
        last,
        filling.count,
        tuple(left_out),
        filling.now,
        filling.inline,
        format="" if filling.inline else asked.format or DEFAULT_FORMAT,
        request_id=b"" if filling.inline else core.new_uuid(),
        batches=shares_of(core, draft, address.partition, filling.taken),
        taken_by=asked.by,
    )
    mark = OpenMark(bundle_id, first, last, filling.count, filling.now)
    draft.put(
        address.partition, Space.BUNDLE, bundle_key(address.hash, address.recipient, bundle_id), encode_bundle(row)
    )
    draft.put_head(address.partition, address.hash, cabinet, msgspec.structs.replace(head, open=mark))
    draft.add_waiting(address.partition, -filling.expired_count)
    return row


def _check_fresh(draft: RequestDraft, opened: Opened) -> None:
    address = opened.address
    entries = draft.scan_prefix(address.partition, Space.HEAD, number_key(address.hash))
    heads = {key_cabinet(key): decode_head(value) for key, value in entries}
    own = {cabinet: head for cabinet, head in mail_heads(heads).items() if cabinet.recipient == address.recipient}
    if own != opened.heads or draft.count(address.partition).erasures != opened.erasures:
        raise Stale


def _trimmed(read: Sequence[Chunk], row: BundleRow) -> list[Chunk]:
    """The rows of a bundle: from its first number to its last, without those left out."""
    kept = []
    for chunk in read:
        numbers = chunk.numbers
        low, high = np.searchsorted(numbers, [row.first, row.last + 1]).tolist()
        if not row.left_out:
            kept.append(chunk.part(low, high))
            continue
        gone = in_ranges(row.left_out, numbers[low:high])
        kept += [chunk.part(low + start, low + stop) for start, stop in _runs_of(~gone)]
    return [chunk for chunk in kept if len(chunk.records)]


def _runs_of(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The stretches of True, as first and last (exclusive)."""
    edges = np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
    return list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))
