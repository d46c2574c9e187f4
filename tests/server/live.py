"""A client of live delivery for the tests: bare frames over a web socket, and events over HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from websockets.sync.client import ClientConnection, connect

from restante.server.serve import ServedHub


class Talk:
    """One live connection."""

    def __init__(self, own: ClientConnection) -> None:
        self.socket = own

    def frame(self, timeout: float = 20) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.socket.recv(timeout))
        return found

    def frames(self, count: int) -> list[dict[str, Any]]:
        return [self.frame() for _ in range(count)]

    def until(self, kind: str) -> dict[str, Any]:
        """The next frame of this type; others are passed over."""
        while (frame := self.frame())["type"] != kind:
            pass
        return frame

    def data(self, count: int) -> list[object]:
        """What so many messages hold."""
        return [self.until("message")["message"]["data"] for _ in range(count)]

    def say(self, **frame: object) -> None:
        self.socket.send(json.dumps(frame))


def live_url(running: ServedHub, recipient: str, **query: object) -> str:
    return f"{running.url.replace('http', 'ws')}/v1/recipients/{recipient}/live?{urlencode(query)}"


@contextmanager
def live(running: ServedHub, recipient: str, *, token: str | None = None, **query: object) -> Iterator[Talk]:
    """Connected, and told so. The system keeps little of what is not read, however much it may."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    parts = urlsplit(running.url)
    assert parts.hostname is not None
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
    plain.connect((parts.hostname, parts.port or 80))
    url = live_url(running, recipient, **query)
    with connect(url, sock=plain, additional_headers=headers, compression=None, close_timeout=1, max_size=None) as own:
        talk = Talk(own)
        assert talk.frame()["type"] == "connected"
        yield talk


def dropped(running: ServedHub) -> int:
    """How many messages queues of the hub have dropped so far."""
    return running.desk.post.tally.dropped([connection.queue for connection in running.desk.post.connections()])


class Events:
    """Server-sent events, one by one."""

    def __init__(
        self, running: ServedHub, recipient: str, *, headers: dict[str, str] | None = None, query: str = ""
    ) -> None:
        parts = urlsplit(running.url)
        assert parts.hostname is not None
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=30)
        lines = [f"GET /v1/recipients/{recipient}/live{query} HTTP/1.1", "Host: localhost", "Accept: text/event-stream"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers = dict(self._head())

    def _head(self) -> Iterator[tuple[str, str]]:
        while (line := self._file.readline().decode().strip()) != "":
            name, value = line.split(":", 1)
            yield name.lower(), value.strip()

    def lines(self) -> Iterator[str]:
        """The lines of the events, out of the chunks of the answer."""
        rest = ""
        while size := int(self._file.readline() or b"0", 16):
            rest += self._file.read(size).decode()
            self._file.readline()
            *whole, rest = rest.split("\n")
            yield from whole

    def __iter__(self) -> Iterator[tuple[int | None, dict[str, Any]]]:
        """The id of each event, if it has one, and its frame."""
        own_id: int | None = None
        for line in self.lines():
            if line.startswith("id: "):
                own_id = int(line[4:])
            elif line.startswith("data: "):
                yield own_id, json.loads(line[6:])
                own_id = None

    def close(self) -> None:
        self._file.close()
        self._socket.close()
