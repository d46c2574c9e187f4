"""Valkey: all messages in one stream, read in chunks by XRANGE or XREAD.

It is given every advantage: one stream, no consumer groups, everything in its memory, and libvalkey's parser in C straight
at the socket. A program gets lists of octets, which are not decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from bench.peers.valkey import Valkey
from bench.resp import Resp, Word, packed
from bench.stream import CHUNKS, Read, Stream

KEY = b"stream"
START = b"0-0"
FIELDS = ("id", "recipient", "origin", "kind", "data")


class ValkeyStream(Stream):
    server = Valkey.name

    def __init__(self, server: Valkey) -> None:
        self._connection = Resp(server.port)

    def fill(self, parcels: Sequence[pa.Table]) -> None:
        self._connection.call(b"DEL", KEY)
        for parcel in parcels:
            self._connection.send(b"".join(packed(_additions(parcel))))
            self._connection.answers(parcel.num_rows)

    def ways(self) -> Mapping[str, Read]:
        return {
            **{f"valkey, XRANGE, chunks of {size:,}": partial(self._by_range, size) for size in CHUNKS},
            **{f"valkey, XREAD, chunks of {size:,}": partial(self._by_read, size) for size in CHUNKS},
        }

    def close(self) -> None:
        self._connection.close()

    def _by_range(self, size: int) -> int:
        found, last = 0, START
        while chunk := self._connection.call(b"XRANGE", KEY, b"(" + last, b"+", b"COUNT", size):
            found += len(chunk)
            last = chunk[-1][0]
        return found

    def _by_read(self, size: int) -> int:
        found, last = 0, START
        while answer := self._connection.call(b"XREAD", b"COUNT", size, b"STREAMS", KEY, last):
            ((_, chunk),) = answer
            found += len(chunk)
            last = chunk[-1][0]
        return found


def _additions(table: pa.Table) -> list[tuple[Word, ...]]:
    columns = [table.column(name).to_pylist() for name in FIELDS]
    names = [name.encode() for name in FIELDS]
    return [
        (b"XADD", KEY, b"*", *(word for field in zip(names, values, strict=True) for word in field))
        for values in zip(*columns, strict=True)
    ]


STREAMS = [ValkeyStream]
