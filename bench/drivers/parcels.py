"""Parcels to the hub over bare sockets, numbered by their producers or plain: the same bodies to the same route.

A driver's numbers go on from sample to sample, as those of a producer do.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections import Counter

import pyarrow as pa

from bench.drivers.restante import RECEIVE_BYTES, is_answer, message_body
from bench.load import CONNECTIONS
from bench.peer import Peer
from bench.sockets import BareConnections
from restante.model.publishing.few_or_many import few_or_many
from restante.model.storage.partition import partition_of
from restante.wire.media import JSON
from restante.wire.publish import encode_publish

_GROUP_BITS = 62


class ParcelHeads:
    """Makes the heads of requests, with the next numbers of a producer if it numbers at all."""

    def __init__(self, *, numbered: bool) -> None:
        self._numbered = numbered
        self._first_group = secrets.randbits(_GROUP_BITS)
        """The first group, which no other driver has."""
        self._next: Counter[tuple[int, int]] = Counter()

    def head(self, partition: int, producer: int, *, messages: int, content_type: str, length: int) -> bytes:
        numbers = self._numbers(partition, producer, messages) if self._numbered else ""
        return (
            f"POST /v1/partitions/{partition}/parcels HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {length}\r\n{numbers}\r\n"
        ).encode()

    def _numbers(self, partition: int, producer: int, messages: int) -> str:
        first = self._next[partition, producer]
        self._next[partition, producer] += messages
        return (
            f"Restante-Producer-Group: {self._first_group + producer}\r\nRestante-Owner-Level: 0\r\n"
            f"Restante-Published-Sequence: {first}\r\n"
        )


class SingleParcels:
    """A request for each message; as they are dealt to the connections in turn, each of those is a producer."""

    def __init__(self, *, numbered: bool, partition_count: int) -> None:
        self._heads = ParcelHeads(numbered=numbered)
        self._partition_count = partition_count

    def __call__(self, table: pa.Table) -> list[bytes]:
        columns = [table.column(name).to_pylist() for name in ("recipient", "id", "data")]
        return [self._request(index % CONNECTIONS, *row) for index, row in enumerate(zip(*columns, strict=True))]

    def _request(self, producer: int, recipient: str, identity: bytes, data: bytes) -> bytes:
        body = message_body(recipient, identity, data)
        partition = partition_of(recipient, self._partition_count)
        return self._heads.head(partition, producer, messages=1, content_type=JSON, length=len(body)) + body


def parcel_connections(port: int, *, numbered: bool, partition_count: int) -> BareConnections:
    """Single messages of 64 producers, each with a connection of its own."""
    encode = SingleParcels(numbered=numbered, partition_count=partition_count)
    return BareConnections(port, encode=encode, whole=is_answer)


class BareParcels(Peer):
    """Large parcels for one partition, made before, over one socket."""

    def __init__(self, port: int, *, numbered: bool, partition: int) -> None:
        self._address = ("127.0.0.1", port)
        self._partition = partition
        self._heads = ParcelHeads(numbered=numbered)
        self._socket = socket.socket()

    def prepare(self, table: pa.Table) -> tuple[bytes, bytes]:
        """Connect again, because the hub may have closed a connection that was idle since the last sample; encode the table."""
        self._socket.close()
        self._socket = socket.create_connection(self._address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        content_type, body = encode_publish(
            few_or_many(table), random=secrets.token_bytes, now_ms=int(time.time() * 1000)
        )
        head = self._heads.head(
            self._partition, 0, messages=table.num_rows, content_type=content_type, length=len(body)
        )
        return head, bytes(body)

    def publish(self, prepared: tuple[bytes, bytes]) -> None:
        for part in prepared:
            self._socket.sendall(part)
        received = b""
        while not received or not is_answer(received):
            more = self._socket.recv(RECEIVE_BYTES)
            if not more:
                raise ConnectionError("the hub closed the connection")
            received += more

    def close(self) -> None:
        self._socket.close()
