"""Source positions: a partition keeps, for each source, the last position that it has stored.

A source is an ordered log elsewhere, a partition of a topic for example, and a position is a place in it: its offset.
Positions ascend; gaps are allowed, and messages of one record share its position. A publish that names its source stores
what lies beyond the last position of each partition, and skips the rest. The new positions are in the same commit. So a
source may be read again from any earlier place, in other batches, by another process: nothing is stored twice.

That holds if a reader sends the batches of a source in order, and begins again no later than at the first record whose
messages it does not know to be stored. A batch that arrives after a later one is skipped.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.decoders import packed_decoder
from restante.errors import DataDamaged, Fault, InvalidMessage, InvalidRequest
from restante.limits import FAULTS_SHOWN_MAX, SOURCE_CHARACTERS_MAX, SOURCE_POSITION_MAX
from restante.model.access.access import NO_OWNER, OWNER_BYTES
from restante.model.mailboxes.answers import moment
from restante.model.names import name_problem
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.sources.source_answers import PartitionPosition

NO_POSITION = -1
"""The position of a message that gives none, and of a partition that has stored nothing of a source."""
_BORDER = b"\0"
"""No name has it: so the names of sources sort before the owners."""
_encoder = msgspec.msgpack.Encoder()


class SourceRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A source in a partition, as it is stored."""

    position: int
    stored_at: int
    """Microseconds since 1970 UTC."""
    messages: int = 0
    """How many of its messages were stored."""


_decoder = packed_decoder(SourceRow)


def check_source(name: object) -> str:
    """The name of a source, if it is one."""
    if not isinstance(name, str) or not name.strip() or len(name) > SOURCE_CHARACTERS_MAX or not _encodes(name):
        raise InvalidRequest(
            f"A source's name is text of 1 to {SOURCE_CHARACTERS_MAX} characters, not blank; not {name!r}.",
            parameter="source",
        )
    problem = name_problem(name)
    if problem is not None:
        raise InvalidRequest(f"A source's name {problem}: {name!r}.", parameter="source")
    return name


def _encodes(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def check_position(position: object) -> int:
    right = type(position) is int and NO_POSITION <= position <= SOURCE_POSITION_MAX
    if not right or not isinstance(position, int):
        raise InvalidRequest(
            f"A position is a whole number from 0 to {SOURCE_POSITION_MAX}, or {NO_POSITION} for before all of them; "
            f"not {position!r}.",
            parameter="position",
        )
    return position


def positions_of(columns: MessageColumns) -> NDArray[np.int64]:
    """The position of each message of a source, ascending; the refusal of those that have none, or go back."""
    positions = columns.source_position
    if positions is None:
        positions = np.full(len(columns), NO_POSITION, np.int64)
    missing = positions == NO_POSITION
    back = ~missing & (positions < np.maximum.accumulate(positions)) if len(positions) else missing
    if missing.any() or back.any():
        raise refusal(_faults(columns, missing, back))
    return positions


def _faults(columns: MessageColumns, missing: NDArray[np.bool_], back: NDArray[np.bool_]) -> list[Fault]:
    rows = np.flatnonzero(missing | back)[:FAULTS_SHOWN_MAX]
    given = ~columns.made_id[rows]
    return [
        Fault(
            index=row,
            code=InvalidMessage.code,
            field="source_position",
            detail=_NONE if missing[row] else _BACK,
            id=text if has_id else None,
        )
        for row, text, has_id in zip(rows.tolist(), columns.id_texts(rows), given.tolist(), strict=True)
    ]


_NONE = "source_position is missing: of a publish that names its source, every message has one"
_BACK = "source_position is lower than that of a message before it: the positions of a source ascend"


def refuse_positions(columns: MessageColumns) -> None:
    """A position says nothing without a source."""
    positions = columns.source_position
    if positions is None or not len(positions):
        return
    row = int(np.argmax(positions != NO_POSITION))
    raise refusal(
        [
            Fault(
                index=row,
                code=InvalidMessage.code,
                field="source_position",
                detail="source_position needs a source: name it with the publish (the header Restante-Source)",
            )
        ]
    )


def source_key(name: str, owner: bytes) -> bytes:
    """Under which the position of an owner's source is stored."""
    return name.encode() + _BORDER + owner


def key_source(key: bytes) -> tuple[str, bytes]:
    """The name and the owner of a key."""
    name, border, owner = key.partition(_BORDER)
    try:
        if border and len(owner) in (len(NO_OWNER), OWNER_BYTES):
            return name.decode(), owner
    except UnicodeDecodeError:
        pass
    raise DataDamaged("The key of a source cannot be read. Run `restante doctor`.")


def encode_source(row: SourceRow) -> bytes:
    return _encoder.encode(row)


def decode_source(value: bytes) -> SourceRow:
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataDamaged(f"The position of a source cannot be read: {error}. Run `restante doctor`.") from error


def row_after(row: SourceRow | None, position: int, messages: int, now: int) -> SourceRow:
    """The row to be stored with messages up to a position."""
    before = SourceRow(NO_POSITION, now) if row is None else row
    return SourceRow(max(before.position, position), now, before.messages + messages)


def beyond(
    positions: NDArray[np.int64], partition: NDArray[np.integer[Any]], last: dict[int, int]
) -> NDArray[np.int64]:
    """The rows whose positions lie beyond the last one of their partition."""
    known = np.full(max(last, default=0) + 1, NO_POSITION, np.int64)
    known[list(last)] = list(last.values())
    return np.flatnonzero(positions > known[partition])


def last_positions(positions: NDArray[np.int64], partition: NDArray[np.integer[Any]]) -> dict[int, int]:
    """The last position of each partition, of positions that ascend."""
    numbers, first = np.unique(partition[::-1], return_index=True)
    return dict(zip(numbers.tolist(), positions[::-1][first].tolist(), strict=True))


def position_of(row: SourceRow, partition: int) -> PartitionPosition:
    return PartitionPosition(
        partition=partition,
        position=None if row.position == NO_POSITION else row.position,
        messages=row.messages,
        stored_at=moment(row.stored_at),
    )
