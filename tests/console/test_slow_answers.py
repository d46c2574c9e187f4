"""Lists that take the hub long: pages do not wait for them, and streams ask for them seldom."""

from __future__ import annotations

import asyncio

import pytest

from restante.console.web import slow_answers
from restante.console.web.slow_answers import SlowAnswers
from restante.errors import Unavailable
from restante.limits import CONSOLE_REMEMBERED_MAX, CONSOLE_STREAM_SECONDS


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_answers, "CONSOLE_PATIENCE_SECONDS", 0.05)


class _Hub:
    """Answers with how often it was asked, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.let = asyncio.Event()
        self.let.set()

    async def answer(self) -> int:
        self.asked += 1
        mine = self.asked
        await self.let.wait()
        return mine


def test_a_page_does_not_wait_for_what_takes_long_and_a_stream_does() -> None:
    async def run() -> None:
        hub, answers = _Hub(), SlowAnswers()
        hub.let.clear()
        assert await answers.ask("k", hub.answer, seldom=False) is None
        streaming = asyncio.ensure_future(answers.ask("k", hub.answer, seldom=True))
        await asyncio.sleep(0.01)
        hub.let.set()
        found = await streaming
        assert found is not None
        assert (found.answer, hub.asked) == (1, 1)

    asyncio.run(run())


def test_what_was_known_is_shown_while_it_is_asked_again() -> None:
    async def run() -> None:
        now = [0.0]
        hub, answers = _Hub(), SlowAnswers(lambda: now[0])
        await answers.ask("k", hub.answer, seldom=False)
        now[0] += CONSOLE_STREAM_SECONDS + 0.1
        hub.let.clear()
        found = await answers.ask("k", hub.answer, seldom=False)
        assert found is not None
        assert found.answer == 1
        hub.let.set()
        await asyncio.sleep(0.01)
        again = await answers.ask("k", hub.answer, seldom=False)
        assert again is not None
        assert again.answer == 2

    asyncio.run(run())


def test_a_stream_asks_for_a_hundredth_of_the_time_that_it_takes() -> None:
    async def run() -> None:
        now = [0.0]
        asked = [0]

        async def slow() -> int:
            asked[0] += 1
            now[0] += 2.0
            return asked[0]

        answers = SlowAnswers(lambda: now[0])
        await answers.ask("k", slow, seldom=True)
        for _ in range(19):
            now[0] += 10.0
            await answers.ask("k", slow, seldom=True)
        assert asked[0] == 1
        now[0] += 11.0
        await answers.ask("k", slow, seldom=True)
        assert asked[0] == 2
        now[0] += CONSOLE_STREAM_SECONDS + 0.1
        await answers.ask("k", slow, seldom=False)
        assert asked[0] == 3, "somebody who opens the page asks for what is new"

    asyncio.run(run())


def test_failures_are_told_and_what_is_kept_is_bounded() -> None:
    async def run() -> None:
        async def broken() -> int:
            raise Unavailable("No.")

        answers, hub = SlowAnswers(), _Hub()
        with pytest.raises(Unavailable):
            await answers.ask("k", broken, seldom=False)
        for number in range(CONSOLE_REMEMBERED_MAX + 10):
            await answers.ask(number, hub.answer, seldom=False)
        assert len(answers._known) == CONSOLE_REMEMBERED_MAX
        assert answers._tasks == {}

    asyncio.run(run())
