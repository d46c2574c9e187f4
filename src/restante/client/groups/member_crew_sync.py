"""Reading ahead for a member, for programs that wait: threads ask the hub, and the program's own threads take pages.

A thread that waits at the hub cannot be called off, so it waits a second at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from restante.calls.groups import ReadNext
from restante.client.groups.holdings import Question, TakenPage
from restante.client.groups.member import Member
from restante.client.transport.link import Link
from restante.errors import GenerationStale, GroupUnknown, MemberUnknown
from restante.limits import FEED_POLL_SECONDS, FEED_READS_MAX

HandlePage = Callable[[TakenPage], object]
HandledValue = object
"""The value that a function gives that handles a page."""


class MemberCrew:
    """The threads that read for one member."""

    def __init__(self, link: Link, member: Member, limit: int) -> None:
        self._link = link
        self.member = member
        self._limit = limit
        self._ending = False
        for _ in range(FEED_READS_MAX):
            threading.Thread(target=self._read, name="restante-member", daemon=True).start()

    def take(self) -> TakenPage | None:
        """The next page; None when the member stops."""
        with self.member.condition:
            while not self._ending:
                self.member.check()
                page = self.member.take()
                if page is not None:
                    return page
                self.member.condition.wait(FEED_POLL_SECONDS)
        return None

    def run(self, work: HandlePage, at_once: int) -> None:
        """Have pages of so many partitions worked on at a time, until the crew ends or one of them fails."""
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=self._work, args=(work, errors), name="restante-pages", daemon=True)
            for _ in range(at_once)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(FEED_POLL_SECONDS)  # so that Ctrl-C is heard
        finally:
            self.end()
        if errors:
            raise errors[0]

    def _work(self, work: HandlePage, errors: list[BaseException]) -> None:
        try:
            while (page := self.take()) is not None:
                work(page)
        except BaseException as error:  # noqa: BLE001  # whatever it is, it belongs to the program
            errors.append(error)
            self.end()

    def end(self) -> None:
        """Hand out nothing more."""
        with self.member.condition:
            self._ending = True
            self.member.condition.notify_all()

    def stop(self) -> None:
        """Read nothing more, write what is due, and leave."""
        self.end()
        self.member.stop()

    def _read(self) -> None:
        try:
            while not self._ending:
                with self.member.condition:
                    question = self.member.ask(self._limit)
                    if question is None:
                        self.member.condition.wait(FEED_POLL_SECONDS)
                        continue
                self._ask(question)
        except BaseException as error:  # noqa: BLE001  # whatever it is, it belongs to the program
            if not self._ending:
                self.member.fail(error)

    def _ask(self, question: Question) -> None:
        member_id, wait = self.member.member_id, FEED_POLL_SECONDS if question.waits else 0
        call = ReadNext(self.member.group, member_id, question.after, limit=self._limit, wait=wait)
        try:
            self.member.took(question, self._link.call(call))
        except (GenerationStale, MemberUnknown, GroupUnknown) as error:
            self.member.refused(question, error, member_id)


def carried_out(_: HandledValue) -> None:
    """The value that a function of the program gave: there is nothing to wait for."""
