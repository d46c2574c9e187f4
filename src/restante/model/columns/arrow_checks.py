"""Whether Arrow data from elsewhere holds together: lengths, offsets and indices may lie, and Arrow's functions trust them.

Texts are looked at as bytes: that they are UTF-8 is left to the rules, which can name the message. A dictionary that many
chunks share is looked at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from restante.errors import InvalidRequest
from restante.model.columns.arrow import Column, map_array, nulls_of, numbers_of

MemoryPlace = tuple[int, ...]
"""Where an array lies in memory: equal for arrays that are the same."""


def takes_more_than(table: pa.Table, limit: int) -> bool:
    """Whether the rows of a table take more bytes than that.

    Arrow counts them by the offsets in the table, and reads beyond its memory where those lie. So only a table that has that
    much memory is counted, and it is looked at before.
    """
    try:
        memory = table.get_total_buffer_size()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the Arrow data cannot be read: {error}") from error
    return memory > limit and size_of(table) > limit


def size_of(table: pa.Table) -> int:
    """About how many bytes the rows of a table take, once it is known to be sound."""
    check_sound(table)
    return table.nbytes


def check_sound(table: pa.Table) -> None:
    """Refuse a table whose columns nobody can work with."""
    try:
        table.validate()
        names = table.column_names
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the Arrow data cannot be read: {error}") from error
    seen: set[MemoryPlace] = set()
    for name, column in zip(names, table.columns, strict=True):
        try:
            for chunk in column.chunks:
                _check(chunk, seen)
        except pa.ArrowException as error:
            raise InvalidRequest(f"the Arrow data cannot be read: {error}", column=name) from error


def place_of(array: Column) -> MemoryPlace:
    buffers = [0 if buffer is None else buffer.address for buffer in array.buffers()]
    return (len(array), array.offset, *buffers)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def as_binary(array: Column) -> Column:
    """A text or binary array as binary, large_binary or binary_view, without a copy."""
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return array.view(pa.binary_view())
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return array.view(pa.large_binary() if large else pa.binary())


def _check(array: Column, seen: set[MemoryPlace]) -> None:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        _check(array.storage, seen)
    elif pa.types.is_dictionary(kind):
        _check_dictionary(array, seen)
    elif is_text(kind):
        as_binary(array).validate(full=True)
    elif pa.types.is_map(kind) and is_text(kind.key_type) and is_text(kind.item_type):
        plain_maps(array).validate(full=True)
    elif _holds_shared(kind):
        # Not even looked at: many values that are the same bytes take as long as if each were there.
        raise pa.ArrowInvalid(
            f"in a column of type {kind} views and dictionaries lie inside others: write them as texts"
        )
    else:
        array.validate(full=True)


def _holds_shared(kind: pa.DataType) -> bool:
    """Whether values of this type have others inside that may be said in fewer bytes than they are."""
    inside = [kind.field(place).type for place in range(kind.num_fields)]
    return any(_is_shared(own) or _holds_shared(own) for own in inside)


def _is_shared(kind: pa.DataType) -> bool:
    views = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) or pa.types.is_list_view(kind)
    return views or pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)


def _check_dictionary(array: Column, seen: set[MemoryPlace]) -> None:
    indices, dictionary = array.indices, array.dictionary
    indices.validate(full=True)
    used = numbers_of(indices.drop_null())
    if len(used) and not 0 <= int(used.min()) <= int(used.max()) < len(dictionary):
        raise pa.ArrowInvalid("an index lies outside of its dictionary")
    place = place_of(dictionary)
    if place not in seen:
        seen.add(place)
        _check(dictionary, seen)


def plain_maps(maps: Column) -> pa.MapArray[Any, Any]:
    """Maps of text to text as maps of bytes, without a copy of these."""
    offsets = numbers_of(maps.offsets)
    keys, items = as_binary(maps.keys), as_binary(maps.items)
    for part in (keys, items):
        part.validate(full=True)
    if len(offsets) and (offsets[0] < 0 or offsets[-1] > len(keys) or (np.diff(offsets) < 0).any()):
        raise pa.ArrowInvalid("an offset of a map lies outside")
    return map_array(offsets, keys, items, nulls_of(maps))
