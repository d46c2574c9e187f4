"""A connection to Valkey with nothing between the socket and libvalkey, which packs commands and reads answers in C."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from bench.server import driver

RECEIVE_BYTES = 1 << 20

Word = bytes | str | int


class Resp:
    def __init__(self, port: int) -> None:
        libvalkey = driver("libvalkey")
        self._pack = libvalkey.pack_command
        self._error = libvalkey.ReplyError
        self._reader = libvalkey.Reader()
        self._buffer = bytearray(RECEIVE_BYTES)
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, *words: Word) -> Any:
        self._socket.sendall(self._pack(words))
        return self.answers(1)[0]

    def send(self, octets: bytes) -> None:
        self._socket.sendall(octets)

    def answers(self, count: int) -> list[Any]:
        """The next answers, so many of them, in order."""
        found: list[Any] = []
        while len(found) < count:
            answer = self._reader.gets()
            if answer is False:
                self._receive()
            else:
                found.append(self._checked(answer))
        return found

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        size = self._socket.recv_into(self._buffer)
        if not size:
            raise ConnectionError("the server closed the connection")
        self._reader.feed(self._buffer, 0, size)

    def _checked(self, answer: Any) -> Any:
        if isinstance(answer, self._error):
            raise RuntimeError(f"Valkey refused a command: {answer}")
        return answer


def packed(commands: Sequence[Sequence[Word]]) -> list[bytes]:
    pack = driver("libvalkey").pack_command
    return [pack(tuple(words)) for words in commands]
