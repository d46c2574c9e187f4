"""Valkey: a batch is a bitmap of its acknowledged items and a counter of those pending.

A call sets the bit of each item in one round trip. The old value of each tells which were pending until then, and so
many are taken off the counter in a second round trip. Between the two the items are marked, but not counted: a worker
that ends there leaves a batch that is never complete. The same in a script has no such gap, in one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

from bench.peers.valkey import Valkey
from bench.resp import Resp
from bench.server import driver
from bench.tally import Answer, Tally, Worker

PENDING = b":pending"
COMPLETED = b":completed"
SCRIPT = """
local newly = 0
for place = 1, #ARGV do newly = newly + 1 - redis.call('SETBIT', KEYS[1], ARGV[place], 1) end
return {newly, redis.call('DECRBY', KEYS[2], newly)}
"""

Offsets = list[int]


class BitmapWorker(Worker[Offsets]):
    """SETBIT for each item, by the usual client's pipeline."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._client = driver("valkey").Valkey(port=port)
        self._key = b""

    def begin(self, batch: bytes) -> None:
        self._key = batch

    def encode(self, indices: Sequence[int]) -> Offsets:
        return list(indices)

    def send(self, requests: Sequence[Offsets]) -> Sequence[Answer]:
        with self._client.pipeline(transaction=False) as pipeline:
            for offsets in requests:
                for offset in offsets:
                    pipeline.setbit(self._key, offset, 1)
            before = iter(pipeline.execute())
            newly = [len(offsets) - sum(next(before) for _ in offsets) for offsets in requests]
            for number in newly:
                pipeline.decrby(self._key + PENDING, number)
            left = pipeline.execute()
        return [Answer(*found) for found in zip(newly, (number == 0 for number in left), strict=True)]

    def claim(self) -> bool:
        return bool(self._client.set(self._key + COMPLETED, b"1", nx=True))

    def close(self) -> None:
        self._client.close()


class ScriptWorker(BitmapWorker):
    """The same by a script on the server."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._digest = self._client.script_load(SCRIPT)

    def send(self, requests: Sequence[Offsets]) -> Sequence[Answer]:
        keys = (self._key, self._key + PENDING)
        with self._client.pipeline(transaction=False) as pipeline:
            for offsets in requests:
                pipeline.evalsha(self._digest, 2, *keys, *offsets)
            return [Answer(newly, left == 0) for newly, left in pipeline.execute()]


class ValkeyBitmap(Tally):
    name = "valkey, bitmap"
    server = Valkey.name
    client: type[BitmapWorker] = BitmapWorker

    def __init__(self, server: Valkey) -> None:
        self._port = server.port
        self._connection = Resp(server.port)
        self._numbers = count()

    def open(self, items: int) -> bytes:
        batch = b"%s:%d" % (self.name.encode(), next(self._numbers))
        self._connection.call(b"SETBIT", batch, items, 0)  # as long as it will be
        self._connection.call(b"SET", batch + PENDING, items)
        return batch

    def worker(self) -> Callable[[], Worker[Any]]:
        return partial(self.client, self._port)

    def pending(self, batch: bytes) -> int:
        return int(self._connection.call(b"GET", batch + PENDING))

    def drop(self, batch: bytes) -> None:
        self._connection.call(b"DEL", batch, batch + PENDING, batch + COMPLETED)

    def close(self) -> None:
        self._connection.close()


class ValkeyScript(ValkeyBitmap):
    name = "valkey, bitmap by script"
    client = ScriptWorker


TALLIES = (ValkeyBitmap, ValkeyScript)
