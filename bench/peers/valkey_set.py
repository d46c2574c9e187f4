"""Valkey: a batch is a set of its pending items. A call removes its items and asks how many are left, in one round trip.

It is measured twice: with the ids of our items, which say themselves to which batch they belong, and with short numbers, which
a worker has to keep together with the name of the batch. A call whose answer says that none is left claims the completion with
SET NX, because several calls may get this answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from bench.peers.valkey import Valkey
from bench.resp import Resp, packed
from bench.server import driver
from bench.tally import Answer, Tally, Worker

PARCEL = 10_000
COMPLETED = b":completed"

Members = list[bytes]


class SetWorker(Worker[Members]):
    """The usual client, with libvalkey's parser."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._client = driver("valkey").Valkey(port=port)
        self._key = b""
        self._item = b""

    def begin(self, batch: tuple[bytes, bytes]) -> None:
        self._key, self._item = batch

    def encode(self, indices: Sequence[int]) -> Members:
        return [self._item % index for index in indices]

    def send(self, requests: Sequence[Members]) -> Sequence[Answer]:
        with self._client.pipeline(transaction=False) as pipeline:
            for members in requests:
                pipeline.srem(self._key, *members)
                pipeline.scard(self._key)
            answers = pipeline.execute()
        return [Answer(removed, left == 0) for removed, left in zip(answers[::2], answers[1::2], strict=True)]

    def claim(self) -> bool:
        return bool(self._client.set(self._key + COMPLETED, b"1", nx=True))

    def close(self) -> None:
        self._client.close()


class ValkeySet(Tally):
    name = "valkey, set of ids"
    server = Valkey.name

    def __init__(self, server: Valkey) -> None:
        self._port = server.port
        self._connection = Resp(server.port)

    def open(self, items: int) -> tuple[bytes, bytes]:
        """The key of the set, and how its members are named."""
        key = str(uuid4()).encode()
        item = self.item(key)
        adds = [
            [b"SADD", key, *(item % index for index in range(first, min(first + PARCEL, items)))]
            for first in range(0, items, PARCEL)
        ]
        self._connection.send(b"".join(packed(adds)))
        assert sum(self._connection.answers(len(adds))) == items
        return key, item

    def item(self, key: bytes) -> bytes:
        """How a member is named."""
        return key + b":0:%d"

    def worker(self) -> Callable[[], Worker[Any]]:
        return partial(SetWorker, self._port)

    def pending(self, batch: tuple[bytes, bytes]) -> int:
        return int(self._connection.call(b"SCARD", batch[0]))

    def drop(self, batch: tuple[bytes, bytes]) -> None:
        self._connection.call(b"DEL", batch[0], batch[0] + COMPLETED)

    def close(self) -> None:
        self._connection.close()


class ValkeyNumbers(ValkeySet):
    name = "valkey, set of numbers"

    def item(self, key: bytes) -> bytes:
        del key
        return b"%d"


TALLIES = (ValkeySet, ValkeyNumbers)
