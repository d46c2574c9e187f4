"""Text columns, dictionary encoded: the form in which the hub keeps, compares and groups texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.arrow import Column, bytes_of, column_of, numbers_of, offsets_of, string_array, texts_of


@dataclass(frozen=True, slots=True)
class Texts:
    """A dictionary-encoded text column: row i says `values[codes[i]]`.

    Every value is used by some row and no two values are equal. Only a draft that is still being checked may hold the
    code -1, which says that the row has no text.
    """

    codes: NDArray[np.int32]
    values: pa.StringArray

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def encode(cls, array: Column) -> Self:
        """Make texts of any Arrow text column (utf8, large_utf8, string_view, or a dictionary of those) without nulls."""
        codes, values = encode_bytes(array)
        assert len(codes) == 0 or codes.min() >= 0, "texts to encode may not be null"
        return cls(codes, texts_of(values))

    @classmethod
    def constant(cls, text: str, n: int) -> Self:
        return cls(np.zeros(n, np.int32), string_array([text] if n else []))

    @classmethod
    def concat(cls, parts: Sequence[Texts]) -> Self:
        """The rows of all parts, one after another."""
        if not parts:
            return cls.constant("", 0)
        if len(parts) == 1:
            return cls(parts[0].codes, parts[0].values)
        codes, values = _unified([part.values for part in parts], [part.codes for part in parts])
        return cls(np.concatenate(codes), values)

    def take(self, rows: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> Texts:
        """The rows by index, in that order, or those where a mask is true."""
        return Texts(self.codes[rows], self.values).compact()

    def slice(self, rows: slice) -> Texts:
        """Rows that lie one after another."""
        return Texts(self.codes[rows], self.values).compact()

    def compact(self) -> Texts:
        """The same rows without the values that no row uses."""
        if len(self.values) == 1 and len(self.codes):
            return self
        used = np.zeros(len(self.values), np.bool_)
        used[self.codes] = True
        if used.all():
            return self
        renumbered = np.cumsum(used, dtype=np.int32) - np.int32(1)
        return Texts(renumbered[self.codes], self.values.filter(pa.array(used)))

    def filled(self, default: Texts) -> Texts:
        """The same rows, where those without a text (code -1) take the text of `default`."""
        missing = self.codes < 0
        if not missing.any():
            return self
        if missing.all():
            return default
        (own, others), values = _unified([self.values, default.values], [self.codes, default.codes])
        return Texts(np.where(missing, others, own), values).compact()

    def to_array(self) -> pa.StringArray:
        return self.values.take(column_of(self.codes))

    def to_dictionary(self) -> pa.DictionaryArray[Any, Any]:
        """The Arrow form, without a copy."""
        return pa.DictionaryArray.from_arrays(column_of(self.codes), self.values, safe=False)


def encode_bytes(array: Column) -> tuple[NDArray[np.int32], pa.BinaryArray]:
    """Codes (-1 where null) and distinct values of a text column; the values are bytes, because they may be no UTF-8."""
    if isinstance(array, pa.DictionaryArray):
        return _encode_dictionary(array)
    column = as_bytes(array)
    if _is_constant(column):
        return np.zeros(len(column), np.int32), pa.array([column[0].as_py()], pa.binary())
    encoded = column.dictionary_encode()
    return _codes(encoded.indices), encoded.dictionary.cast(pa.binary())


def as_bytes(array: Column) -> Column:
    """A text column as binary or large_binary, without a copy unless it is of views or a dictionary."""
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        return array
    if pa.types.is_string(array.type):
        return array.view(pa.binary())
    if pa.types.is_large_string(array.type):
        return array.view(pa.large_binary())
    return array.cast(pa.large_binary())


def _is_constant(column: Column) -> bool:
    """Whether all rows say the same: often so for origin and kind, and seen ten times faster than hashing them."""
    if len(column) <= 1 or column.null_count:
        return len(column) == 1 and not column.null_count
    ends = offsets_of(column)
    width = int(ends[1] - ends[0])
    if int(ends[-1] - ends[0]) != width * len(column):
        return False
    content = bytes_of(column)
    if not np.array_equal(content[:width], content[len(content) - width :]) or (np.diff(ends) != width).any():
        return False
    return np.array_equal(content[width:], content[: len(content) - width])


def _encode_dictionary(array: pa.DictionaryArray[Any, Any]) -> tuple[NDArray[np.int32], pa.BinaryArray]:
    # A dictionary that others made may repeat values, hold nulls, and hold values that no row uses.
    codes_of_values, values = encode_bytes(array.dictionary)
    without_text = np.append(codes_of_values, np.int32(-1))
    codes = without_text[_codes(array.indices)]
    used = np.zeros(len(values) + 1, np.bool_)
    used[codes] = True
    if used[:-1].all():
        return codes, values
    renumbered = np.append(np.cumsum(used[:-1], dtype=np.int32) - np.int32(1), np.int32(-1))
    return renumbered[codes], values.filter(pa.array(used[:-1]))


def _codes(indices: Column) -> NDArray[np.int32]:
    codes: Column = indices.cast(pa.int32())
    if codes.null_count:
        codes = codes.fill_null(-1)
    return numbers_of(codes)


def _unified(
    values: Sequence[pa.StringArray], codes: Sequence[NDArray[np.int32]]
) -> tuple[list[NDArray[np.int32]], pa.StringArray]:
    """The codes of several columns, renumbered for one dictionary of them all; -1 stays."""
    first = values[0]
    if all(other is first or other.equals(first) for other in values[1:]):
        return list(codes), first
    encoded: Column = pa.concat_arrays(values).dictionary_encode()
    renumbered = np.append(_codes(encoded.indices), np.int32(-1))
    starts = np.cumsum([0] + [len(part) for part in values[:-1]])
    moved = [
        renumbered[np.where(part < 0, len(renumbered) - 1, part + start)]
        for part, start in zip(codes, starts, strict=True)
    ]
    return moved, encoded.dictionary
