"""A few stored messages as letters: JSON is written of them without columns, and a table is made only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa

from restante.decoders import json_decoder
from restante.model.columns import media_types
from restante.model.columns.arrow import string_array
from restante.model.columns.properties import no_properties
from restante.model.columns.text_ids import unpacked
from restante.model.columns.texts import Texts
from restante.model.mailboxes.message_tables import time_of, to_table, value_of
from restante.model.publishing.message import NEVER, Message, MessageColumns, State
from restante.model.storage.keys import Cabinet
from restante.model.storage.letter import Letter
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.rows import BUNDLEABLE, INLINE, MADE_ID

_properties = json_decoder(dict[str, str]).decode


class StoredLetter(NamedTuple):
    """A message that waits."""

    letter: Letter
    id: bytes
    number: int
    published_at: int


def stored_letters(pieces: Sequence[SegmentPiece], cabinet: Cabinet) -> tuple[StoredLetter, ...]:
    """The rows of pieces of one cabinet."""
    return tuple(letter for piece in pieces for letter in _letters(piece, cabinet))


def _letters(piece: SegmentPiece, cabinet: Cabinet) -> list[StoredLetter]:
    names, base, records = piece.stored.segment.names, piece.stored.base, piece.records
    data, properties = bytes(piece.data), bytes(piece.properties)
    found, at, more, ids = [], 0, 0, records["id"].tobytes()
    for index, row in enumerate(records.tolist()):
        _, expires_at, published_at, place, weight, _, length, _, document_type, media_type, size, flags, _ = row
        letter = Letter(
            b"",
            cabinet.recipient,
            cabinet.origin,
            cabinet.kind,
            names.document_types[document_type],
            names.media_types[media_type],
            weight,
            flags,
            data[at : at + length],
            properties[more : more + size],
            expires_at,
        )
        found.append(StoredLetter(letter, ids[16 * index : 16 * index + 16], place + base, published_at))
        at += length
        more += size
    return found


def messages_of(letters: Sequence[StoredLetter]) -> tuple[Message, ...]:
    """Letters as messages, without a column."""
    return tuple([_message(own) for own in letters])


def _message(own: StoredLetter) -> Message:
    letter = own.letter
    text_id, properties = unpacked(letter.properties)
    data = value_of(letter.data if letter.flags & INLINE else None, letter.media_type)
    return Message(
        sequence_number=own.number or None,
        id=str(UUID(bytes=own.id)) if text_id is None else text_id,
        recipient=letter.recipient,
        origin=letter.origin,
        kind=letter.kind,
        document_type=letter.document_type,
        weight=letter.weight,
        bundleable=bool(letter.flags & BUNDLEABLE),
        data=data,
        text=data if type(data) is str and media_types.is_text(letter.media_type) else None,
        media_type=letter.media_type,
        properties=_properties(properties) if properties else {},
        expires_at=time_of(letter.expires_at),
        published_at=time_of(own.published_at),
        state=State.WAITING,
    )


def table_of(letters: Sequence[StoredLetter]) -> pa.Table:
    """Letters as columns, by `MESSAGE_SCHEMA`."""
    rows, count = [own.letter for own in letters], len(letters)
    flags = np.array([row.flags for row in rows], np.uint8)
    properties = (
        pa.array([row.properties for row in rows], pa.binary()) if any(row.properties for row in rows) else None
    )
    columns = MessageColumns(
        id=np.frombuffer(b"".join([own.id for own in letters]), np.uint64).reshape(-1, 2),
        made_id=(flags & MADE_ID) != 0,
        recipient=_texts([row.recipient for row in rows]),
        origin=_texts([row.origin for row in rows]),
        kind=_texts([row.kind for row in rows]),
        document_type=_texts([row.document_type for row in rows]),
        media_type=_texts([row.media_type for row in rows]),
        weight=np.array([row.weight for row in rows], np.int32),
        bundleable=(flags & BUNDLEABLE) != 0,
        inline=(flags & INLINE) != 0,
        data=pa.array([row.data for row in rows], pa.large_binary()),
        properties=no_properties(count) if properties is None else properties,
        expires_at=np.array([row.expires_at for row in rows], np.int64),
    )
    return to_table(
        columns,
        sequence_number=np.array([own.number for own in letters], np.int64),
        published_at=np.array([own.published_at for own in letters], np.int64),
        collected_at=np.full(count, NEVER, np.int64),
        state=Texts.constant(State.WAITING.value, count),
    )


def _texts(texts: Sequence[str]) -> Texts:
    return Texts.encode(string_array(texts))
