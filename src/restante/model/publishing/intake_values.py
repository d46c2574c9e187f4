"""Arrow columns of values as JSON documents: structs, lists, maps, numbers, booleans.

Values become Python objects here, one by one, which take a hundred times what they take in columns. So they are counted
first, and done some at a time: nested lists of nothing (nulls, empty structs) cost no bytes at all in columns, and the name
of a field is there once, however many rows have it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from restante.errors import InvalidRequest
from restante.limits import DATA_BYTES_MAX, SEND_BYTES_MAX
from restante.model.columns.arrow import Column
from restante.model.publishing.intake_messages import encoded_value
from restante.model.publishing.send_bounds import check_bytes
from restante.model.publishing.validation import Faults

_WEIGHTLESS_MAX = 2 * DATA_BYTES_MAX
"""The number of values of a send that may take no bytes in columns: each costs as much work as one that does."""
_types = pa.types
_UTC_UNITS = ("s", "ms", "us")


class _Bounds(NamedTuple):
    bytes_max: int
    """The bound for the bytes of a message. So many values are made at a time, too: each value takes at least a byte of JSON."""
    faults: Faults


def is_value_type(kind: pa.DataType) -> bool:
    """Whether data of this type is JSON: a struct, a list, a map, a number or a boolean."""
    return _is_nested(kind) or _is_number(kind)


def json_documents(column: pa.ChunkedArray[Any], faults: Faults, bytes_max: int) -> pa.LargeBinaryArray:
    """Each value as a document; null stays null. That the column holds together has been checked."""
    if not _says_json(column.type):
        raise InvalidRequest(
            f"the column data is of type {column.type}: JSON can say structs, lists, maps with text as keys, numbers, "
            "booleans, texts, dates and times in UTC (to the microsecond), and nothing else",
            column="data",
        )
    _check_weightless(column)
    documents: list[bytes | None] = []
    room = SEND_BYTES_MAX
    for chunk in column.chunks:
        room = _add_documents(chunk, documents, _Bounds(bytes_max, faults), room)
    return pa.array(documents, pa.large_binary())


def _add_documents(array: Column, documents: list[bytes | None], bounds: _Bounds, room: int) -> int:
    """Add documents to the column; gives how many bytes are left of the room."""
    if _count(array) <= bounds.bytes_max:
        try:
            values = array.to_pylist(maps_as_pydicts="strict")
        except (ValueError, OverflowError, KeyError) as error:
            raise InvalidRequest(f"the column data cannot be read as values: {error}", column="data") from error
        first = len(documents)
        documents += [
            None if value is None else encoded_value(value, first + row, bounds.faults)
            for row, value in enumerate(values)
        ]
        room -= sum(len(document) for document in documents[first:] if document is not None)
        check_bytes(SEND_BYTES_MAX - room)
    elif len(array) > 1:
        half = len(array) // 2
        room = _add_documents(array.slice(0, half), documents, bounds, room)
        return _add_documents(array.slice(half), documents, bounds, room)
    elif array.null_count:
        documents.append(None)
    else:
        bounds.faults.add(
            [len(documents)],
            "data",
            f"data has more than {bounds.bytes_max} values: at most {bounds.bytes_max} bytes are allowed",
        )
        documents.append(b"")
    return room


def _check_weightless(column: pa.ChunkedArray[Any]) -> None:
    """Refuse what says in a few bytes that there are millions of values."""
    if sum(_weightless(chunk) for chunk in column.chunks) - len(column) > _WEIGHTLESS_MAX:
        raise InvalidRequest(
            f"the column data holds more than {_WEIGHTLESS_MAX} values that take no bytes in Arrow (structs, lists of "
            "fixed size and nulls inside of others): send fewer messages at a time",
            column="data",
        )


def _weightless(array: Column) -> int:
    """How many values of an array take no bytes of their own, those inside its values included."""
    kind = array.type
    own = _types.is_struct(kind) or _types.is_fixed_size_list(kind) or _types.is_null(kind)
    return len(array) * own + sum(map(_weightless, _inside(array)))


def _count(array: Column) -> int:
    """How many values an array has, those inside its values and the letters of their names included."""
    kind = array.type
    names = sum(len(kind.field(place).name) for place in range(kind.num_fields)) if _types.is_struct(kind) else 0
    return len(array) * (1 + names) + sum(map(_count, _inside(array)))


def _inside(array: Column) -> list[Column]:
    """The arrays whose values lie inside those of an array."""
    kind = array.type
    if _types.is_struct(kind):
        return [array.field(place) for place in range(kind.num_fields)]
    if _types.is_map(kind) or _types.is_list(kind) or _types.is_large_list(kind):
        first, last = (array.offsets[place].as_py() for place in (0, -1)) if len(array) else (0, 0)
        children = (array.keys, array.items) if _types.is_map(kind) else (array.values,)
        return [child.slice(first, last - first) for child in children]
    if _types.is_fixed_size_list(kind):
        size = kind.list_size
        return [array.values.slice(array.offset * size, len(array) * size)]
    return []


def _is_nested(kind: pa.DataType) -> bool:
    lists = _types.is_list(kind) or _types.is_large_list(kind) or _types.is_fixed_size_list(kind)
    return lists or _types.is_struct(kind) or _types.is_map(kind)


def _is_number(kind: pa.DataType) -> bool:
    return _types.is_integer(kind) or _types.is_floating(kind) or _types.is_boolean(kind) or _types.is_decimal(kind)


def _says_json(kind: pa.DataType) -> bool:
    if _types.is_struct(kind):
        return all(_says_json(kind.field(place).type) for place in range(kind.num_fields))
    if _types.is_map(kind):
        return _is_text(kind.key_type) and _says_json(kind.item_type)
    if _is_nested(kind):
        return _says_json(kind.field(0).type)
    if _types.is_timestamp(kind):
        return kind.unit in _UTC_UNITS and kind.tz in (None, "UTC")
    return _is_number(kind) or _is_text(kind) or _types.is_null(kind) or _types.is_date32(kind)


def _is_text(kind: pa.DataType) -> bool:
    return _types.is_string(kind) or _types.is_large_string(kind)
