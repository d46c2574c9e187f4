"""Streams: the parts of pages that move, sent as server-sent events when they have changed.

All who look at the same page with the same token share one watch, which makes the page once every few seconds: a
hundred open consoles ask the hub as much as one. The page is made by its own handler; what is sent is what it would show.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress

import msgspec

from restante.console.web.exchanges import GUARDS, Receive, Send
from restante.errors import Overloaded, RestanteError
from restante.limits import CONSOLE_STREAM_SECONDS, CONSOLE_STREAMS_MAX

_log = logging.getLogger("restante.console")

Made = Callable[[], Awaitable[Mapping[str, str]]]
"""Makes a page again, and gives its parts that move."""

_STILL = b": still here\n\n"


class PageWatch:
    """One page that somebody looks at."""

    def __init__(self, made: Made, seconds: float) -> None:
        self._made = made
        self._seconds = seconds
        self._parts: dict[str, str] = {}
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def join(self) -> asyncio.Queue[bytes | None]:
        """A queue of what is sent: all parts that are known now, and then those that change. None is the end."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=2)
        self._listeners.add(queue)
        if self._parts:
            queue.put_nowait(_events(self._parts))
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        return queue

    def leave(self, queue: asyncio.Queue[bytes | None]) -> None:
        self._listeners.discard(queue)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None

    def end(self) -> None:
        """Tell everybody that nothing more comes."""
        for queue in tuple(self._listeners):
            _put_last(queue)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except RestanteError as error:
                if error.code in ("unauthenticated", "forbidden"):
                    self.end()
                    return
                self._tell(b"event: trouble\ndata: {}\n\n")
            except Exception:  # noqa: BLE001  # whatever it is, the next look may succeed
                _log.exception("A page of the console could not be made again.")
            await asyncio.sleep(self._seconds)

    async def _look(self) -> None:
        parts = dict(await self._made())
        changed = {name: text for name, text in parts.items() if self._parts.get(name) != text}
        self._parts = parts
        self._tell(_events(changed) if changed else _STILL)

    def _tell(self, piece: bytes) -> None:
        for queue in self._listeners:
            with suppress(asyncio.QueueFull):  # A browser that does not keep up is sent what comes later.
                queue.put_nowait(piece)


def _put_last(queue: asyncio.Queue[bytes | None]) -> None:
    while queue.full():
        queue.get_nowait()
    queue.put_nowait(None)


def _events(parts: Mapping[str, str]) -> bytes:
    """One event for each part: its name and its markup."""
    lines = [
        b"event: part\ndata: " + msgspec.json.encode({"name": name, "html": text}) + b"\n\n"
        for name, text in parts.items()
    ]
    return b"".join(lines)


class PageStreams:
    """All streams of a console."""

    def __init__(self, seconds: float = CONSOLE_STREAM_SECONDS) -> None:
        self._seconds = seconds
        self._watches: dict[Hashable, PageWatch] = {}
        self._count = 0
        self._drained = False

    def __len__(self) -> int:
        return self._count

    def drain(self) -> None:
        self._drained = True
        for watch in tuple(self._watches.values()):
            watch.end()

    async def serve(self, key: Hashable, made: Made, receive: Receive, send: Send) -> None:
        """Send what moves on a page until the browser goes, or the session ends."""
        if self._count >= CONSOLE_STREAMS_MAX or self._drained:
            raise Overloaded(f"{self._count} pages are followed already, which is the most.", retry_after=30)
        watch = self._watches.setdefault(key, PageWatch(made, self._seconds))
        self._count += 1
        queue = watch.join()
        try:
            await _begin(send)
            await _unless_gone(_flow(queue, send), receive)
        finally:
            self._count -= 1
            watch.leave(queue)
            if not watch.listeners and self._watches.get(key) is watch:
                del self._watches[key]


async def _begin(send: Send) -> None:
    given = {**GUARDS, "content-type": "text/event-stream", "x-accel-buffering": "no"}
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"retry: 3000\n\n", "more_body": True})


async def _flow(queue: asyncio.Queue[bytes | None], send: Send) -> None:
    while (piece := await queue.get()) is not None:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"event: end\ndata: {}\n\n"})


async def _unless_gone(flow: Awaitable[None], receive: Receive) -> None:
    flowing, gone = asyncio.ensure_future(flow), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((flowing, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (flowing, gone):
            task.cancel()
        await asyncio.gather(flowing, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
