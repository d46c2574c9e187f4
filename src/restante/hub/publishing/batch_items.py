"""Publishing under a batch: check that the batch takes more, bind new messages as its items, and count duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.errors import RestanteError
from restante.hub.batches.batch_counts import count, row_of
from restante.hub.batches.batch_parts import check_parts
from restante.hub.batches.bound_messages import bind, binding, put_stretch
from restante.hub.engine.core import Core, is_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.publishing.publish_request import PublishRequest
from restante.model.batches.batch import BatchRow, Counts, check_open
from restante.model.batches.bound_stretches import BindingRole, Bindings, BoundStretch
from restante.model.columns.arrays import Numbers
from restante.model.mailboxes.bundle import decode_bundle, encode_bundle
from restante.model.publishing.arrival import Arrivals
from restante.model.storage.changes import Space
from restante.model.storage.head import Apart, Head, apart_of, decode_head, waiting_mask
from restante.model.storage.keys import Cabinet, bundle_key, cabinet_key, key_number

_HEADS_ONE_BY_ONE_MAX = 4_096
"""With more messages than this, all heads of their partition are read at once."""


class OpenBatches:
    """The batches that the publishes of a commit name, each looked up once."""

    def __init__(self, core: Core, draft: RequestDraft) -> None:
        self._core = core
        self._draft = draft
        self._rows: dict[bytes, BatchRow | None] = {}

    def check(self, batch: bytes, request: PublishRequest) -> None:
        """Raise `BatchUnknown` or `BatchSealed` if the batch takes no more from the caller."""
        caller = request.caller
        if self._core.shard is not None:
            check_parts(self._draft, _partitions_of(self._core, request), batch, caller)
            return
        if batch not in self._rows:
            self._rows[batch] = row_of(self._core, self._draft, batch)
        check_open(self._rows[batch], batch, caller)

    def refuse(self, request: PublishRequest) -> bool:
        """Set the request's error if its batch takes no further items; return whether it was refused."""
        if request.batch is None:
            return False
        try:
            self.check(request.batch, request)
        except RestanteError as error:
            request.error = error
            return True
        return False


def _partitions_of(core: Core, request: PublishRequest) -> set[int]:
    """The partitions of a publish's recipients. Invalid messages are skipped here, and refused later."""
    if request.unit is not None:
        return set(np.unique(request.unit.arrivals.partition).tolist())
    sent = request.letters if request.letters is not None else request.messages
    names = {getattr(each, "recipient", None) for each in sent}
    return {core.locate(name).partition for name in names if isinstance(name, str) and is_text(name)}


def bind_items(core: Core, draft: RequestDraft, publishes: Iterable[PublishRequest]) -> None:
    """Bind the new messages of these publishes to their batches, and count them."""
    found = [
        (receipt.partition, BoundStretch(receipt.first_sequence_number, receipt.last_sequence_number, request.batch))
        for request in publishes
        if request.batch is not None and request.error is None and request.result is not None
        for receipt in request.result.partitions
    ]
    found.sort()
    for partition, entries in groupby(found, key=lambda entry: entry[0]):
        bind_stretches(core, draft, partition, [stretch for _, stretch in entries])


def bind_stretches(core: Core, draft: RequestDraft, partition: int, stretches: Sequence[BoundStretch]) -> None:
    """Bind stretches of new messages to batches as items, and count them."""
    known = binding(core, draft, partition)
    items, added = known.items, dict[bytes, int]()
    for stretch in _joined(stretches):
        added[stretch.batch] = added.get(stretch.batch, 0) + stretch.last - stretch.first + 1
        latest = items.latest
        if latest is not None and _extends(core, partition, latest, stretch):
            items = items.extended(stretch.last)
            put_stretch(draft, partition, BindingRole.ITEM, latest._replace(last=stretch.last))
        else:
            items = items.with_next(stretch)
            put_stretch(draft, partition, BindingRole.ITEM, stretch)
    bind(core, draft, partition, Bindings(items, known.duplicates))
    for batch, messages in added.items():
        count(core, draft, partition, batch, Counts(added=messages))


def _joined(stretches: Sequence[BoundStretch]) -> list[BoundStretch]:
    """The stretches, with adjacent ones of the same batch joined."""
    joined = list(stretches[:1])
    for stretch in stretches[1:]:
        before = joined[-1]
        if before.batch == stretch.batch and before.last + 1 == stretch.first:
            joined[-1] = before._replace(last=stretch.last)
        else:
            joined.append(stretch)
    return joined


def _extends(core: Core, partition: int, latest: BoundStretch, stretch: BoundStretch) -> bool:
    """Whether a stretch may extend the latest one of its batch: no stored message may lie between them.

    Messages of earlier commits are all in `runs`, and the stretch must be the first that this commit numbers.
    """
    memory = core.partitions[partition]
    stored = memory.runs[-1].row.last if memory.runs else 0
    first_of_commit = stretch.first == memory.counters.visible + 1
    return latest.batch == stretch.batch and first_of_commit and stored <= latest.last


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Rows of arrivals that are duplicates, and the numbers of the stored messages that they repeat."""

    arrivals: Arrivals
    rows: NDArray[np.int64]
    numbers: Numbers


def bind_duplicates(core: Core, draft: RequestDraft, batch: bytes, duplicates: Duplicates) -> None:
    """Count the duplicates of a publish, and bind the stored messages that they repeat and that still wait."""
    partition = duplicates.arrivals.partition[duplicates.rows]
    order = np.argsort(partition, kind="stable")
    begins = np.flatnonzero(np.diff(partition[order], prepend=-1))
    for own in np.split(order, begins[1:]):
        part = Duplicates(duplicates.arrivals, duplicates.rows[own], duplicates.numbers[own])
        _bind_duplicates(core, draft, int(partition[own[0]]), batch, part)


def _bind_duplicates(core: Core, draft: RequestDraft, partition: int, batch: bytes, duplicates: Duplicates) -> None:
    numbers, index = np.unique(duplicates.numbers, return_index=True)
    known = binding(core, draft, partition)
    fresh = ~known.duplicates.inside(numbers, batch)
    numbers, rows = numbers[fresh], duplicates.rows[index[fresh]]
    pending = np.ones(len(numbers), np.bool_)
    held: list[tuple[_Drawn, int]] = []
    for drawn in _drawn(draft, partition, duplicates.arrivals, rows):
        own = numbers[drawn.place]
        waits = waiting_mask(drawn.head, own)
        pending[drawn.place] = waits | (apart_of(drawn.head, own) == Apart.SET_ASIDE)
        mark = drawn.head.open
        if mark is not None:
            held.append((drawn, int((waits & (own >= mark.first) & (own <= mark.last)).sum())))
    waiting = numbers[pending]
    stretches = _stretches(waiting, batch)
    for stretch in stretches:
        put_stretch(draft, partition, BindingRole.DUPLICATE, stretch)
    bind(core, draft, partition, Bindings(known.items, known.duplicates.with_more(stretches)))
    for drawn, messages in held:
        if messages:
            _add_to_bundle(draft, partition, drawn, batch, messages)
    more = Counts(duplicates=len(duplicates.rows), duplicates_waiting=len(waiting))
    count(core, draft, partition, batch, more)


def _stretches(numbers: Numbers, batch: bytes) -> list[BoundStretch]:
    """Group ascending numbers into stretches of a batch."""
    if not len(numbers):
        return []
    span = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return [BoundStretch(int(part[0]), int(part[-1]), batch) for part in span]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A cabinet that has a head, and the ascending places of its messages in `rows`."""

    recipient_hash: int
    cabinet: Cabinet
    head: Head
    place: NDArray[np.int64]


def _drawn(draft: RequestDraft, partition: int, arrivals: Arrivals, rows: NDArray[np.int64]) -> list[_Drawn]:
    """The cabinets of these rows that have a head. Without a head, all messages of a cabinet wait."""
    columns = arrivals.columns
    recipient, origin, kind = columns.recipient, columns.origin, columns.kind
    heads = _heads(draft, partition, len(rows))
    place = np.arange(len(rows)) if heads is None else _with_heads(arrivals, rows, heads)
    if not len(place):
        return []
    code = recipient.codes[rows[place]].astype(np.int64) * len(origin.values) + origin.codes[rows[place]]
    code = code * len(kind.values) + kind.codes[rows[place]]
    order = np.argsort(code, kind="stable")
    begins = np.flatnonzero(np.diff(code[order], prepend=-1))
    found = []
    for own in np.split(place[order], begins[1:]):
        row = rows[own[0]]
        recipient_hash = int(arrivals.recipient_hash[recipient.codes[row]])
        cabinet = Cabinet(*(str(texts.values[int(texts.codes[row])]) for texts in (recipient, origin, kind)))
        key = cabinet_key(recipient_hash, cabinet)
        value = draft.get(partition, Space.HEAD, key) if heads is None else heads.get(key)
        if value is not None:
            found.append(_Drawn(recipient_hash, cabinet, decode_head(value), own))
    return found


def _heads(draft: RequestDraft, partition: int, messages: int) -> dict[bytes, bytes] | None:
    """All heads of a partition, if that is less work than reading each head; else None."""
    if messages <= _HEADS_ONE_BY_ONE_MAX:
        return None
    return dict(draft.scan_prefix(partition, Space.HEAD, b""))


def _with_heads(arrivals: Arrivals, rows: NDArray[np.int64], heads: Iterable[bytes]) -> NDArray[np.int64]:
    """The places of the rows whose recipients have a head."""
    known = np.array([key_number(key) for key in heads], np.uint64)
    return np.flatnonzero(np.isin(arrivals.recipient_hash[arrivals.columns.recipient.codes[rows]], known))


def _add_to_bundle(draft: RequestDraft, partition: int, drawn: _Drawn, batch: bytes, messages: int) -> None:
    """Add `messages` to the duplicates of the batch that are in the open bundle: its dequeue must count them as collected."""
    mark = drawn.head.open
    assert mark is not None
    key = bundle_key(drawn.recipient_hash, drawn.cabinet.recipient, mark.bundle_id)
    value = draft.get(partition, Space.BUNDLE, key)
    assert value is not None, "who is marked as open has a row"
    row = decode_bundle(value)
    items, duplicates = next(((items, more) for other, items, more in row.batches if other == batch), (0, 0))
    others = tuple(share for share in row.batches if share[0] != batch)
    shares = (*others, (batch, items, duplicates + messages))
    draft.put(partition, Space.BUNDLE, key, encode_bundle(msgspec.structs.replace(row, batches=shares)))
