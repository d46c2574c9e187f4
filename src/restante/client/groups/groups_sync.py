# Generated from `groups_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""`hub.group` for programs that wait: this program is one of the members that share the feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from restante.client.actions.actions_sync import give_up_poison, list_poison, repeat_poison
from restante.client.groups.group_view import GroupReading, PageView
from restante.client.groups.holdings import TakenPage
from restante.client.groups.member import Member
from restante.client.groups.member_crew_sync import HandledValue, MemberCrew, carried_out
from restante.client.surface.arguments import count_of
from restante.client.surface.pages_sync import every
from restante.client.transport.link import Link
from restante.errors import GroupUnknown, InvalidRequest
from restante.limits import FEED_WAITS_MAX, PAGE_MAX
from restante.model.actions.action_answers import ActionStatus, PoisonedAction
from restante.model.groups.group import Start, reset_place
from restante.model.groups.group_answers import Checkpointed, GroupStatus, Joined


class SharedPage(PageView):
    """Changes of one partition, in order, that this member works on."""

    def __init__(self, link: Link, member: Member, taken: TakenPage) -> None:
        super().__init__(taken)
        self._link = link
        self._member = member
        self._done = False

    def done(self) -> None:
        """Write the checkpoint after this page: its changes are done with, and handed to no member again. A second call does nothing.

        `GenerationStale` if the partition was given to another member meanwhile: that one is handed the page, too.

        ```python
        with hub.group("billing") as group:
            for page in group.pages():
                print(page.table.num_rows)
                page.done()
        ```
        """
        if not self._done:
            self._link.call(
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

    Use it in a `with` statement, or close it: then the member leaves, and others take over at once.
    """

    def __init__(self, link: Link, reading: GroupReading) -> None:
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

    def pages(self) -> Iterator[SharedPage]:
        """Pages of the partitions that this member has, as they come, without end.

        Pages of one partition come in order. A page is done with when the next one is asked for, or by `page.done()`.
        A loop that is left, by an error or otherwise, leaves its page undone: it is handed out again.

        ```python
        with hub.group("billing") as group:
            for page in group.pages():
                print(page.partition, page.table.num_rows)
        ```
        """
        crew = self._begin()
        try:
            while (taken := crew.take()) is not None:
                page = SharedPage(self._link, crew.member, taken)
                try:
                    yield page
                    page.passed()
                finally:
                    page.left()
        finally:
            self._end(crew)

    def run(self, function: Callable[[SharedPage], HandledValue], *, partitions_at_once: int = 1) -> None:
        """Call a function with each page, of so many partitions side by side, without end.

        An exception that the function raises ends the call, when the pages under way are done with.

        ```python
        def show(page):
            print(page.partition, page.table.num_rows)

        with hub.group("billing") as group:
            group.run(show, partitions_at_once=4)
        ```
        """
        at_once = count_of("partitions_at_once", partitions_at_once)
        if not 1 <= at_once <= FEED_WAITS_MAX:
            raise InvalidRequest(f"partitions_at_once must be from 1 to {FEED_WAITS_MAX}, not {at_once}.")
        crew = self._begin()
        try:
            crew.run(partial(self._work, crew.member, function), at_once)
        finally:
            self._end(crew)

    def _work(self, member: Member, function: Callable[[SharedPage], HandledValue], taken: TakenPage) -> None:
        page = SharedPage(self._link, member, taken)
        try:
            carried_out(function(page))
            page.passed()
        finally:
            page.left()

    def _begin(self) -> MemberCrew:
        closings = self._closings
        joined = self._join()
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

    def _join(self) -> Joined:
        """A group that this program says nothing about is made only if it is not there."""
        join = JoinGroup(self._reading.group, self._reading.member)
        if self._reading.is_defined:
            self._link.call(self._reading.definition)
            return self._link.call(join)
        try:
            return self._link.call(join)
        except GroupUnknown:
            self._link.call(self._reading.definition)
            return self._link.call(join)

    def _end(self, crew: MemberCrew) -> None:
        if crew in self._crews:
            self._crews.remove(crew)
        crew.stop()

    def status(self) -> GroupStatus:
        """The group as it is: its filter, how far it has come, who is in it.

        ```python
        status = hub.group("billing").status()
        ```
        """
        return self._link.call(ReadGroup(self.name))

    def reset(self, partition: int, to: int | datetime | str | Start) -> Checkpointed:
        """Go on elsewhere in a partition: after a number, from a time on, at the "beginning" or at the "end".

        ```python
        hub.group("billing").reset(0, "beginning")
        ```
        """
        return self._link.call(ResetPosition(self.name, count_of("partition", partition), reset_place(to)))

    def pause(self) -> None:
        """Members keep what they have and get nothing, until the group is resumed.

        ```python
        hub.group("billing").pause()
        ```
        """
        self._link.call(PauseGroup(self.name))

    def resume(self) -> None:
        """Members get pages again.

        ```python
        hub.group("billing").resume()
        ```
        """
        self._link.call(ResumeGroup(self.name))

    def poison(self) -> Iterator[PoisonedAction]:
        """The actions that the group could not do, each with why and with all that is needed to do it again.

        ```python
        for poison in hub.group("shop").poison():
            print(poison.id, poison.action, poison.problem.code)
        ```
        """
        return list_poison(self._link, self.name)

    def again(self, action_id: str, *, concerns: str | None = None) -> ActionStatus:
        """Have an action that is poison done again: at the end, with a fresh count.

        ```python
        for poison in hub.group("shop").poison():
            hub.group("shop").again(poison.id, concerns=poison.concerns)
        ```
        """
        return repeat_poison(self._link, self.name, action_id, concerns)

    def give_up(self, action_id: str, *, concerns: str | None = None) -> None:
        """An action that is poison will not be done.

        ```python
        for poison in hub.group("shop").poison():
            hub.group("shop").give_up(poison.id, concerns=poison.concerns)
        ```
        """
        give_up_poison(self._link, self.name, action_id, concerns)

    def delete(self) -> None:
        """Delete the group with its positions.

        ```python
        hub.group("billing").delete()
        ```
        """
        self._link.call(DeleteGroup(self.name))

    def close(self) -> None:
        """The member leaves. A thread that waits for a page gets none any more.

        ```python
        group.close()
        ```
        """
        self._closings += 1
        for crew in tuple(self._crews):
            self._end(crew)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def list_groups(link: Link) -> Iterator[GroupStatus]:
    """List the groups by name; pages are read as the caller goes on."""
    return every(link, ListGroups(limit=PAGE_MAX), lambda page: page.groups)
