"""`hub.group` for asynchronous programs: this program is one of the members that share the feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self

from restante.calls.groups import (
    DeleteGroup,
    JoinGroup,
    ListGroups,
    PauseGroup,
    ReadGroup,
    ResetPosition,
    ResumeGroup,
    WriteCheckpoint,
)
from restante.client.actions.actions_async import give_up_poison, list_poison, repeat_poison
from restante.client.groups.group_view import GroupReading, PageView
from restante.client.groups.holdings import TakenPage
from restante.client.groups.member import Member
from restante.client.groups.member_crew_async import HandledValue, MemberCrew, carried_out
from restante.client.surface.arguments import count_of
from restante.client.surface.pages_async import every
from restante.client.transport.link import AsyncLink
from restante.errors import GroupUnknown, InvalidRequest
from restante.limits import FEED_WAITS_MAX, PAGE_MAX
from restante.model.actions.action_answers import ActionStatus, PoisonedAction
from restante.model.groups.group import Start, reset_place
from restante.model.groups.group_answers import Checkpointed, GroupStatus, Joined


class SharedPage(PageView):
    """Changes of one partition, in order, that this member works on."""

    def __init__(self, link: AsyncLink, member: Member, taken: TakenPage) -> None:
        super().__init__(taken)
        self._link = link
        self._member = member
        self._done = False

    async def done(self) -> None:
        """Write the checkpoint after this page: its changes are done with, and handed to no member again. A second call does nothing.

        `GenerationStale` if the partition was given to another member meanwhile: that one is handed the page, too.

        ```python
        async with hub.group("billing") as group:
            async for page in group.pages():
                print(page.table.num_rows)
                await page.done()
        ```
        """
        if not self._done:
            await self._link.call(
                WriteCheckpoint(self._member.group, self.partition, self.position, self.generation, release=False)
            )
            self._done = True
            self._member.written(self._taken)

    def passed(self) -> None:
        """The page is done with; that is written soon."""
        if not self._done:
            self._done = True
            self._member.done(self._taken)

    def left(self) -> None:
        """The page is not done with, and nobody works on it any more."""
        if not self._done:
            self._done = True
            self._member.undone(self._taken)


class Group:
    """A group, and this program as a member of it, from `pages` or `run` until that ends.

    Use it in an `async with` statement, or close it: then the member leaves, and others take over at once.
    """

    def __init__(self, link: AsyncLink, reading: GroupReading) -> None:
        self._link = link
        self._reading = reading
        self._crews: list[MemberCrew] = []
        self._closings = 0
        """The number of times it was closed: a member that was joining then ends as soon as it has joined."""

    def __repr__(self) -> str:
        return f"<Group {self.name!r}, member {self.member!r}>"

    @property
    def name(self) -> str:
        return self._reading.group

    @property
    def member(self) -> str:
        """The name of this member: the same after a restart, if it was given."""
        return self._reading.member

    async def pages(self) -> AsyncIterator[SharedPage]:
        """Pages of the partitions that this member has, as they come, without end.

        Pages of one partition come in order. A page is done with when the next one is asked for, or by `await page.done()`.
        A loop that is left, by an error or otherwise, leaves its page undone: it is handed out again.

        ```python
        async with hub.group("billing") as group:
            async for page in group.pages():
                print(page.partition, page.table.num_rows)
        ```
        """
        crew = await self._begin()
        try:
            while (taken := await crew.take()) is not None:
                page = SharedPage(self._link, crew.member, taken)
                try:
                    yield page
                    page.passed()
                finally:
                    page.left()
        finally:
            await self._end(crew)

    async def run(self, function: Callable[[SharedPage], HandledValue], *, partitions_at_once: int = 1) -> None:
        """Call a function with each page, of so many partitions side by side, without end.

        An exception that the function raises ends the call, when the pages under way are done with.

        ```python
        async def show(page):
            print(page.partition, page.table.num_rows)

        async with hub.group("billing") as group:
            await group.run(show, partitions_at_once=4)
        ```
        """
        at_once = count_of("partitions_at_once", partitions_at_once)
        if not 1 <= at_once <= FEED_WAITS_MAX:
            raise InvalidRequest(f"partitions_at_once must be from 1 to {FEED_WAITS_MAX}, not {at_once}.")
        crew = await self._begin()
        try:
            await crew.run(partial(self._work, crew.member, function), at_once)
        finally:
            await self._end(crew)

    async def _work(self, member: Member, function: Callable[[SharedPage], HandledValue], taken: TakenPage) -> None:
        page = SharedPage(self._link, member, taken)
        try:
            await carried_out(function(page))
            page.passed()
        finally:
            page.left()

    async def _begin(self) -> MemberCrew:
        closings = self._closings
        joined = await self._join()
        reading = self._reading
        member = Member(
            reading.group,
            reading.member,
            joined,
            heart=self._link.apart(timeout=joined.heartbeat_seconds),
            hand=self._link.apart(),
        )
        crew = MemberCrew(self._link, member, reading.limit)
        self._crews.append(crew)
        if closings != self._closings:
            crew.end()
        return crew

    async def _join(self) -> Joined:
        """A group that this program says nothing about is made only if it is not there."""
        join = JoinGroup(self._reading.group, self._reading.member)
        if self._reading.is_defined:
            await self._link.call(self._reading.definition)
            return await self._link.call(join)
        try:
            return await self._link.call(join)
        except GroupUnknown:
            await self._link.call(self._reading.definition)
            return await self._link.call(join)

    async def _end(self, crew: MemberCrew) -> None:
        if crew in self._crews:
            self._crews.remove(crew)
        await crew.stop()

    async def status(self) -> GroupStatus:
        """The group as it is: its filter, how far it has come, who is in it.

        ```python
        status = await hub.group("billing").status()
        ```
        """
        return await self._link.call(ReadGroup(self.name))

    async def reset(self, partition: int, to: int | datetime | str | Start) -> Checkpointed:
        """Go on elsewhere in a partition: after a number, from a time on, at the "beginning" or at the "end".

        ```python
        await hub.group("billing").reset(0, "beginning")
        ```
        """
        return await self._link.call(ResetPosition(self.name, count_of("partition", partition), reset_place(to)))

    async def pause(self) -> None:
        """Members keep what they have and get nothing, until the group is resumed.

        ```python
        await hub.group("billing").pause()
        ```
        """
        await self._link.call(PauseGroup(self.name))

    async def resume(self) -> None:
        """Members get pages again.

        ```python
        await hub.group("billing").resume()
        ```
        """
        await self._link.call(ResumeGroup(self.name))

    def poison(self) -> AsyncIterator[PoisonedAction]:
        """The actions that the group could not do, each with why and with all that is needed to do it again.

        ```python
        async for poison in hub.group("shop").poison():
            print(poison.id, poison.action, poison.problem.code)
        ```
        """
        return list_poison(self._link, self.name)

    async def again(self, action_id: str, *, concerns: str | None = None) -> ActionStatus:
        """Have an action that is poison done again: at the end, with a fresh count.

        ```python
        async for poison in hub.group("shop").poison():
            await hub.group("shop").again(poison.id, concerns=poison.concerns)
        ```
        """
        return await repeat_poison(self._link, self.name, action_id, concerns)

    async def give_up(self, action_id: str, *, concerns: str | None = None) -> None:
        """An action that is poison will not be done.

        ```python
        async for poison in hub.group("shop").poison():
            await hub.group("shop").give_up(poison.id, concerns=poison.concerns)
        ```
        """
        await give_up_poison(self._link, self.name, action_id, concerns)

    async def delete(self) -> None:
        """Delete the group with its positions.

        ```python
        await hub.group("billing").delete()
        ```
        """
        await self._link.call(DeleteGroup(self.name))

    async def close(self) -> None:
        """The member leaves. A task that waits for a page gets none any more.

        ```python
        await group.close()
        ```
        """
        self._closings += 1
        for crew in tuple(self._crews):
            await self._end(crew)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def list_groups(link: AsyncLink) -> AsyncIterator[GroupStatus]:
    """List the groups by name; pages are read as the caller goes on."""
    return every(link, ListGroups(limit=PAGE_MAX), lambda page: page.groups)
