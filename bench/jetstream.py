"""A connection to NATS JetStream with nothing between the socket and the protocol, which is text with lengths."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from itertools import cycle
from typing import Any
from uuid import uuid4

import pyarrow as pa

STREAM = "mail"
RECEIVE_BYTES = 1 << 20
CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
STORED = b'{"stream"'
"""How the answer to a publish begins."""
ANSWERABLE = {b"MSG": 5, b"HMSG": 6}
"""Messages without and with headers: how many words the first line has, if one can answer."""

Frame = tuple[bytes, bytes]
"""The subject to answer to, and the payload."""


class JetStream:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""
        self.inbox = inbox()
        self._socket.sendall(greeting(self.inbox))
        while b"PONG\r\n" not in self._left:
            self._receive()
        self._left = b""

    def ask(self, subject: bytes, payload: bytes) -> bytes:
        self.request(subject, payload)
        return self.frames(1)[0][1]

    def request(self, subject: bytes, payload: bytes) -> None:
        self._socket.sendall(request(subject, payload, self.inbox))

    def call(self, subject: str, question: dict[str, Any]) -> dict[str, Any]:
        """A question to the API of the server."""
        answer: dict[str, Any] = json.loads(self.ask(f"$JS.API.{subject}".encode(), json.dumps(question).encode()))
        if "error" in answer:
            raise RuntimeError(f"NATS refused {subject}: {answer['error']}")
        return answer

    def store(self, octets: bytes, answers: int) -> None:
        """Sends publishes while it takes their answers: neither side has to hold all of the other's."""
        sending = threading.Thread(target=self._socket.sendall, args=(octets,))
        sending.start()
        while answers:
            self._receive()
            found = self._left.count(STORED)
            if b'"error"' in self._left:
                raise RuntimeError(f"NATS refused a publish: {self._left[-300:]!r}")
            answers -= found
            self._left = self._left[self._left.rindex(STORED) + len(STORED) :] if found else self._left
        sending.join()
        while b"}\r\n" not in self._left:
            self._receive()
        self._left = self._left.partition(b"}\r\n")[2]

    def frames(self, count: int) -> list[Frame]:
        """The frames of so many messages that came to this connection."""
        found: list[Frame] = []
        while len(found) < count:
            self._receive()
            self._left = parse(self._left, found)
        return found

    def send(self, octets: bytes) -> None:
        self._socket.sendall(octets)

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        octets = self._socket.recv(RECEIVE_BYTES)
        if not octets:
            raise ConnectionError("the server closed the connection")
        self._left += octets


def parse(octets: bytes, found: list[Frame]) -> bytes:
    """Takes the whole messages at the beginning; gives what is left."""
    start = 0
    while (end := octets.find(b"\r\n", start)) >= 0:
        words = octets[start:end].split(b" ")
        if words[0] in ANSWERABLE:
            after = end + 2 + int(words[-1])
            if after + 2 > len(octets):
                break
            head = int(words[-2]) if words[0] == b"HMSG" else 0
            found.append((words[3] if len(words) >= ANSWERABLE[words[0]] else b"", octets[end + 2 + head : after]))
            start = after + 2
        elif words[0] == b"PING":
            start = end + 2
        else:
            raise RuntimeError(f"NATS sent what was not asked for: {octets[start : start + 200]!r}")
    return octets[start:]


def inbox() -> bytes:
    """Where a connection's answers go; every one has its own."""
    return b"answers.%s" % uuid4().hex.encode()


def greeting(inbox: bytes) -> bytes:
    """Answered by PONG."""
    return CONNECT + b"SUB %s 1\r\nPING\r\n" % inbox


def request(subject: bytes, payload: bytes, inbox: bytes) -> bytes:
    return b"PUB %s %s %d\r\n%s\r\n" % (subject, inbox, len(payload), payload)


def requests(table: pa.Table, inboxes: Sequence[bytes]) -> list[bytes]:
    """A publish for each message, answered to one inbox after the other."""
    columns = [table.column(name).to_pylist() for name in ("recipient", "data")]
    return [
        request(subject(recipient), data, inbox)
        for recipient, data, inbox in zip(*columns, cycle(inboxes), strict=False)
    ]


def batches(table: pa.Table, *, size: int, inbox: bytes) -> tuple[bytes, int]:
    """The messages as atomic batches, of which only the last message of each is answered; and how many batches."""
    columns: list[list[Any]] = [table.column(name).to_pylist() for name in ("recipient", "data")]
    rows = list(zip(*columns, strict=True))
    made: list[bytes] = []
    starts = range(0, len(rows), size)
    for first in starts:
        made += _batch(rows[first : first + size], inbox)
    return b"".join(made), len(starts)


def subject(recipient: str) -> bytes:
    return f"{STREAM}.{recipient}".encode()


def _batch(rows: Sequence[tuple[str, bytes]], inbox: bytes) -> list[bytes]:
    name = uuid4().hex.encode()
    made = []
    for number, (recipient, data) in enumerate(rows, 1):
        last = number == len(rows)
        commit = b"Nats-Batch-Commit: 1\r\n" if last else b""
        head = b"NATS/1.0\r\nNats-Batch-Id: %s\r\nNats-Batch-Sequence: %d\r\n%s\r\n" % (name, number, commit)
        answer = inbox + b" " if last else b""
        sizes = (len(head), len(head) + len(data))
        made.append(b"HPUB %s %s%d %d\r\n%s%s\r\n" % (subject(recipient), answer, *sizes, head, data))
    return made
