"""A member of a group: its heartbeat and its checkpoints, each in a thread of its own.

So a handler that is busy, or an event loop that it keeps busy, loses no lease, and a slow checkpoint delays no heartbeat.
When no heartbeat was answered for two intervals, by this machine's clock that only goes forward, no page is handed out:
the lease may have ended, and another member may have the partitions. A member that the hub does not know any more
forgets all that it has and joins again.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from restante import limits
from restante.calls.groups import JoinGroup, LeaveGroup, SendHeartbeat, WriteCheckpoint
from restante.client.groups.holdings import DueCheckpoint, Holdings, Question, TakenPage
from restante.client.transport.link import ApartLink
from restante.errors import GenerationStale, GroupUnknown, MemberUnknown, RestanteError, Unavailable
from restante.model.groups.group_answers import Assigned, Joined, NextAnswer, Running

SILENT_HEARTBEATS = 2
"""After so many intervals without an answer nothing is begun."""
_SETTLING_HEARTBEATS = 4
"""For so many intervals after it joined, or got or gave something, a member asks so many times as often: others may be
about to release what it gets."""
_log = logging.getLogger("restante.groups")


def new_member_name() -> str:
    """A name of this process, and of nobody else."""
    host = socket.gethostname()[: limits.MEMBER_CHARACTERS_MAX // 2]
    return f"{host}-{os.getpid()}-{os.urandom(3).hex()}"


class Member:
    """One member, from joining to leaving. Any thread may use it."""

    def __init__(
        self,
        group: str,
        name: str,
        joined: Joined,
        *,
        heart: ApartLink,
        hand: ApartLink,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.group = group
        self._name = name
        self._heart = heart
        self._hand = hand
        self._monotonic = monotonic
        self._interval = joined.heartbeat_seconds
        self.condition = threading.Condition()
        """Notified whenever there may be something to do."""
        self.running: Callable[[], Sequence[Running]] = tuple
        """A function that gives what the member works on; heartbeats tell the hub."""
        self._holdings = Holdings()
        self._listeners: list[Callable[[], None]] = []
        self._answered_at = monotonic()
        self._wrote_skims_at = monotonic()
        self._beat_now = False
        self._stopping = False
        self._error: BaseException | None = None
        self.member_id = joined.member_id
        self.version = 0
        """Another number when the member has other partitions."""
        self._settled_at = monotonic() + _SETTLING_HEARTBEATS * self._interval
        self._assign(joined.partitions)
        self._threads = [
            threading.Thread(target=self._beat, name="restante-heartbeat", daemon=True),
            threading.Thread(target=self._write, name="restante-checkpoint", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    # --- Called by the program

    def listen(self, listener: Callable[[], None]) -> None:
        """Have a function called, in any thread, whenever there may be something to do."""
        self._listeners.append(listener)

    def check(self) -> None:
        """Raise what keeps the member from going on."""
        if self._error is not None:
            raise self._error

    def fail(self, error: BaseException) -> None:
        """The program cannot go on."""
        with self.condition:
            self._error = self._error or error
            self._changed()

    def is_silent(self) -> bool:
        """Whether the lease may have ended, for all that this member knows."""
        return self._monotonic() - self._answered_at >= SILENT_HEARTBEATS * self._interval

    def ask(self, limit: int) -> Question | None:
        """The next question to the hub; nothing while enough is there unread, or the lease may have ended."""
        with self.condition:
            if self.is_silent() or self._holdings.rows_unread >= limit:
                return None
            return self._holdings.ask(limits.GROUP_PARTITIONS_AT_ONCE_MAX)

    def took(self, question: Question, answer: NextAnswer) -> None:
        with self.condition:
            self._holdings.took(question, answer.pages)
            self._changed()

    def unasked(self, question: Question) -> None:
        """A question was called off."""
        with self.condition:
            self._holdings.unasked(question)
            self._changed()

    def refused(self, question: Question, error: RestanteError, member_id: str) -> None:
        """The hub handed out no pages to a member: forget partitions that are no longer its own; a heartbeat says which are."""
        stale = error.details.get("stale")
        with self.condition:
            self._holdings.unasked(question)
            if isinstance(stale, list):
                self._holdings.drop_stale({int(own["partition"]): int(own["generation"]) for own in stale})
            elif member_id == self.member_id:
                self._holdings.drop_all()
            self._beat_now = True
            self._changed()

    def take(self) -> TakenPage | None:
        """A page to work on; None if there is none now."""
        with self.condition:
            if self._stopping or self.is_silent():
                return None
            page = self._holdings.take()
            if page is not None:
                self._changed()
            return page

    def done(self, page: TakenPage) -> None:
        """The page is done with; the checkpoint is written soon."""
        with self.condition:
            self._holdings.done(page)
            self._changed()

    def undone(self, page: TakenPage) -> None:
        with self.condition:
            self._holdings.undone(page)
            self._changed()

    def written(self, page: TakenPage) -> None:
        """The page is done with, and its checkpoint was written."""
        with self.condition:
            self._holdings.done(page)
            self._holdings.wrote(DueCheckpoint(page.holding, page.position, release=False))
            self._changed()

    def stop(self) -> None:
        """Write what is due, and leave. Pages under way are not done with. Again, it does nothing."""
        with self.condition:
            first, self._stopping = not self._stopping, True
            self._changed()
        if not first:
            return
        for thread in self._threads:
            thread.join()
        with suppress(RestanteError):
            self._hand.call(LeaveGroup(self.group, self.member_id))
        self._heart.close()
        self._hand.close()

    def _changed(self) -> None:
        self.condition.notify_all()
        for listener in self._listeners:
            listener()

    def _assign(self, assigned: Sequence[Assigned]) -> None:
        if self._holdings.assign(assigned):
            self.version += 1
            self._settled_at = self._monotonic() + _SETTLING_HEARTBEATS * self._interval

    # The heartbeat

    def _beat(self) -> None:
        while self._wait_for_beat():
            sent = self._monotonic()
            try:
                answer = self._heart.call(SendHeartbeat(self.group, self.member_id, tuple(self.running())))
            except (MemberUnknown, GroupUnknown):
                self._join_again()
            except RestanteError as error:
                _log.warning("A heartbeat of %s in the group %s failed: %s", self._name, self.group, error)
                self._rest()
            else:
                self._heard(answer.partitions, sent)

    def _wait_for_beat(self) -> bool:
        """Wait until the next heartbeat is to be sent; false when the member stops."""
        with self.condition:
            settling = self._monotonic() < self._settled_at
            due = self._answered_at + self._interval / (_SETTLING_HEARTBEATS if settling else 1)
            self.condition.wait_for(lambda: self._stopping or self._beat_now, max(0.0, due - self._monotonic()))
            self._beat_now = False
            return not self._stopping

    def _rest(self) -> None:
        with self.condition:
            self.condition.wait_for(lambda: self._stopping, self._interval / 3)

    def _heard(self, assigned: Sequence[Assigned], sent: float) -> None:
        with self.condition:
            self._assign(assigned)
            self._answered_at = sent
            self._changed()

    def _join_again(self) -> None:
        with self.condition:
            self._holdings.drop_all()
            self.version += 1
            self._changed()
        sent = self._monotonic()
        try:
            joined = self._heart.call(JoinGroup(self.group, self._name))
        except Unavailable:
            self._rest()
        except RestanteError as error:
            self.fail(error)
            self._rest()
        else:
            _log.warning("%s lost its lease in the group %s, and joined again.", self._name, self.group)
            with self.condition:
                self.member_id, self._interval = joined.member_id, joined.heartbeat_seconds
            self._heard(joined.partitions, sent)

    # The checkpoints

    def _write(self) -> None:
        while (due := self._wait_for_due()) is not None:
            try:
                self._hand.call(
                    WriteCheckpoint(
                        self.group,
                        due.holding.partition,
                        due.position,
                        due.holding.generation,
                        release=due.release,
                    )
                )
            except Unavailable as error:
                _log.warning("A checkpoint of %s in the group %s failed: %s", self._name, self.group, error)
                if self._give_up_writing():
                    return
            except (GenerationStale, GroupUnknown):
                self._note(due, written=False)
            except RestanteError as error:
                self._note(due, written=False)
                self.fail(error)
            else:
                self._note(due, written=True)

    def _wait_for_due(self) -> DueCheckpoint | None:
        """Wait until a checkpoint is due, and give it; None when the member stops and none is left."""
        with self.condition:
            while True:
                skims = self._stopping or self._monotonic() - self._wrote_skims_at >= self._interval
                due = self._holdings.due(skims=skims)
                if due is not None or self._stopping:
                    return due
                if skims:
                    self._wrote_skims_at = self._monotonic()
                self.condition.wait(self._interval)

    def _give_up_writing(self) -> bool:
        with self.condition:
            return self.condition.wait_for(lambda: self._stopping, self._interval / 3)

    def _note(self, due: DueCheckpoint, *, written: bool) -> None:
        with self.condition:
            if written:
                self._holdings.wrote(due)
            else:
                self._holdings.forget(due)
                self._beat_now = True
            self._changed()
