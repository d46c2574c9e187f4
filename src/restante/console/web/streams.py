"""Streams: the parts of pages that move, sent as server-sent events when they have changed.

All visitors who look at the same page and may see the same share one watch, which makes the page once every few seconds: a
hundred open consoles ask the hub as much as one. The page is made by its own handler, so a stream sends what a reload shows.
Where many look at different pages, all of them are made less often: together they take a small share of the time.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field

import msgspec

from restante.console.web.exchanges import GUARDS, Receive, Send
from restante.errors import Overloaded, RestanteError
from restante.limits import (
    CONSOLE_STREAM_SECONDS,
    CONSOLE_STREAM_SHARE,
    CONSOLE_STREAM_SLOWED_MAX,
    CONSOLE_STREAMS_MAX,
)

_log = logging.getLogger("restante.console")

Made = Callable[[], Awaitable[Mapping[str, str]]]
"""A function that makes a page again as one visitor sees it, and gives its parts that move."""
Queue = asyncio.Queue[bytes | None]
Allowed = Callable[[], Awaitable[object]]
"""Raises if the visitor may not see the page any more."""

_STILL = b": still here\n\n"
_AGO = re.compile(r"(?<=\">)[^<]*(?=</time>)")
"""The text of a `time` element."""
_REFUSED = ("unauthenticated", "forbidden")


class StreamPace:
    """The pause between two makings of a page: so long that all of them together take a share of the time at most."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._took: dict[object, float] = {}
        """How many seconds each watch took last. While the hub is busy a watch takes longer, and is made less often."""

    def note(self, watch: object, took: float) -> None:
        self._took[watch] = took

    def forget(self, watch: object) -> None:
        self._took.pop(watch, None)

    def pause(self) -> float:
        wanted = sum(self._took.values()) / CONSOLE_STREAM_SHARE
        return max(self._seconds, min(wanted, CONSOLE_STREAM_SLOWED_MAX * self._seconds))


@dataclass(eq=False, slots=True)
class StreamListener:
    """A visitor who looks at a page."""

    made: Made
    queue: Queue = field(default_factory=lambda: asyncio.Queue(maxsize=2))
    """The pieces to be sent. None is the end."""
    late: bool = False
    """Whether the listener had no room for a part: it is sent all parts as soon as it has."""

    def put(self, piece: bytes, whole: Callable[[], bytes]) -> None:
        try:
            self.queue.put_nowait(whole() if self.late else piece)
        except asyncio.QueueFull:
            self.late = True
        else:
            self.late = False

    def end(self) -> None:
        while self.queue.full():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class PageWatch:
    """One page that is open in browsers."""

    def __init__(self, pace: StreamPace) -> None:
        self._pace = pace
        self._parts: dict[str, str] = {}
        self._listeners: dict[StreamListener, None] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def join(self, listener: StreamListener) -> None:
        """Send all parts that are known now, and then those that change."""
        self._listeners[listener] = None
        if self._parts:
            listener.put(_events(self._parts), lambda: _events(self._parts))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    def leave(self, listener: StreamListener) -> None:
        self._listeners.pop(listener, None)
        if not self._listeners:
            self._pace.forget(self)
            if self._task is not None:
                self._task.cancel()
                self._task = None

    def end(self) -> None:
        """Tell everybody that nothing more comes."""
        for listener in self._listeners:
            listener.end()

    async def _run(self) -> None:
        while self._listeners:
            began = time.perf_counter()
            await self._look_for(next(iter(self._listeners)))
            self._pace.note(self, time.perf_counter() - began)
            await asyncio.sleep(self._pace.pause())

    async def _look_for(self, listener: StreamListener) -> None:
        """Look on behalf of one of them. If it may not any more, the next one is asked."""
        try:
            await self._look(listener)
        except RestanteError as error:
            if error.code not in _REFUSED:
                self._tell(b"event: trouble\ndata: {}\n\n")
                return
            listener.end()
            self._listeners.pop(listener, None)
            if self._listeners:
                await self._look_for(next(iter(self._listeners)))
        except Exception:  # noqa: BLE001  # whatever it is, the next look may succeed
            _log.exception("A page of the console could not be made again.")

    async def _look(self, listener: StreamListener) -> None:
        parts = dict(await listener.made())
        changed = {name: text for name, text in parts.items() if not _is_same(self._parts.get(name), text)}
        self._parts = parts
        self._tell(_events(changed) if changed else _STILL)

    def _tell(self, piece: bytes) -> None:
        for listener in self._listeners:
            listener.put(piece, lambda: _events(self._parts))


def _is_same(before: str | None, text: str) -> bool:
    """Whether two makings of a part differ in nothing but how long ago things were: the script keeps that true."""
    return before is not None and (before == text or _AGO.sub("", before) == _AGO.sub("", text))


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
        self._pace = StreamPace(seconds)
        self._watches: dict[Hashable, PageWatch] = {}
        self._count = 0
        self._drained = False

    def __len__(self) -> int:
        return self._count

    def drain(self) -> None:
        self._drained = True
        for watch in tuple(self._watches.values()):
            watch.end()

    async def serve(self, key: Hashable, made: Made, allowed: Allowed, receive: Receive, send: Send) -> None:
        """Send what moves on a page until the browser goes, or the session ends."""
        if self._count >= CONSOLE_STREAMS_MAX or self._drained:
            raise Overloaded(f"{self._count} pages are followed already, which is the most.", retry_after=30)
        watch, listener = self._watches.setdefault(key, PageWatch(self._pace)), StreamListener(made)
        self._count += 1
        watch.join(listener)
        try:
            await _begin(send)
            await _first_of(_flow(listener.queue, send), _gone(receive), self._while_allowed(allowed, listener))
        finally:
            self._count -= 1
            watch.leave(listener)
            if not watch.listeners and self._watches.get(key) is watch:
                del self._watches[key]

    async def _while_allowed(self, allowed: Allowed, listener: StreamListener) -> None:
        """The pieces for one visitor, which another one's token may have fetched: so each is asked for its own."""
        while True:
            await asyncio.sleep(2 * self._seconds)
            try:
                await allowed()
            except RestanteError as error:
                if error.code in _REFUSED:
                    listener.end()
                    await asyncio.Event().wait()


async def _begin(send: Send) -> None:
    given = {**GUARDS, "content-type": "text/event-stream", "x-accel-buffering": "no"}
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"retry: 3000\n\n", "more_body": True})


async def _flow(queue: Queue, send: Send) -> None:
    while (piece := await queue.get()) is not None:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"event: end\ndata: {}\n\n"})


async def _first_of(*parts: Awaitable[None]) -> None:
    """Until one of them has ended."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
