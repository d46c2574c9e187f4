"""A small web socket server that pushes what a test says, as a hub does, and takes what a client says."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tests.client.frame_server import SECONDS


def stored(number: int, **more: object) -> dict[str, object]:
    """A message as a hub tells it."""
    told = {"id": f"0198c5a2-6f1e-7c3b-9d4a-{number:012}", "recipient": "ada", "origin": "default", "kind": "default"}
    rest = {"document_type": "default", "weight": 1, "bundleable": True, "media_type": "application/json"}
    hub = {"sequence_number": number, "published_at": "2026-01-01T00:00:00.000000Z", "state": "waiting"}
    return {**told, **rest, "properties": {}, **hub, "data": number, **more}


class Peer:
    """One client that has connected."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self.said: queue.Queue[dict[str, Any]] = queue.Queue()
        request = connection.request
        assert request is not None
        self.path = urlsplit(request.path).path
        self.query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        self.headers = request.headers

    def hear(self) -> dict[str, Any]:
        """What the client says next."""
        return self.said.get(timeout=SECONDS)

    def say(self, kind: str, **fields: object) -> None:
        self.write(msgspec.json.encode({"type": kind, **fields}).decode())

    def connected(self, number: int = 0) -> Self:
        self.say("connected", sequence_number=number, client="")
        return self

    def push(self, *numbers: int, counter: int) -> Self:
        """Messages of these numbers, counted from there on."""
        for place, number in enumerate(numbers):
            self.say("message", counter=counter + place, message=stored(number))
        return self

    def write(self, text: str) -> None:
        with suppress(ConnectionClosed):
            self._connection.send(text)

    def fragments(self, *parts: str) -> None:
        self._connection.send(iter(parts))

    def ping(self) -> bool:
        """Whether it is answered."""
        return self._connection.ping().wait(SECONDS)

    def cut(self) -> None:
        self._connection.close_socket()

    def close(self, code: int = 1001) -> None:
        self._connection.close(code)

    def gone(self) -> bool:
        """Whether the client has left, waited for."""
        self._connection.recv_events_thread.join(SECONDS)
        return not self._connection.recv_events_thread.is_alive()

    def read(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                self.said.put(msgspec.json.decode(self._connection.recv(), type=dict[str, Any]))


class LiveServer:
    def __init__(self, port: int = 0) -> None:
        self._peers: queue.Queue[Peer] = queue.Queue()
        self._refusals: queue.SimpleQueue[Response] = queue.SimpleQueue()
        self._server = serve(
            self._handle,
            "127.0.0.1",
            port,
            compression=None,
            ping_interval=None,
            close_timeout=1,
            process_request=self._door,
        )
        self.port = self._server.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._connections: list[ServerConnection] = []
        self._handlers: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def peer(self) -> Peer:
        """The next client that connects."""
        return self._peers.get(timeout=SECONDS)

    def refuse(self, status: int, code: str, *, headers: dict[str, str] | None = None, **more: object) -> None:
        """The next client that comes is refused."""
        body = msgspec.json.encode({"status": status, "code": code, "detail": f"It is {code}.", **more})
        known = Headers({"Content-Type": "application/problem+json", "Content-Length": str(len(body))})
        known.update(headers or {})
        self._refusals.put(Response(status, HTTPStatus(status).phrase, known, body))

    def _door(self, connection: ServerConnection, request: Request) -> Response | None:
        del connection, request
        with suppress(queue.Empty):
            return self._refusals.get_nowait()
        return None

    def _handle(self, connection: ServerConnection) -> None:
        self._handlers.append(threading.current_thread())
        self._connections.append(connection)
        peer = Peer(connection)
        self._peers.put(peer)
        peer.read()

    def close(self) -> None:
        for connection in self._connections:
            connection.close_socket()
        self._server.shutdown()
        for thread in (self._thread, *self._handlers, *(each.recv_events_thread for each in self._connections)):
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
