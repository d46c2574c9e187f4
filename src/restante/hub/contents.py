"""Messages as they are given out: Arrow columns from stored rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.hub.core import Core
from restante.hub.mailbox import Chunk
from restante.hub.reading import with_data
from restante.model.arrow import Column
from restante.model.keys import Cabinet
from restante.model.message import NEVER, MessageColumns, State
from restante.model.outtake import MESSAGE_SCHEMA, to_table
from restante.model.piece import Piece
from restante.model.properties import no_properties
from restante.model.rows import BUNDLEABLE, INLINE, MADE_ID
from restante.model.texts import Texts

STATES = tuple(State)
_STATE_TEXTS = pa.array([state.value for state in STATES], pa.string())
WAITING = STATES.index(State.WAITING)


@dataclass(frozen=True, slots=True)
class Fates:
    """What has become of neighbouring rows: an index into `STATES`, and when they were collected (or `NEVER`)."""

    state: NDArray[np.int32]
    collected_at: NDArray[np.int64]

    @staticmethod
    def waiting(count: int) -> Fates:
        return Fates(np.full(count, WAITING, np.int32), np.full(count, NEVER, np.int64))

    def take(self, rows: NDArray[np.int64]) -> Fates:
        return Fates(self.state[rows], self.collected_at[rows])


def bundle_table(core: Core, cabinet: Cabinet, chunks: Sequence[Chunk]) -> pa.Table:
    """The messages of a bundle."""
    tables = [chunk_table(core, cabinet, chunk, Fates.waiting(len(chunk.records))) for chunk in chunks]
    return pa.concat_tables(tables) if tables else MESSAGE_SCHEMA.empty_table()


def chunk_table(core: Core, cabinet: Cabinet, chunk: Chunk, fates: Fates) -> pa.Table:
    """Neighbouring rows of one cabinet, with what has become of them."""
    piece = with_data(core.store, chunk.stored, chunk.row, chunk.records)
    return to_table(
        message_columns(piece, cabinet),
        sequence_number=piece.numbers,
        published_at=piece.records["published_at"].astype(np.int64),
        collected_at=fates.collected_at,
        state=Texts(fates.state, _STATE_TEXTS),
    )


def message_columns(piece: Piece, cabinet: Cabinet) -> MessageColumns:
    """Stored rows of one cabinet as message columns."""
    records, names, count = piece.records, piece.stored.segment.names, len(piece.records)
    flags = records["flags"]
    has_properties = bool(records["properties_length"].any())
    return MessageColumns(
        id=records["id"].astype(np.uint64),
        made_id=(flags & MADE_ID) != 0,
        recipient=Texts.constant(cabinet.recipient, count),
        origin=Texts.constant(cabinet.origin, count),
        kind=Texts.constant(cabinet.kind, count),
        document_type=_named(records["document_type"], names.document_types),
        media_type=_named(records["media_type"], names.media_types),
        weight=records["weight"].astype(np.int32),
        bundleable=(flags & BUNDLEABLE) != 0,
        inline=(flags & INLINE) != 0,
        data=piece.data_column(),
        properties=_narrow(piece.properties_column()) if has_properties else no_properties(count),
        expires_at=records["expires_at"].astype(np.int64),
    )


def _narrow(column: Column) -> pa.BinaryArray:
    narrow: pa.BinaryArray = column.cast(pa.binary())
    return narrow


def _named(codes: NDArray[np.uint32], names: Sequence[str]) -> Texts:
    return Texts(codes.astype(np.int32), pa.array(names, pa.string()))


def document_types(chunks: Sequence[Chunk]) -> tuple[str, ...]:
    """The distinct document types, in the order of their first appearance."""
    found: dict[str, None] = {}
    for chunk in chunks:
        codes, firsts = np.unique(chunk.records["document_type"], return_index=True)
        names = chunk.stored.segment.names.document_types
        found.update(dict.fromkeys(names[code] for code in codes[np.argsort(firsts)].tolist()))
    return tuple(found)
