"""The lease of a worker: it joins its group, says in a thread of its own that it is there, and hears what it has.

A handler that is busy, or an event loop that it keeps busy, so loses no lease. When no heartbeat was answered for two
intervals, by this machine's clock that only goes forward, the lease may have ended: then nothing is begun. A worker that
the hub does not know any more loses all that it has, and joins again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from restante.calls.groups import DefineGroup, JoinGroup, LeaveGroup, SendHeartbeat
from restante.client.groups.member import SILENT_HEARTBEATS
from restante.client.transport.link import ApartLink
from restante.errors import GroupUnknown, Internal, MemberUnknown, RestanteError
from restante.model.groups.group_answers import Assigned, GroupStatus, Running

JOIN_SECONDS = 1.0
"""Between attempts to join a hub that is not there."""
_SETTLING_HEARTBEATS = 4
"""For so many intervals after it joined, or got or gave something, a worker asks so many times as often."""
_log = logging.getLogger("restante.work")


class WorkSaid(NamedTuple):
    """The actions that a worker says it does, and the number of what it says: two ways lead to the hub, and the later may arrive first."""

    running: tuple[Running, ...]
    revision: int


class LeaseEvents(Protocol):
    """The listener to the lease, in the lease's own thread."""

    def joined(self, member_id: str, status: GroupStatus, assigned: Sequence[Assigned]) -> None: ...
    def heard(self, assigned: Sequence[Assigned], hub_now: float, at: float) -> None: ...
    def lost(self) -> None: ...
    def refused(self, error: RestanteError) -> None: ...


class WorkLease:
    """The membership of one worker, from joining to leaving."""

    def __init__(
        self,
        definition: DefineGroup,
        name: str,
        *,
        link: ApartLink,
        events: LeaseEvents,
        said: Callable[[], WorkSaid],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._definition = definition
        self._group = definition.group
        self._name = name
        self._link = link
        self._events = events
        self._said = said
        self._monotonic = monotonic
        self._condition = threading.Condition()
        self._member_id: str | None = None
        self._interval = JOIN_SECONDS
        self._answered_at = float("-inf")
        self._settled_at = float("-inf")
        self._generations: dict[int, int] = {}
        self._beat_now = False
        self._begun = 0
        self._answered = 0
        self._stopping = False
        self._out_of_reach = False
        self._thread = threading.Thread(target=self._run, name="restante-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def member_id(self) -> str | None:
        """None while it is no member."""
        return self._member_id

    @property
    def interval(self) -> float:
        """Seconds from one heartbeat to the next."""
        return self._interval

    def is_silent(self) -> bool:
        """Whether the lease may have ended, for all that this worker knows."""
        return self.silent_seconds() >= SILENT_HEARTBEATS * self._interval

    def silent_seconds(self) -> float:
        return self._monotonic() - self._answered_at

    def beat_now(self) -> None:
        with self._condition:
            self._beat_now = True
            self._condition.notify_all()

    def beat_next(self) -> int:
        """Beat now; gives the number of the first heartbeat that names all that runs by now."""
        with self._condition:
            self._beat_now = True
            self._condition.notify_all()
            return self._begun + 1

    @property
    def answered(self) -> int:
        """The number of the last heartbeat that was answered."""
        return self._answered

    def join_again(self) -> None:
        """Begin under new generations, because this worker has other partitions than the hub thinks that it has."""
        with self._condition:
            self._member_id = None
            self._beat_now = True
            self._condition.notify_all()

    def leave(self) -> None:
        """End the thread, and leave the group at once. Again, it does nothing."""
        self.end()
        if self._member_id is not None:
            member_id, self._member_id = self._member_id, None
            try:
                self._link.call(LeaveGroup(self._group, member_id))
            except RestanteError as error:
                _log.warning("%s could not leave the group %s: %s", self._name, self._group, error)

    def end(self) -> None:
        """End the thread without leaving."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def die(self) -> None:
        """End without leaving, and say a last time what runs: when the lease has ended, that counts as died."""
        self.end()
        if self._member_id is not None:
            with suppress(RestanteError):
                self._link.call(SendHeartbeat(self._group, self._member_id, *self._said()))

    # The thread

    def _run(self) -> None:
        while self._wait():
            sent = self._monotonic()
            try:
                if self._member_id is None:
                    self._join(sent)
                else:
                    self._beat(self._member_id, sent)
            except (MemberUnknown, GroupUnknown):
                self._lose()
            except RestanteError as error:
                self._failed(error)
                self._rest()

    def _failed(self, error: RestanteError) -> None:
        """Handle a failure: one that may pass is said once; a refusal of the hub ends the worker."""
        if not error.retriable and not isinstance(error, Internal):
            self._events.refused(error)
        elif not self._out_of_reach:
            self._out_of_reach = True
            _log.warning("The group %s is out of reach: %s It is tried again until it answers.", self._group, error)

    def _wait(self) -> bool:
        """Wait until the next heartbeat is to be sent; false when the worker ends."""
        with self._condition:
            settling = self._monotonic() < self._settled_at
            due = self._answered_at + self._interval / (_SETTLING_HEARTBEATS if settling else 1)
            if self._member_id is not None:
                pause = max(0.0, due - self._monotonic())
                self._condition.wait_for(lambda: self._stopping or self._beat_now, pause)
            self._beat_now = False
            self._begun += 1
            return not self._stopping

    def _rest(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._stopping, self._interval / 3)

    def _join(self, sent: float) -> None:
        status = self._link.call(self._definition)
        joined = self._link.call(JoinGroup(self._group, self._name))
        with self._condition:
            self._member_id, self._interval = joined.member_id, joined.heartbeat_seconds
        self._note(joined.partitions, sent)
        self._events.joined(joined.member_id, status, joined.partitions)

    def _beat(self, member_id: str, sent: float) -> None:
        answer = self._link.call(SendHeartbeat(self._group, member_id, *self._said()))
        self._answered = self._begun
        self._note(answer.partitions, sent)
        self._events.heard(answer.partitions, answer.now.timestamp(), self._monotonic())

    def _note(self, assigned: Sequence[Assigned], sent: float) -> None:
        generations = {own.partition: own.generation for own in assigned}
        if self._out_of_reach:
            self._out_of_reach = False
            _log.warning("The group %s answers again.", self._group)
        with self._condition:
            self._answered_at = sent
            if generations != self._generations:
                self._generations = generations
                self._settled_at = self._monotonic() + _SETTLING_HEARTBEATS * self._interval

    def _lose(self) -> None:
        _log.warning("%s lost its lease in the group %s, and joins again.", self._name, self._group)
        with self._condition:
            self._member_id = None
        self._events.lost()
