"""Merging neighbouring runs into a shelf, a slice at a time.

Runs cover separate ranges of sequence numbers, so all of a cabinet's rows in an earlier run come before those in a later
one. Sorting the *drawers* by (cabinet, run, drawer) therefore sorts the rows; no rows need to be compared. `slices` sorts
the directories, and cuts the result into slices of about one segment. A slice takes a stretch of neighbouring drawers from
each input, because the drawers of a segment are already in cabinet order. `merged` then merges one slice. So memory is
bounded by the slice, however large the runs are.

What must stay true: `runs` are in number order, and the sorts are stable: only then do a cabinet's rows stay in the order of
their numbers. And the drawers that a slice takes from one segment are neighbours, so `_stretches` may name just their first
and last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante import limits
from restante.model.columns.texts import Texts
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.rows import Cabinets, StoredRows, cabinet_ranks, lay_out, sort_rows, take_rows
from restante.model.storage.run import Run, StoredSegment
from restante.model.storage.segment import encode
from restante.model.storage.segment_frame import EncodedSegment


class DrawerStretch(NamedTuple):
    """Neighbouring drawers of one segment: first to last (exclusive)."""

    stored: StoredSegment
    first: int
    last: int


Keep = Callable[[SegmentPiece, NDArray[np.int64]], NDArray[np.bool_] | None]
"""A function from a piece and the drawer of each row to a mask of the rows to keep; None keeps all."""


@dataclass(frozen=True, slots=True)
class _Directory:
    """The directories of all inputs as one table. `order` lists its lines in merged order."""

    segments: list[StoredSegment]
    segment: NDArray[np.int64]
    drawer: NDArray[np.int64]
    size: NDArray[np.int64]
    order: NDArray[np.int64]


def slices(runs: Sequence[Run]) -> list[list[DrawerStretch]]:
    """How to merge these runs: for each slice, the stretches to read, in the order of their runs."""
    directory = _directory(runs)
    size = directory.size[directory.order]
    slice_of = np.cumsum(size) // limits.SEGMENT_BYTES_TARGET
    begins = np.flatnonzero(np.diff(slice_of, prepend=-1))
    return [_stretches(directory, lines) for lines in np.split(directory.order, begins[1:])]


def _directory(runs: Sequence[Run]) -> _Directory:
    segments = [stored for run in runs for stored in run.segments]
    counts = [len(stored.segment.drawers) for stored in segments]
    segment = np.repeat(np.arange(len(segments)), counts)
    drawer = np.concatenate([np.arange(count) for count in counts])
    cabinets = cabinets_of([DrawerStretch(stored, 0, count) for stored, count in zip(segments, counts, strict=True)])
    rank = cabinet_ranks(cabinets)
    order = np.argsort(rank, kind="stable")
    size = np.concatenate([_drawer_sizes(stored) for stored in segments])
    return _Directory(segments, segment, drawer, size, order)


def _drawer_sizes(stored: StoredSegment) -> NDArray[np.int64]:
    """Estimated bytes of each drawer in a segment."""
    segment = stored.segment
    a_row = (segment.ledger_length + segment.data_length) / max(1, segment.rows)
    return (segment.drawers["count"] * a_row).astype(np.int64) + 1


def _stretches(directory: _Directory, lines: NDArray[np.int64]) -> list[DrawerStretch]:
    segment, drawer = directory.segment[lines], directory.drawer[lines]
    return [
        DrawerStretch(directory.segments[s], int(drawer[segment == s].min()), int(drawer[segment == s].max()) + 1)
        for s in np.unique(segment).tolist()
    ]


def cabinets_of(stretches: Sequence[DrawerStretch]) -> Cabinets:
    """The cabinets of these drawers, one line for each drawer."""
    lines = [stretch.stored.segment.drawers[stretch.first : stretch.last] for stretch in stretches]
    recipients = [own.stored.segment.recipients.slice(own.first, own.last - own.first) for own in stretches]
    names = [stretch.stored.segment.names for stretch in stretches]
    return Cabinets(
        np.concatenate([part["recipient_hash"] for part in lines]),
        np.concatenate([part["cabinet_hash"] for part in lines]),
        pa.concat_arrays(recipients),
        united([part["origin"] for part in lines], [own.origins for own in names]),
        united([part["kind"] for part in lines], [own.kinds for own in names]),
    )


def united(codes: Sequence[NDArray[np.uint32]], names: Sequence[list[str]]) -> Texts:
    """Translate codes of several lists of names into codes of one list."""
    if all(own == names[0] for own in names):
        joined = codes[0] if len(codes) == 1 else np.concatenate(codes)
        return Texts(joined.astype(np.int32), pa.array(names[0], pa.string()))
    place: dict[str, int] = {}
    for own in names:
        for name in own:
            place.setdefault(name, len(place))
    maps = [np.array([place[name] for name in own] or [0], np.int32) for own in names]
    parts = [own[part] for own, part in zip(maps, codes, strict=True)]
    return Texts(np.concatenate(parts), pa.array(list(place), pa.string()))


def merged(
    stretches: Sequence[DrawerStretch], pieces: Sequence[SegmentPiece], first: int, keep: Keep
) -> list[EncodedSegment]:
    """The segments of one slice, from the pieces read for its stretches. `first` is the first number of the shelf."""
    rows = _rows(stretches, pieces, first)
    mask = _kept(stretches, pieces, keep)
    if mask is not None:
        rows = take_rows(rows, np.flatnonzero(mask))
    if not len(rows):
        return []
    return encode(lay_out(sort_rows(rows)[0]))


def _kept(stretches: Sequence[DrawerStretch], pieces: Sequence[SegmentPiece], keep: Keep) -> NDArray[np.bool_] | None:
    masks = [keep(piece, _drawer_of_rows(stretch)) for stretch, piece in zip(stretches, pieces, strict=True)]
    if all(mask is None for mask in masks):
        return None
    filled = [
        np.ones(len(piece.records), np.bool_) if mask is None else mask
        for mask, piece in zip(masks, pieces, strict=True)
    ]
    return np.concatenate(filled)


def _drawer_of_rows(stretch: DrawerStretch) -> NDArray[np.int64]:
    counts = stretch.stored.segment.drawers["count"][stretch.first : stretch.last]
    return np.repeat(np.arange(stretch.first, stretch.last), counts)


def _rows(stretches: Sequence[DrawerStretch], pieces: Sequence[SegmentPiece], first: int) -> StoredRows:
    cabinets = cabinets_of(stretches)
    rank = cabinet_ranks(cabinets)
    representative = np.empty(int(rank.max()) + 1, np.int64)
    # Backwards, so that the first drawer of each cabinet is assigned last, and represents the cabinet.
    representative[rank[::-1]] = np.arange(len(rank))[::-1]
    counts = np.concatenate([s.stored.segment.drawers["count"][s.first : s.last] for s in stretches])
    names = [stretch.stored.segment.names for stretch in stretches]
    records = np.concatenate([piece.records for piece in pieces])
    lengths = [len(piece.records) for piece in pieces]
    # A place counts from the base of its segment; from here on it counts from the first number of the shelf.
    shift = np.repeat([piece.stored.base - first for piece in pieces], lengths)
    records["place"] = records["place"] + shift
    documents = united([piece.records["document_type"] for piece in pieces], [own.document_types for own in names])
    medias = united([piece.records["media_type"] for piece in pieces], [own.media_types for own in names])
    records["document_type"], records["media_type"] = documents.codes, medias.codes
    has_properties = bool(records["properties_length"].any())
    return StoredRows(
        cabinets,
        np.repeat(representative[rank], counts),
        records,
        documents.values,
        medias.values,
        pa.concat_arrays([piece.properties_column() for piece in pieces]) if has_properties else None,
        pa.concat_arrays([piece.data_column() for piece in pieces]),
    )
