"""Reading ahead for a member, for asynchronous programs: tasks ask the hub, and the program's own tasks take pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from restante.calls.groups import ReadNext
from restante.client.groups.holdings import Question, TakenPage
from restante.client.groups.member import Member
from restante.client.transport.link import AsyncLink
from restante.errors import GenerationStale, GroupUnknown, MemberUnknown, RestanteError
from restante.limits import FEED_POLL_SECONDS, FEED_READS_MAX, WAIT_SECONDS_MAX
from restante.model.groups.group_answers import NextAnswer

HandlePage = Callable[[TakenPage], Awaitable[object]]
HandledValue = Awaitable[object] | object
"""The value that a function gives that handles a page. It may be an asynchronous one."""


class MemberCrew:
    """The tasks that read for one member."""

    def __init__(self, link: AsyncLink, member: Member, limit: int) -> None:
        self._link = link
        self.member = member
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._ending = False
        member.listen(self._tell)
        self._tasks = [asyncio.create_task(self._read()) for _ in range(FEED_READS_MAX)]

    def _tell(self) -> None:
        with suppress(RuntimeError):  # The event loop has ended before the member's threads.
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        told, self._changed = self._changed, asyncio.Event()
        told.set()

    async def take(self) -> TakenPage | None:
        """The next page; None when the member stops."""
        while not self._ending:
            changed = self._changed
            self.member.check()
            page = self.member.take()
            if page is not None:
                return page
            await _wait(changed, FEED_POLL_SECONDS)
        return None

    async def run(self, work: HandlePage, at_once: int) -> None:
        """Have pages of so many partitions worked on at a time, until the crew ends or one of them fails."""
        tasks = [asyncio.create_task(self._work(work)) for _ in range(at_once)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            self.end()
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _work(self, work: HandlePage) -> None:
        while (page := await self.take()) is not None:
            await work(page)

    def end(self) -> None:
        """Hand out nothing more."""
        self._ending = True
        self._wake()

    async def stop(self) -> None:
        """Read nothing more, write what is due, and leave."""
        self.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.member.stop)

    async def _read(self) -> None:
        try:
            while not self._ending:
                changed, question = self._changed, self.member.ask(self._limit)
                if question is None:
                    await _wait(changed, FEED_POLL_SECONDS)
                    continue
                answer = await self._ask(question)
                if answer is not None:
                    self.member.took(question, answer)
        except RestanteError as error:
            self.member.fail(error)

    async def _ask(self, question: Question) -> NextAnswer | None:
        """The answer of the hub; None when the member has other partitions meanwhile, or has lost some."""
        member_id, version = self.member.member_id, self.member.version
        wait = 0 if not question.waits else WAIT_SECONDS_MAX if question.whole else FEED_POLL_SECONDS
        call = ReadNext(self.member.group, member_id, question.after, limit=self._limit, wait=wait)
        asking = asyncio.create_task(self._link.call(call))
        try:
            while not asking.done():
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait((asking, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if question.waits and not asking.done() and self.member.version != version:
                    self.member.unasked(question)
                    return None
            return asking.result()
        except (GenerationStale, MemberUnknown, GroupUnknown) as error:
            self.member.refused(question, error, member_id)
            return None
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def carried_out(outcome: HandledValue) -> None:
    """The value that a function of the program gave, awaited if it is to be."""
    if isinstance(outcome, Awaitable):
        await outcome
