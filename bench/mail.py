"""The messages that are published: 200 B of octets each, with ids given by the sender, as Arrow tables.

Data is cut from one pool of random bytes, so that making a table costs next to nothing and no two look alike.
Recipients carry names of 13 digits (as the identifiers of market participants do).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from restante.model.publishing.message import Message

DATA_BYTES = 200
ID_BYTES = 16
NAME_BYTES = 13
ORIGIN = "billing"
KIND = "invoice"
POOL_BYTES = 64 * 1024 * 1024


def recipient_name(number: int) -> str:
    return f"579{number:010d}"


def recipient_names(count: int, *, first: int = 0) -> pa.StringArray:
    return pa.array([recipient_name(number) for number in range(first, first + count)], pa.string())


def published_bytes(table: pa.Table) -> int:
    """The worth of a publish: the bytes of data, id and recipient, to compare the bytes written with."""
    return table.num_rows * (DATA_BYTES + ID_BYTES + NAME_BYTES)


def as_messages(table: pa.Table) -> list[Message]:
    """The same messages as values, for those that are sent one by one."""
    columns: list[list[Any]] = [table.column(name).to_pylist() for name in ("recipient", "id", "data")]
    return [
        Message(recipient=recipient, id=str(UUID(bytes=identity)), origin=ORIGIN, kind=KIND, data=data)
        for recipient, identity, data in zip(*columns, strict=True)
    ]


class Mail:
    """Makes messages with fresh ids: no two runs have one in common, as they may share a large store."""

    def __init__(self) -> None:
        self._random = np.random.default_rng()
        self._pool = pa.py_buffer(self._random.bytes(POOL_BYTES))
        self._newcomers = 9_000_000_000

    def newcomers(self, count: int) -> pa.StringArray:
        """Recipients that have never been written to."""
        self._newcomers += count
        return recipient_names(count, first=self._newcomers - count)

    def newcomer(self) -> pa.StringArray:
        return self.newcomers(1)

    def table(self, recipients: pa.StringArray, count: int, *, data_bytes: int = DATA_BYTES) -> pa.Table:
        """Messages for recipients drawn at random."""
        drawn = self._random.integers(0, len(recipients), count, dtype=np.int32)
        return self._table(recipients.take(pa.array(drawn, pa.int32())), data_bytes)

    def one_each(self, recipients: pa.StringArray) -> pa.Table:
        return self._table(recipients)

    def draw(self, recipients: int, count: int) -> list[int]:
        """Different recipients, by number."""
        return [int(number) for number in self._random.choice(recipients, count, replace=False)]

    def _table(self, recipient: pa.StringArray, data_bytes: int = DATA_BYTES) -> pa.Table:
        count = len(recipient)
        return pa.table(
            {
                "id": self._ids(count),
                "recipient": recipient,
                "origin": _constant(ORIGIN, count),
                "kind": _constant(KIND, count),
                "data": self._data(count, data_bytes),
            }
        )

    def _ids(self, count: int) -> pa.Array[Any]:
        octets = np.frombuffer(self._random.bytes(ID_BYTES * count), np.uint8).reshape(count, ID_BYTES).copy()
        octets[:, 6] = octets[:, 6] & 0x0F | 0x40  # version 4
        octets[:, 8] = octets[:, 8] & 0x3F | 0x80
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES), count, [None, pa.py_buffer(octets.tobytes())])

    def _data(self, count: int, data_bytes: int) -> pa.Array[Any]:
        size = data_bytes * count
        assert size < POOL_BYTES
        start = int(self._random.integers(0, POOL_BYTES - size))
        offsets = np.arange(0, size + 1, data_bytes, dtype=np.int32)
        return pa.BinaryArray.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets.tobytes()), self._pool.slice(start, size)]
        )


def _constant(value: str, count: int) -> pa.Array[Any]:
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([value]))
