"""A small HTTP server that answers as a test tells it to, for what a real hub would hardly say."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

import msgspec


class Canned(NamedTuple):
    """An answer. `held` lets the test say when it comes."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}
    held: threading.Event | None = None


class Seen(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def problem(status: int, code: str, *, retry_after: int | None = None, **more: object) -> Canned:
    """A problem as a hub tells it."""
    body = {"status": status, "code": code, "detail": f"It is {code}.", "title": code, **more}
    headers = {"Content-Type": "application/problem+json"}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return Canned(status, msgspec.json.encode(body), headers)


def answer(value: object, status: int = 200) -> Canned:
    return Canned(status, msgspec.json.encode(value), {"Content-Type": "application/json"})


class ScriptedServer:
    """Answers one request after another by the script; the last answer stays."""

    def __init__(self, *script: Canned) -> None:
        self.script = list(script)
        self.seen: list[Seen] = []
        self.arrived = threading.Event()
        """Set when the first request has come."""
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                canned = owner._next(Seen(self.command, self.path, headers, body))
                if canned.held is not None:
                    canned.held.wait(60)
                self.send_response(canned.status)
                for name, value in canned.headers.items():
                    self.send_header(name, value)
                if canned.status != 204:
                    self.send_header("Content-Length", str(len(canned.body)))
                self.end_headers()
                self.wfile.write(canned.body)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the names that the library looks for

            def log_message(self, format: str, *args: object) -> None:
                pass

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):
                    super().handle()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _next(self, seen: Seen) -> Canned:
        with self._lock:
            self.seen.append(seen)
            self.arrived.set()
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
