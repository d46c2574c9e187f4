"""Small calls of several threads, sent together: one of the threads sends for all that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from restante.client.batches.joint_calls import (
    JointBounds,
    JointCall,
    JointOutcome,
    JointQueue,
    concerns_one_call,
    given,
    is_to_be_repeated,
    own_error,
)

T = TypeVar("T")
SendTogether = Callable[[Sequence[bytes]], Sequence[JointOutcome[T]]]


class _Caller(Generic[T]):
    """A thread with its call. It waits until it has its outcome, or until it is its turn to send."""

    __slots__ = ("call", "gone", "leads", "outcome", "thread", "woken")

    def __init__(self, call: JointCall) -> None:
        self.call = call
        self.thread = threading.get_ident()
        self.outcome: JointOutcome[T] | None = None
        self.leads = False
        self.gone = False
        self.woken = threading.Lock()
        self.woken.acquire()

    def hand_over(self) -> JointOutcome[T]:
        assert self.outcome is not None, "it was told, or has sent its call itself"
        outcome, self.outcome = self.outcome, None
        return outcome


class JointCalls(Generic[T]):
    """The calls of all threads that use one link. It has no thread of its own: the caller that comes first sends at once."""

    def __init__(self, send: SendTogether[T], bounds: JointBounds) -> None:
        self._send = send
        self._bounds = bounds
        self._mutex = threading.Lock()
        self._queue: JointQueue[_Caller[T]] = JointQueue(bounds)
        self._leaders: set[int] = set()
        """The threads that send, or were appointed to. Callers wait only while there are as many as `bounds` allow."""

    def carry_out(self, call: JointCall) -> T:
        caller: _Caller[T] = _Caller(call)
        try:
            self._line_up(caller)
            if not caller.leads:
                caller.woken.acquire()
            if caller.leads:
                self._lead(caller)
        finally:
            if caller.leads or caller.outcome is None:
                self._leave(caller)
        return given(caller.hand_over())

    def _line_up(self, caller: _Caller[T]) -> None:
        """A thread that leads already and comes again was kept by an interrupt from passing its turn on: it still has it."""
        with self._mutex:
            if len(self._leaders) < self._bounds.requests or caller.thread in self._leaders:
                self._leaders.add(caller.thread)
                caller.leads = True
            else:
                self._queue.waiting.append(caller)

    def _lead(self, caller: _Caller[T]) -> None:
        """Send its call, and those of others along."""
        with self._mutex:
            callers = [caller, *self._queue.take_along(caller.call)]
        try:
            self._carry(callers)
        finally:
            self._release(callers[1:])

    def _carry(self, callers: Sequence[_Caller[T]]) -> None:
        try:
            answers = self._send([caller.call.text for caller in callers])
        except Exception as error:  # noqa: BLE001 - any error belongs to the callers
            if len(callers) > 1 and concerns_one_call(error):
                for caller in callers:
                    self._carry((caller,))
                return
            for caller in callers:
                caller.outcome = own_error(error)
        else:
            for caller, answer in zip(callers, answers, strict=True):
                if len(callers) > 1 and is_to_be_repeated(answer):
                    self._carry((caller,))
                else:
                    caller.outcome = answer

    def _release(self, callers: Sequence[_Caller[T]]) -> None:
        """Wake callers that have their outcome. If the sender was interrupted, others wait on: repeating a call does no harm."""
        with self._mutex:
            lost = [caller for caller in callers if caller.outcome is None and not caller.gone]
            self._queue.put_back(lost)
            for caller in callers:
                if caller.outcome is not None:
                    caller.woken.release()

    def _leave(self, caller: _Caller[T]) -> None:
        """Pass the turn to send on, if this caller has it. A caller that was interrupted while it waited leaves the line."""
        with self._mutex:
            caller.gone = True
            if caller.leads:
                self._leaders.discard(caller.thread)
                self._appoint()
            elif caller in self._queue.waiting:
                self._queue.waiting.remove(caller)

    def _appoint(self) -> None:
        if self._queue.waiting and len(self._leaders) < self._bounds.requests:
            following = self._queue.waiting.popleft()
            self._leaders.add(following.thread)
            following.leads = True
            following.woken.release()
