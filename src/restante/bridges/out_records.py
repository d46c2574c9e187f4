"""Records on their way into a topic. Columns stay columns until Python values are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.arrow import Column, binaries_of

OutHeaders = list[tuple[str, str | bytes]]


class BytesColumn(Sequence[bytes]):
    """A column of bytes without nulls, as a sequence: what is taken out of it becomes a Python value then."""

    def __init__(self, column: Column) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return binaries_of(self.column[index])
        found: bytes = self.column[index].as_py()
        return found

    def __iter__(self) -> Iterator[bytes]:
        return iter(binaries_of(self.column))


def text_bytes(texts: Column) -> BytesColumn:
    """Texts as the bytes of UTF-8."""
    return BytesColumn(texts.cast(pa.large_string()).view(pa.large_binary()))


def bytes_column(values: Sequence[bytes | None]) -> Column:
    """Bytes as a column; null where there is nothing."""
    return values.column if isinstance(values, BytesColumn) else pa.array(values, pa.large_binary())


class OutRecords(NamedTuple):
    """Keys and values, one for each record; the key of a change that concerns no recipient is empty."""

    keys: Sequence[bytes]
    values: Sequence[bytes | None]
    rows: NDArray[np.int64]
    """The change that each is made of; -1: none."""
    headers: Sequence[OutHeaders | None] | None = None
    """The headers of each; None: no record has any."""
    misfits: int = 0
    """How many changes could not be written."""

    def after(self, keys: Sequence[bytes]) -> OutRecords:
        """These records, after records of the given keys that have no value."""
        n = len(keys)
        return self._replace(
            keys=[*keys, *self.keys],
            values=[*[None] * n, *self.values],
            rows=np.concatenate((np.full(n, -1), self.rows)),
            headers=None if self.headers is None else [*[None] * n, *self.headers],
        )
