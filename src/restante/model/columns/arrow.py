"""The few places where Arrow arrays meet NumPy and Python, with types that say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Column: TypeAlias = Any
"""An Arrow array of whatever type.

The annotations that Arrow has say too little (a view is of no type) or too much (an array of numbers is one of
booleans), so functions work on a `Column`, and hand results on in their proper type.
"""


def numbers_of(array: Column) -> NDArray[Any]:
    """The values of an array of numbers or booleans without nulls; a view where they lie like NumPy's."""
    return cast("NDArray[Any]", array.to_numpy(zero_copy_only=False))


def column_of(numbers: NDArray[Any]) -> Column:
    return pa.array(numbers)


def nulls_of(array: Column) -> NDArray[np.bool_]:
    """Which rows are null."""
    return numbers_of(array.is_null()) if array.null_count else np.zeros(len(array), np.bool_)


def offsets_of(array: Column) -> NDArray[np.signedinteger[Any]]:
    """Where each row of a text or binary array begins, and the last one ends."""
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    kind = np.int64 if wide else np.int32
    if len(array) == 0:
        return np.zeros(1, kind)
    return np.frombuffer(_content(array.buffers()[1]), kind, len(array) + 1, array.offset * (8 if wide else 4))


def bytes_of(array: Column) -> NDArray[np.uint8]:
    """The bytes of all rows of a text or binary array, one after another."""
    ends = offsets_of(array)
    return np.frombuffer(_content(array.buffers()[2]), np.uint8)[int(ends[0]) : int(ends[-1])]


def words_of(array: Column) -> NDArray[np.uint64]:
    """The rows of an array of fixed binary of 16 bytes, as two words each. The words of null rows are arbitrary."""
    content = np.frombuffer(_content(array.buffers()[1]), np.uint64, 2 * len(array), 16 * array.offset)
    return content.reshape(-1, 2)


def texts_of(array: Column) -> pa.StringArray:
    """A binary array as texts, unchecked."""
    return cast("pa.StringArray", array.view(pa.string()))


def string_array(texts: Sequence[str]) -> pa.StringArray:
    return pa.array(texts, pa.string())


def strings_of(array: Column) -> list[str]:
    return cast("list[str]", array.to_pylist())


def binaries_of(array: Column) -> list[bytes]:
    return cast("list[bytes]", array.to_pylist())


def map_array(
    offsets: NDArray[np.integer[Any]], keys: Column, items: Column, absent: NDArray[np.bool_] | None = None
) -> pa.MapArray[Any, Any]:
    """Maps whose entries lie one after another; map i has those from offsets[i] to offsets[i + 1]."""
    starts, mask = column_of(offsets.astype(np.int32)), None if absent is None else column_of(absent)
    maps: pa.MapArray[Any, Any] = pa.MapArray.from_arrays(starts, keys, items, mask=mask)
    return maps


def content_of(array: Column) -> memoryview:
    """The whole buffer that the rows of a text or binary array lie in; `offsets_of` says where."""
    return _content(array.buffers()[2])


def large_binaries(offsets: NDArray[np.int64], content: bytes | bytearray | memoryview) -> pa.LargeBinaryArray:
    """Rows that lie one after another, without a copy."""
    buffers: list[Any] = [None, pa.py_buffer(cast("Any", offsets)), pa.py_buffer(content)]
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return cast("pa.LargeBinaryArray", column)


def binaries(offsets: NDArray[np.int32], content: bytes | memoryview) -> Column:
    """Rows that lie one after another, without a copy."""
    buffers: list[Any] = [None, pa.py_buffer(cast("Any", offsets)), pa.py_buffer(content)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def strings(offsets: NDArray[np.int32], content: bytes | bytearray | memoryview) -> pa.StringArray:
    """Texts that lie one after another, without a copy, unchecked."""
    ends: Any = pa.py_buffer(cast("Any", offsets))
    return pa.StringArray.from_buffers(len(offsets) - 1, ends, pa.py_buffer(content))


def _content(buffer: pa.Buffer | None) -> memoryview:
    return memoryview(b"" if buffer is None else cast("bytes", buffer))
