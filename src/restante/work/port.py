"""A port for orchestrators: `/livez`, `/readyz` and `/metrics` of a worker, and a file that is touched while it lives.

The port answers in the worker's event loop, so an answer says that the loop turns. That the hub is away makes a worker
not ready; it does not make it dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from restante.work.figures import metrics_text
from restante.work.runner import WorkRunner

_HEAD_BYTES_MAX = 16 * 1024
_HEAD_SECONDS = 5.0
TOUCH_SECONDS = 1.0


async def open_port(runner: WorkRunner, host: str, port: int) -> asyncio.Server:
    """Serve until it is closed. Port 0 takes a free one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(runner, head))
                await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, host, port, limit=_HEAD_BYTES_MAX)


def _answer(runner: WorkRunner, head: bytes) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", "GET only.\n", keep_body=True)
    status, body = _ANSWERS.get(path, _unknown)(runner)
    return _response(status, body, keep_body=method == b"GET")


def _response(status: str, body: str, *, keep_body: bool) -> bytes:
    encoded = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(encoded)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (encoded if keep_body else b"")


def _live(_: WorkRunner) -> tuple[str, str]:
    return "200 OK", "live\n"


def _ready(runner: WorkRunner) -> tuple[str, str]:
    return ("200 OK", "ready\n") if runner.is_ready else ("503 Service Unavailable", "The hub does not answer.\n")


def _metrics(runner: WorkRunner) -> tuple[str, str]:
    return "200 OK", metrics_text(runner)


def _unknown(_: WorkRunner) -> tuple[str, str]:
    return "404 Not Found", "There are /livez, /readyz and /metrics.\n"


_ANSWERS: dict[bytes, Callable[[WorkRunner], tuple[str, str]]] = {
    b"/livez": _live,
    b"/readyz": _ready,
    b"/metrics": _metrics,
}


async def keep_touching(path: Path) -> None:
    """Touch the file as long as the event loop turns."""
    while True:
        path.touch()  # noqa: ASYNC240 - one system call: that it returns is what the file says
        await asyncio.sleep(TOUCH_SECONDS)
