"""Pages end where they would take more bytes than an answer may have, as they are sent: JSON writes bytes in base64.

At least one row stays, and of changes at least one whole change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.limits import ANSWER_BYTES_MAX, KIB
from restante.model.columns.arrow import Column, numbers_of
from restante.wire.outgoing.json_columns import column
from restante.wire.outgoing.outgoing import arrow_size

_FRAME_BYTES = 1 * KIB
"""The bytes that stand around the rows, at most."""
_GROWTH_MAX = 6
"""A byte of a text takes six in JSON, at most."""
_ROW_BYTES_MAX = 1 * KIB
"""The bytes that the names of the fields, numbers and times of a row take in JSON, at most."""

RowBytes = Callable[[pa.Table], NDArray[np.int64]]
"""How many bytes each row takes in JSON."""
_Take = Callable[[pa.Table, int], pa.Table]


def page_within(
    table: pa.Table,
    row_bytes: RowBytes | None,
    *,
    backwards: bool = False,
    whole_changes: bool = False,
    most: int = ANSWER_BYTES_MAX,
) -> pa.Table:
    """The rows of a page that fit, the first ones or, backwards, the last; `row_bytes` None: as an Arrow stream."""
    room = most - _FRAME_BYTES
    take = partial(_take, backwards=backwards, whole_changes=whole_changes)
    if row_bytes is None:
        return _as_arrow(table, take, room)
    if _GROWTH_MAX * table.nbytes + _ROW_BYTES_MAX * table.num_rows <= room:
        return table
    sizes = row_bytes(table)
    total = np.cumsum(sizes[::-1] if backwards else sizes)
    return take(table, max(1, int(np.searchsorted(total, room, side="right"))))


def _as_arrow(table: pa.Table, take: _Take, room: int) -> pa.Table:
    """Rows differ, so the share of them that should fit is tried until it does."""
    if arrow_size(table) <= room:
        return table
    table = _without_unused(table)
    while table.num_rows > 1 and (size := arrow_size(table)) > room:
        fewer = take(table, max(1, min(table.num_rows - 1, table.num_rows * room // size)))
        if fewer.num_rows == table.num_rows:
            break
        table = _without_unused(fewer)
    return table


def _take(table: pa.Table, count: int, *, backwards: bool, whole_changes: bool) -> pa.Table:
    if backwards:
        return table.slice(max(0, table.num_rows - count))
    if whole_changes and count < table.num_rows:
        count = _whole_changes(numbers_of(column(table, "sequence_number")), count)
    return table.slice(0, count)


def _whole_changes(numbers: NDArray[np.int64], count: int) -> int:
    """How many rows the changes have that lie in the first `count` rows as a whole; at least those of one change."""
    before = int(np.searchsorted(numbers, numbers[count], side="left"))
    return before or int(np.searchsorted(numbers, numbers[0], side="right"))


def _without_unused(table: pa.Table) -> pa.Table:
    """The same rows, without the texts that only other rows use: a dictionary is sent whole."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field, _used(column(table, field.name)))
    return table


def _used(texts: Column) -> Column:
    used = texts.indices.unique().drop_null()
    indices = pc.index_in(texts.indices, used).cast(texts.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, texts.dictionary.take(used))
