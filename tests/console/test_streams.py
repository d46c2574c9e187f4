"""Streams: what moves on a page comes again, looked up once for all who look at the same page."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

import restante
from restante.console.application import Console
from restante.console.web.doors import SameProcessDoor
from restante.console.web.streams import PageStreams, StreamListener, StreamPace
from restante.console.web.visits import ConsoleVisitor
from restante.errors import Forbidden, Overloaded, Unauthenticated
from restante.limits import CONSOLE_STREAM_SHARE, CONSOLE_STREAM_SLOWED_MAX, CONSOLE_STREAMS_MAX
from restante.server.serve import ServedHub, Service, start
from tests.console.conftest import Guarded
from tests.console.visiting import Browsing


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    """A hub whose console looks ten times a second."""

    def mount(service: Service) -> None:
        door = SameProcessDoor(service.application, service.url)
        service.mount(Console(door, cookie="quick", stream_seconds=0.1))

    with start(tmp_path_factory.mktemp("quick"), prepare=mount) as running:
        yield running


@contextmanager
def _stream(url: str, page: str, cookie: str | None = None) -> Iterator[http.client.HTTPResponse]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    connection.request("GET", f"/console/stream?page={page}", headers={} if cookie is None else {"cookie": cookie})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def _part(answer: http.client.HTTPResponse, name: str, text: str) -> str:
    """The first part of this name that has this text in it."""
    while line := answer.readline():
        if line.startswith(b"data: ") and (sent := json.loads(line[6:])).get("name") == name and text in sent["html"]:
            return str(sent["html"])
    raise AssertionError("the stream ended")


def test_a_page_moves_when_the_hub_does(quick: ServedHub) -> None:
    with _stream(quick.url, "recipients%2Fmover") as answer, restante.connect(quick.url) as own:
        assert answer.headers["content-type"] == "text/event-stream"
        assert 'class="note plain"' in _part(answer, "why", "Nothing is known")
        own.send(recipient="mover", kind="telegram", data=1)
        assert "note good" in _part(answer, "why", "note good")
        assert "telegram" in _part(answer, "waiting", "telegram")


def test_a_page_without_moving_parts_has_no_stream(quick: ServedHub) -> None:
    assert "data-stream" not in Browsing(quick.url).get("/settings").page.of("body")[0]


def test_a_stream_needs_what_its_page_needs(guarded: Guarded) -> None:
    with _stream(guarded.running.url, "") as answer:
        assert answer.status == 401
    with _stream(guarded.running.url, "live", guarded.browser("reader").cookie) as answer:
        assert answer.status == 403
    with _stream(guarded.running.url, "nosuch", guarded.browser("reader").cookie) as answer:
        assert answer.status == 404


def test_a_hub_that_drains_ends_its_streams(tmp_path_factory: pytest.TempPathFactory) -> None:
    from tests.console.visiting import served

    with served(tmp_path_factory.mktemp("drained")) as running, _stream(running.url, "") as answer:
        answer.readline()
        running.stop()
        assert answer.read().endswith(b"event: end\ndata: {}\n\n")


class _Browser:
    """The two ends of a stream's connection, without one."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, object]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: object) -> None:
        assert isinstance(event, dict)
        self.sent.append(event.get("body", b""))


async def _allowed() -> None:
    """Nobody is refused."""


async def _until(true: object) -> None:
    assert callable(true)
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.01)


def test_all_who_look_at_one_page_share_one_look() -> None:
    async def run() -> None:
        looks = [0]

        async def made() -> dict[str, str]:
            looks[0] += 1
            return {"count": str(looks[0])}

        streams, browsers = PageStreams(0.01), [_Browser() for _ in range(100)]
        tasks = [
            asyncio.ensure_future(streams.serve("page", made, _allowed, one.receive, one.send)) for one in browsers
        ]
        await _until(lambda: all(len(one.sent) > 3 for one in browsers))
        assert len(streams) == 100
        assert looks[0] < 100
        for one in browsers:
            one.gone.set()
        await asyncio.gather(*tasks)
        assert len(streams) == 0
        before = looks[0]
        await asyncio.sleep(0.05)
        assert looks[0] == before, "nobody looks, so nothing is made"

    asyncio.run(run())


def test_only_what_changed_is_sent() -> None:
    async def run() -> None:
        looks = [0]

        async def made() -> dict[str, str]:
            looks[0] += 1
            return {"same": "x", "other": str(looks[0])}

        browser = _Browser()
        task = asyncio.ensure_future(PageStreams(0.01).serve("page", made, _allowed, browser.receive, browser.send))
        await _until(lambda: len(browser.sent) > 5)
        browser.gone.set()
        await task
        assert b"".join(browser.sent).count(b'"same"') == 1
        assert b"".join(browser.sent).count(b'"other"') > 2

    asyncio.run(run())


def test_streams_end_with_the_session_and_are_bounded() -> None:
    async def run() -> None:
        async def made() -> dict[str, str]:
            raise Unauthenticated("Revoked.")

        browser = _Browser()
        await PageStreams(0.01).serve("page", made, _allowed, browser.receive, browser.send)
        assert browser.sent[-1] == b"event: end\ndata: {}\n\n"

        streams = PageStreams(0.01)
        streams._count = CONSOLE_STREAMS_MAX
        with pytest.raises(Overloaded):
            await streams.serve("page", made, _allowed, browser.receive, browser.send)

    asyncio.run(run())


def test_only_how_long_ago_is_not_sent_again() -> None:
    async def run() -> None:
        looks = [0]

        async def made() -> dict[str, str]:
            looks[0] += 1
            return {"since": f'<time datetime="2030-01-31T12:00:00" title="then">{looks[0]} s ago</time>'}

        browser = _Browser()
        task = asyncio.ensure_future(PageStreams(0.01).serve("page", made, _allowed, browser.receive, browser.send))
        await _until(lambda: looks[0] > 5)
        browser.gone.set()
        await task
        assert b"".join(browser.sent).count(b'"since"') == 1

    asyncio.run(run())


def test_a_browser_that_was_slow_gets_all_parts_when_it_has_room() -> None:
    listener = StreamListener(_made_nothing)
    for piece in (b"one", b"two", b"three"):
        listener.put(piece, lambda: b"all")
    assert listener.late
    assert [listener.queue.get_nowait() for _ in range(2)] == [b"one", b"two"]
    listener.put(b"four", lambda: b"all")
    assert (listener.queue.get_nowait(), listener.late) == (b"all", False)


async def _made_nothing() -> dict[str, str]:
    return {}


def test_who_is_refused_goes_alone() -> None:
    """Two share a watch; the token of the first is revoked."""

    async def run() -> None:
        async def refused() -> dict[str, str]:
            raise Unauthenticated("Revoked.")

        async def made() -> dict[str, str]:
            return {"part": "x"}

        streams, first, second = PageStreams(0.01), _Browser(), _Browser()
        gone = asyncio.ensure_future(streams.serve("page", refused, _allowed, first.receive, first.send))
        stays = asyncio.ensure_future(streams.serve("page", made, _allowed, second.receive, second.send))
        await gone
        assert first.sent[-1] == b"event: end\ndata: {}\n\n"
        await _until(lambda: any(b'"part"' in piece for piece in second.sent))
        assert not stays.done()
        second.gone.set()
        await stays

    asyncio.run(run())


def test_who_gets_what_another_token_fetched_is_asked_for_its_own() -> None:
    async def run() -> None:
        async def made() -> dict[str, str]:
            return {"part": "x"}

        async def refused() -> None:
            raise Forbidden("Another role.")

        browser = _Browser()
        await PageStreams(0.01).serve("page", made, refused, browser.receive, browser.send)
        assert browser.sent[-1] == b"event: end\ndata: {}\n\n"

    asyncio.run(run())


def test_many_pages_are_made_less_often() -> None:
    pace = StreamPace(5.0)
    assert pace.pause() == 5.0
    for number in range(100):
        pace.note(number, 0.005)
    assert pace.pause() == pytest.approx(0.5 / CONSOLE_STREAM_SHARE)
    pace.note("a slow one", 60.0)
    assert pace.pause() == 5.0 * CONSOLE_STREAM_SLOWED_MAX
    for watch in (*range(100), "a slow one"):
        pace.forget(watch)
    assert pace.pause() == 5.0


def test_operators_share_what_they_see_and_others_do_not() -> None:
    both = [ConsoleVisitor(name=name, roles=("operator",)) for name in ("one", "two")]
    assert both[0].sight == both[1].sight
    readers = [ConsoleVisitor(name=name, roles=("reader",)) for name in ("one", "two")]
    assert readers[0].sight != readers[1].sight
    assert readers[0].sight != both[0].sight
