"""Messages cut into parcels for records: one partition each, and no larger than the log takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.errors import InvalidRequest
from restante.hub.backplane.doorway import RecordParcel
from restante.model.backplane.record import RECORD_BYTES_BESIDE
from restante.model.columns.arrow import offsets_of
from restante.model.columns.texts import Texts
from restante.model.publishing.intake import fill_made_ids
from restante.model.publishing.message import MessageColumns
from restante.model.storage.letter import Letter
from restante.model.storage.partition import partitions_of
from restante.model.uuid_text import RANDOM_BYTES_PER_ID, few_uuids
from restante.ports.clock import Clock

_LETTER_BYTES = 128
"""About what a message takes in a record beside its data, properties and names."""
_ROW_BYTES = 64
"""At most what a message takes in a record of columns beside its data, properties and names."""
_TEXT_BYTES = 4
"""The bytes that a text takes beside its own."""
_HEAD_BYTES = 8 * 1024 + RECORD_BYTES_BESIDE
"""The bytes that a record takes beside its messages."""


class RecordCut(NamedTuple):
    """The means to cut publishes into records: the bounds of a record, and the functions that cutting needs."""

    partition_count: int
    bytes_max: int
    """How many bytes a record may have."""
    locate: Callable[[str], int]
    """The partition of a recipient."""
    random: Callable[[int], bytes]
    clock: Clock


class NotForBackplane(InvalidRequest):
    """A send that has to go straight to its owner."""


def letter_parcels(cut: RecordCut, letters: Sequence[Letter]) -> list[RecordParcel]:
    """A few messages as parcels; those without ids get some."""
    groups: dict[int, list[int]] = {}
    with_ids = _with_ids(cut, letters)
    for row, letter in enumerate(with_ids):
        groups.setdefault(cut.locate(letter.recipient), []).append(row)
    sizes = np.array([_letter_bytes(letter) for letter in letters], np.int64)
    return [
        RecordParcel(partition, piece, [with_ids[row] for row in piece])
        for partition, rows in groups.items()
        for piece in _pieces(np.array(rows), sizes, cut.bytes_max)
    ]


def _with_ids(cut: RecordCut, letters: Sequence[Letter]) -> Sequence[Letter]:
    count = sum([not letter.id for letter in letters])
    if not count:
        return letters
    random = cut.random(count * RANDOM_BYTES_PER_ID)
    made = iter(few_uuids(count, now_ms=cut.clock() // 1_000, random=random))
    return [letter if letter.id else msgspec.structs.replace(letter, id=next(made)) for letter in letters]


def _letter_bytes(letter: Letter) -> int:
    names = 4 * (len(letter.recipient) + len(letter.origin) + len(letter.kind) + len(letter.document_type))
    return _LETTER_BYTES + names + 4 * len(letter.media_type) + len(letter.data) + len(letter.properties)


def column_parcels(cut: RecordCut, columns: MessageColumns) -> Iterator[RecordParcel]:
    """Many messages as parcels; those without ids get some."""
    made = int(columns.made_id.sum())
    if made:
        random = cut.random(made * RANDOM_BYTES_PER_ID)
        columns = fill_made_ids(columns, now_ms=cut.clock() // 1_000, random=random)
    partition = partitions_of(columns.recipient.values, cut.partition_count)[columns.recipient.codes]
    sizes = _row_bytes(columns)
    order = np.argsort(partition.astype(np.uint16), kind="stable")
    # All messages are put in order at once. Then the messages of a record lie together, and are not copied again.
    ordered, at = columns.take(order), 0
    begins = np.flatnonzero(np.diff(partition[order], prepend=-1))
    for own in np.split(order, begins[1:]):
        for piece in _pieces(own, sizes, cut.bytes_max):
            yield RecordParcel(int(partition[own[0]]), piece, ordered.slice(at, at + len(piece)))
            at += len(piece)


def _row_bytes(columns: MessageColumns) -> NDArray[np.int64]:
    """At most what each message takes in a record of columns."""
    sizes = np.diff(offsets_of(columns.data)) + np.diff(offsets_of(columns.properties)) + _ROW_BYTES
    for texts in (columns.recipient, columns.origin, columns.kind, columns.document_type, columns.media_type):
        if len(texts.values) > 1:
            sizes = sizes + _text_bytes(texts) + _TEXT_BYTES
    return sizes.astype(np.int64)


def _text_bytes(texts: Texts) -> NDArray[np.int64]:
    return np.diff(offsets_of(texts.values)).astype(np.int64)[texts.codes]


def _pieces(rows: NDArray[np.int64], sizes: NDArray[np.int64], bytes_max: int) -> Iterator[NDArray[np.int64]]:
    """The rows of a partition in pieces that fit in a record each."""
    room = bytes_max - _HEAD_BYTES
    ends = np.cumsum(sizes[rows])
    if len(rows) and ends[-1] <= room:
        yield rows
        return
    start, before = 0, 0
    while start < len(rows):
        end = int(np.searchsorted(ends, before + room, side="right"))
        if end == start:
            raise _too_large(int(rows[start]), int(sizes[rows[start]]), room)
        yield rows[start:end]
        start, before = end, int(ends[end - 1])


def _too_large(row: int, size: int, room: int) -> NotForBackplane:
    return NotForBackplane(
        f"Message number {row} takes {size} bytes, and a record of the backplane has room for {room}. Send it without "
        "Restante-Accept: accepted, or let an operator raise backplane.record_bytes_max and the topic's max.message.bytes."
    )
