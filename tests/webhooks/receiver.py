"""A receiver of webhooks on a real socket, which answers as it is told and remembers what it was sent."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from standardwebhooks import Webhook

SECONDS = 120.0
"""Longer than anything here takes; a test that waits so long has failed."""


class Call(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def webhook_id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> object:
        """The payload, if those who wrote the specification find the signature right, and the time that of today."""
        return Webhook(secret).verify(self.body, self.headers)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        call = Call(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.server.calls.put(call)
        try:
            self.server.answer(self, call)
        except OSError:
            self.close_connection = True  # The hub hung up, as it may.

    def log_message(self, format: str, *args: object) -> None:
        pass

    def says(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


Answer = Callable[[Handler, Call], None]


class Receiver(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: queue.Queue[Call] = queue.Queue()
        self.over = threading.Event()
        self.answer: Answer = says(200)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/completed"

    def next(self) -> Call:
        return self.calls.get(timeout=SECONDS)


def says(*statuses: int, **headers: str) -> Answer:
    """One status after another; the last of them for ever."""
    left = list(statuses)
    return lambda handler, _: handler.says(left.pop(0) if len(left) > 1 else left[0], b"", **headers)


def is_silent(handler: Handler, _: Call) -> None:
    handler.server.over.wait(SECONDS)
    handler.close_connection = True


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        receiver.shutdown()
        receiver.server_close()
        thread.join(SECONDS)
