"""Messages as Arrow columns for answers, made from stored rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.hub.engine.core import Core
from restante.hub.engine.row_reads import read_properties, with_data
from restante.hub.mailboxes.mailbox import Chunk
from restante.model.columns.arrow import Column
from restante.model.columns.properties import no_properties
from restante.model.columns.texts import Texts
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA, to_table
from restante.model.publishing.message import NEVER, MessageColumns, State
from restante.model.storage.keys import Cabinet
from restante.model.storage.merge import united
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.rows import BUNDLEABLE, INLINE, MADE_ID, ids_of
from restante.model.storage.run import StoredSegment
from restante.ports.store import Store

STATES = tuple(State)
STATE_TEXTS = pa.array([state.value for state in STATES], pa.string())
WAITING = STATES.index(State.WAITING)
_ROWS_JOINED = 4_096


@dataclass(frozen=True, slots=True)
class Fates:
    """The states of neighbouring rows as indices into `STATES`, and when they were collected (or `NEVER`)."""

    state: NDArray[np.int32]
    collected_at: NDArray[np.int64]

    @staticmethod
    def waiting(count: int) -> Fates:
        return Fates(np.full(count, WAITING, np.int32), np.full(count, NEVER, np.int64))

    def take(self, rows: NDArray[np.int64]) -> Fates:
        return Fates(self.state[rows], self.collected_at[rows])


def bundle_table(cabinet: Cabinet, pieces: Sequence[SegmentPiece]) -> pa.Table:
    """The messages of a bundle: a few joined into one batch, or many as one batch for each piece, without a copy."""
    rows = sum(len(piece.records) for piece in pieces)
    if not rows:
        return MESSAGE_SCHEMA.empty_table()
    if rows <= _ROWS_JOINED:
        return _table(cabinet, pieces, Fates.waiting(rows))
    return pa.concat_tables(_table(cabinet, [piece], Fates.waiting(len(piece.records))) for piece in pieces)


def chunk_table(core: Core, cabinet: Cabinet, chunk: Chunk, fates: Fates, *, without_data: bool = False) -> pa.Table:
    """Neighbouring rows of one cabinet with their fates."""
    piece = (_without_data if without_data else with_data)(core.store, chunk.stored, chunk.row, chunk.records)
    return _table(cabinet, [piece], fates)


def _without_data(store: Store, stored: StoredSegment, first: int, records: RecordArray) -> SegmentPiece:
    """The piece of these records without their data, which is not read."""
    bare = records.copy()
    bare["data_start"] = bare["data_length"] = 0
    bare["flags"] &= ~np.uint8(INLINE)
    if not bare["properties_length"].any():
        return SegmentPiece(stored, first, bare)
    return read_properties(store, stored, first, bare)


def _table(cabinet: Cabinet, pieces: Sequence[SegmentPiece], fates: Fates) -> pa.Table:
    return to_table(
        message_columns(pieces, cabinet),
        sequence_number=_joined([piece.numbers for piece in pieces]),
        published_at=_joined([piece.records["published_at"] for piece in pieces]).astype(np.int64),
        collected_at=fates.collected_at,
        state=Texts(fates.state, STATE_TEXTS),
    )


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def message_columns(pieces: Sequence[SegmentPiece], cabinet: Cabinet) -> MessageColumns:
    """Stored rows of one cabinet as message columns."""
    records = _joined([piece.records for piece in pieces])
    names, count = [piece.stored.segment.names for piece in pieces], len(records)
    flags = records["flags"]
    has_properties = bool(records["properties_length"].any())
    return MessageColumns(
        id=ids_of(records),
        made_id=(flags & MADE_ID) != 0,
        recipient=Texts.constant(cabinet.recipient, count),
        origin=Texts.constant(cabinet.origin, count),
        kind=Texts.constant(cabinet.kind, count),
        document_type=united(_codes(pieces, "document_type"), [own.document_types for own in names]),
        media_type=united(_codes(pieces, "media_type"), [own.media_types for own in names]),
        weight=records["weight"].astype(np.int32),
        bundleable=(flags & BUNDLEABLE) != 0,
        inline=(flags & INLINE) != 0,
        data=pa.concat_arrays([piece.data_column() for piece in pieces])
        if len(pieces) > 1
        else pieces[0].data_column(),
        properties=_properties(pieces) if has_properties else no_properties(count),
        expires_at=records["expires_at"].astype(np.int64),
    )


def _properties(pieces: Sequence[SegmentPiece]) -> pa.BinaryArray:
    column: Column = pa.concat_arrays([piece.properties_column() for piece in pieces])
    narrow: pa.BinaryArray = column.cast(pa.binary())
    return narrow


def _codes(pieces: Sequence[SegmentPiece], field: str) -> list[NDArray[np.uint32]]:
    return [piece.records[field] for piece in pieces]


def document_types(chunks: Sequence[Chunk]) -> tuple[str, ...]:
    """The distinct document types, in order of first appearance."""
    found: dict[str, None] = {}
    for chunk in chunks:
        names = chunk.stored.segment.names.document_types
        if len(names) == 1:
            found[names[0]] = None
            continue
        codes, firsts = np.unique(chunk.records["document_type"], return_index=True)
        found.update(dict.fromkeys(names[code] for code in codes[np.argsort(firsts)].tolist()))
    return tuple(found)
