"""Parcels over one web socket, many under way at a time, for programs that wait.

Each caller sends its frame itself and waits for its own answer; a thread reads the answers and hands them out. A lost
connection fails all that is under way over it, and the next publish connects anew.
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.protocol import State

from restante.calls.publishing import Publish
from restante.client.sockets.frame_window import (
    NumberedFrame,
    Numbering,
    Outcome,
    UnderWay,
    UnreadableAnswer,
    crowded,
    read_answer,
    told,
    too_long,
    unanswered,
)
from restante.client.sockets.socket_sync import connecting
from restante.client.sockets.sockets import denied
from restante.client.transport.http import closed
from restante.client.transport.http_answers import error_of_response, unreachable
from restante.client.transport.options import Terms
from restante.errors import RestanteError
from restante.model.mailboxes.answers import Receipt


class FrameLink:
    """Publishes from any number of threads. Nothing is repeated here: each call is one attempt."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._numbering = Numbering(terms)
        self._connecting = threading.Lock()
        self._changed = threading.Condition()
        """Guards what follows, and what is under way over each connection."""
        self._line: _Line | None = None
        self._lines: list[_Line] = []
        """All whose thread may still run: the one in use, and those that were given up."""
        self._closed = False

    def call(self, call: Publish) -> Receipt:
        """One frame and its answer. `OutcomeUnknown` if it may have been stored, `Unavailable` if it cannot."""
        frame = self._numbering.frame(call)
        deadline = self._terms.clock() + self._terms.timeout
        promise: Future[Receipt] = Future()
        line, answers_before = self._place(frame.number, promise, deadline)
        silent = False
        try:
            self._send(line, frame, deadline)
            return promise.result(self._left(deadline))
        except TimeoutError:
            silent = line.under_way.answers == answers_before
            raise unanswered(self._terms.address, too_long(self._terms)) from None
        finally:
            self._leave(line, frame.number, silent=silent)

    def close(self) -> None:
        """What is under way fails with `OutcomeUnknown`."""
        with self._changed:
            self._closed = True
            self._line = None
            self._changed.notify_all()
            lines = list(self._lines)
        for line in lines:
            line.hang_up()
        for line in lines:
            line.thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _place(self, number: int, promise: Future[Receipt], deadline: float) -> tuple[_Line, int]:
        """A connection that this frame has room on, and how many answers had come over it before."""
        while True:
            with self._changed:
                if not self._changed.wait_for(self._settled, self._left(deadline)):
                    raise crowded(self._terms.address)
                if self._closed:
                    raise closed()
                line = self._line
                if line is not None and line.usable:
                    line.under_way.put(number, promise)
                    return line, line.under_way.answers
            self._connect(deadline)

    def _settled(self) -> bool:
        """Whether there is room, or no connection that could have some."""
        return self._closed or self._line is None or not (self._line.usable and self._line.under_way.full)

    def _connect(self, deadline: float) -> None:
        """Done by one caller, and waited for by the others."""
        if not self._connecting.acquire(timeout=self._left(deadline)):
            raise unreachable(self._terms.address, too_long(self._terms))
        try:
            if self._closed or (self._line is not None and self._line.usable):
                return
            self._use(self._opened(deadline))
        finally:
            self._connecting.release()

    def _use(self, line: _Line) -> None:
        with self._changed:
            self._lines = [line, *(old for old in self._lines if old.thread.is_alive())]
            line.thread.start()
            if self._closed:
                line.shut()
            else:
                self._line = line

    def _opened(self, deadline: float) -> _Line:
        address = self._terms.address
        try:
            return _Line(self._terms, self._changed, self._left(deadline))
        except InvalidStatus as error:
            raise error_of_response(denied(error), address) from error
        except TimeoutError as error:
            raise unreachable(address, too_long(self._terms)) from error
        except (OSError, WebSocketException) as error:
            raise unreachable(address, told(error)) from error

    def _send(self, line: _Line, frame: NumberedFrame, deadline: float) -> None:
        if not line.sending.acquire(timeout=self._left(deadline)):
            with self._changed:
                line.under_way.withdraw(frame.number)
            raise crowded(self._terms.address)
        try:
            line.connection.send(frame.content)
        except (OSError, WebSocketException):
            # The connection is lost; its thread tells all whom it concerns.
            pass
        except BaseException:
            # Half a frame may have been sent, so nothing can follow it.
            line.shut()
            raise
        finally:
            line.sending.release()

    def _leave(self, line: _Line, number: int, *, silent: bool) -> None:
        """This caller has done. Over a connection that was silent all the time, no new frame is sent."""
        with self._changed:
            line.under_way.forget(number)
            line.given_up = line.given_up or silent
            if line.given_up and self._line is line:
                self._line = None
                self._changed.notify_all()
            if line.given_up and not line.under_way.anybody_waits:
                line.shut()

    def _left(self, deadline: float) -> float:
        return max(deadline - self._terms.clock(), 0)


class _Line:
    """One connection, what is under way over it, and the thread that reads from it."""

    def __init__(self, terms: Terms, changed: threading.Condition, seconds: float) -> None:
        self._address = terms.address
        self._changed = changed
        self._stack = ExitStack()
        self._reason: str | None = None
        self.under_way: UnderWay[Future[Receipt]] = UnderWay()
        self.given_up = False
        """No new frame goes over it. It is cut when nobody waits for an answer any more."""
        self.sending = threading.Lock()
        self.thread = threading.Thread(target=self._read, name="restante-frames", daemon=True)
        self.connection = self._stack.enter_context(connecting(terms.address, seconds))
        # A hub that reads no more must not hold a sender forever. Reading is not concerned: it waits for bytes first.
        self.connection.socket.settimeout(terms.timeout)

    @property
    def usable(self) -> bool:
        return not self.under_way.ended and self.connection.state is State.OPEN

    def hang_up(self) -> None:
        """Politely, unless something is under way: then the hub may be silent, and is not waited for."""
        self._reason = "this program has closed the link"
        if self.under_way.empty:
            self.connection.close()
        else:
            self.shut()

    def shut(self) -> None:
        with suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        """The thread: one answer after another, until the connection is lost."""
        reason = "its answers could not be read"
        try:
            while True:
                self._answer(*read_answer(self.connection.recv()))
        except UnreadableAnswer as error:
            reason = told(error)
        except (OSError, WebSocketException) as error:
            reason = f"the connection was lost ({told(error)})"
        finally:
            self._end(reason)

    def _answer(self, number: int, outcome: Outcome) -> None:
        with self._changed:
            if self.under_way.full:
                self._changed.notify_all()
            promise = self.under_way.answered(number)
        if promise is None:
            return
        if isinstance(outcome, RestanteError):
            promise.set_exception(outcome)
        else:
            promise.set_result(outcome)

    def _end(self, reason: str) -> None:
        with self._changed:
            waiting = self.under_way.end()
            self._changed.notify_all()
        for promise in waiting:
            promise.set_exception(unanswered(self._address, self._reason or reason))
        self._stack.close()
        if self.connection.keepalive_thread is not None:
            self.connection.keepalive_thread.join()
