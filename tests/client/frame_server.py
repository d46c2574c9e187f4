"""A small web socket server that takes frames as a hub does, and answers what a test says, when the test says so."""

from __future__ import annotations

import queue
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection, serve

SECONDS = 30
"""A test that waits so long has failed."""


@dataclass(frozen=True)
class Taken:
    """A frame that has come."""

    connection: ServerConnection
    content: str | bytes

    @property
    def header(self) -> dict[str, Any]:
        if isinstance(self.content, str):
            return msgspec.json.decode(self.content, type=dict[str, Any])
        length = int.from_bytes(self.content[:4])
        return msgspec.json.decode(self.content[4 : 4 + length], type=dict[str, Any])

    def answer(self, accepted: int = 1, *, number: int | None = None) -> None:
        known = self.header["number"] if number is None else number
        told: dict[str, object] = {"number": known, "accepted": accepted, "duplicates": 0, "partitions": []}
        self.say(msgspec.json.encode(told).decode())

    def refuse(self, status: int, code: str, **more: object) -> None:
        problem = {"status": status, "code": code, "detail": f"It is {code}.", **more}
        self.say(msgspec.json.encode({"number": self.header["number"], "problem": problem}).decode())

    def say(self, text: str) -> None:
        self.connection.send(text)

    def cut(self) -> None:
        self.connection.close_socket()


class FrameServer:
    def __init__(self) -> None:
        self._taken: queue.Queue[Taken] = queue.Queue()
        self._server = serve(self._handle, "127.0.0.1", 0, compression=None, ping_interval=None, close_timeout=1)
        self._handlers: list[threading.Thread] = []
        self.connections: list[ServerConnection] = []
        self.url = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def take(self) -> Taken:
        """The next frame, over whichever connection."""
        return self._taken.get(timeout=SECONDS)

    def take_all(self, count: int) -> list[Taken]:
        return [self.take() for _ in range(count)]

    @property
    def has_more(self) -> bool:
        return not self._taken.empty()

    def _handle(self, connection: ServerConnection) -> None:
        self._handlers.append(threading.current_thread())
        self.connections.append(connection)
        with suppress(ConnectionClosed):
            while True:
                self._taken.put(Taken(connection, connection.recv()))

    def close(self) -> None:
        for connection in self.connections:
            connection.close_socket()
        self._server.shutdown()
        for thread in (self._thread, *self._handlers, *(each.recv_events_thread for each in self.connections)):
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StalledServer:
    """Opens a web socket, and reads nothing that comes over it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._peers: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                protocol = ServerProtocol()
                while not (events := protocol.events_received()):
                    protocol.receive_data(peer.recv(65_536))
                (request,) = events
                assert isinstance(request, Request)
                protocol.send_response(protocol.accept(request))
                for part in protocol.data_to_send():
                    peer.sendall(part)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for end in (self._listener, *self._peers):
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
