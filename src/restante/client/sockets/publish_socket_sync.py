"""`PublishSocket`, the client of the publish socket for programs that wait.

It sends frames over one web socket, with at most `window` under way. Each caller sends its own frame. With a window of 1 it
also reads the answer; with a wider one, a thread reads the answers of a connection and hands them to the callers. When a
connection is lost, all its frames fail, and the next frame connects again.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from restante.calls.publishing import Publish
from restante.client.sockets.frame_window import UnderWay, crowded
from restante.client.sockets.frames import PATH, Framing, UnreadableAnswer, lost, read_answer
from restante.client.sockets.sockets import denied, failure_of, refused
from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import Failure, LinkFrame, LongWork, Pause, Reply, Response, Step
from restante.client.transport.http import closed
from restante.client.transport.options import Terms
from restante.limits import LINK_FRAMES_MAX
from restante.model.mailboxes.answers import Receipt

_UNREAD = Failure("its answers could not be read", reached=True)


class PublishSocket(Framing):
    """Sends frames for any number of threads. A pipeline uses a window of 1, a producer a wide one."""

    def __init__(self, terms: Terms, window: int = LINK_FRAMES_MAX) -> None:
        super().__init__(terms)
        self._window = window
        self._connecting = threading.Lock()
        self._changed = threading.Condition()
        """Guards the attributes below, and `under_way` of each connection."""
        self._line: _Line | None = None
        self._lines: list[_Line] = []
        """All connections that may still be open: the one in use, and others that were given up."""
        self._closing = threading.Event()

    def call(self, call: Publish) -> Receipt:
        """Send one frame in one attempt. Raises `OutcomeUnknown` if it may have been stored, `Unavailable` if not."""
        return self.receipt_of(self._exchange(self.frame(call)))

    def perform(self, step: Step, meanwhile: Callable[[], None]) -> Any:  # noqa: ANN401 - as the step
        """Carry out a step of `deliver`. Calls `meanwhile` between sending a frame and waiting for its answer."""
        if isinstance(step, LinkFrame):
            return self._exchange(step, meanwhile)
        if isinstance(step, LongWork):
            return step.function()
        assert isinstance(step, Pause)
        return self._closing.wait(step.seconds)

    def close(self) -> None:
        """Close the socket. Sends under way fail; they may have been stored."""
        with self._changed:
            self._closing.set()
            self._line = None
            self._changed.notify_all()
            lines = list(self._lines)
        for line in lines:
            line.hang_up()
        for line in lines:
            line.join()

    def _exchange(self, frame: LinkFrame, meanwhile: Callable[[], None] | None = None) -> Reply:
        """Send a frame and wait for its answer. Its timeout covers connecting, waiting for room, sending and answering."""
        deadline = self._terms.clock() + frame.timeout
        promise = _Promise()
        try:
            line, answers_before = self._place(frame.number, promise, deadline)
        except InvalidStatus as error:
            return denied(error)
        except (OSError, WebSocketException) as error:
            return failure_of(error, frame, reached=False)
        silent = False
        try:
            self._send(line, frame, deadline)
            if meanwhile is not None:
                meanwhile()
            return line.wait(promise, self._left(deadline))
        except TimeoutError as error:
            silent = line.read_by_callers or line.under_way.answers == answers_before
            return failure_of(error, frame, reached=True)
        finally:
            self._leave(line, frame.number, silent=silent)

    def _place(self, number: int, promise: _Promise, deadline: float) -> tuple[_Line, int]:
        """Put the frame on a connection with room; return the connection, and how many answers had come over it before."""
        while True:
            with self._changed:
                if not self._changed.wait_for(self._settled, self._left(deadline)):
                    raise crowded(self._terms.address)
                if self._closing.is_set():
                    raise closed()
                line = self._line
                if line is not None and line.usable:
                    line.under_way.put(number, promise)
                    return line, line.under_way.answers
            self._connect(deadline)

    def _settled(self) -> bool:
        """Whether there is nothing to wait for: there is room, or no usable connection."""
        return self._closing.is_set() or self._line is None or not (self._line.usable and self._line.under_way.full)

    def _connect(self, deadline: float) -> None:
        """Open a connection. One caller does it while others wait."""
        if not self._connecting.acquire(timeout=self._left(deadline)):
            raise TimeoutError
        try:
            if self._closing.is_set() or (self._line is not None and self._line.usable):
                return
            self._use(_Line(self._terms, self._changed, self._window, self._left(deadline)))
        finally:
            self._connecting.release()

    def _use(self, line: _Line) -> None:
        with self._changed:
            self._lines = [line, *(old for old in self._lines if not old.is_done())]
            line.start()
            if self._closing.is_set():
                line.shut()
            else:
                self._line = line

    def _send(self, line: _Line, frame: LinkFrame, deadline: float) -> None:
        if not line.sending.acquire(timeout=self._left(deadline)):
            with self._changed:
                line.under_way.withdraw(frame.number)
            raise crowded(self._terms.address)
        try:
            line.connection.send(frame.content)
        except (OSError, WebSocketException):
            # The connection is lost; its reader fails all waiting callers.
            pass
        except BaseException:
            # Half a frame may have been sent, so nothing can follow it.
            line.shut()
            raise
        finally:
            line.sending.release()

    def _leave(self, line: _Line, number: int, *, silent: bool) -> None:
        """Note that a caller is done. If the connection was silent all the time, no new frame is sent over it.

        Where callers read, nobody would read a late answer, so an answer that is not there in time counts as silence.
        """
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


class _Promise:
    """The future reply to a frame. A lock takes a tenth of the time of a `Future`."""

    __slots__ = ("_lock", "reply")

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def keep(self, reply: Reply) -> None:
        self.reply = reply
        self._lock.release()

    def wait(self, seconds: float) -> Reply:
        if not self._lock.acquire(timeout=seconds):
            raise TimeoutError
        assert self.reply is not None, "it was kept"
        return self.reply


class _Line:
    """One connection, its unanswered frames, and the thread that reads its answers, unless callers do."""

    def __init__(self, terms: Terms, changed: threading.Condition, window: int, seconds: float) -> None:
        self._changed = changed
        self._stack = ExitStack()
        self._failure: Failure | None = None
        self.under_way: UnderWay[_Promise] = UnderWay(window)
        self.given_up = False
        """Whether no new frame is sent over this connection. It is cut when no caller waits for an answer any more."""
        self.sending = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="restante-frames", daemon=True) if window > 1 else None
        place = terms.places.place_for(PATH)
        try:
            self.connection = self._stack.enter_context(_connecting(place, terms.places.patience(seconds)))
        except (OSError, WebSocketException) as error:
            terms.places.heard(place, refused(error))
            raise
        # A hub that no longer reads must not block a sender for ever. The timeout does not affect reading, which waits first.
        self.connection.socket.settimeout(terms.timeout)

    @property
    def usable(self) -> bool:
        return not self.under_way.ended and self.connection.state is State.OPEN

    @property
    def read_by_callers(self) -> bool:
        return self._thread is None

    def start(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def wait(self, promise: _Promise, seconds: float) -> Reply:
        """Wait for the reply to a frame. Without a thread, the caller reads until it has come."""
        while self._thread is None and promise.reply is None:
            self._read_one(seconds)
        return promise.wait(seconds)

    def hang_up(self) -> None:
        """Close the connection: with a handshake if nothing is under way, else at once, because the hub may be silent."""
        self._failure = Failure("this program has closed the link", reached=True)
        if self.under_way.empty:
            self.connection.close()
        else:
            self.shut()

    def shut(self) -> None:
        with suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)

    def is_done(self) -> bool:
        """Whether the connection has ended completely. Without a thread, an unused lost connection is ended here."""
        if self._thread is not None:
            return not self._thread.is_alive()
        if self.under_way.empty:
            self._end(_UNREAD)
        return self.under_way.ended

    def join(self) -> None:
        """Wait until the connection has ended completely, after `hang_up`."""
        if self._thread is not None:
            self._thread.join()
        else:
            self.is_done()

    def _read(self) -> None:
        """The thread: read one answer after another until the connection is lost."""
        while not self.under_way.ended:
            self._read_one()

    def _read_one(self, seconds: float | None = None) -> None:
        """Hand out the next answer, or fail all frames under way if the connection is lost."""
        try:
            self._answer(*read_answer(self.connection.recv(seconds, decode=False)))
        except TimeoutError:
            raise
        except (OSError, WebSocketException, UnreadableAnswer) as error:
            self._end(lost(error))
        except BaseException:
            self._end(_UNREAD)
            raise

    def _answer(self, number: int, response: Response) -> None:
        with self._changed:
            if self.under_way.full:
                self._changed.notify_all()
            promise = self.under_way.answered(number)
        if promise is not None:
            promise.keep(response)

    def _end(self, failure: Failure) -> None:
        with self._changed:
            waiting = self.under_way.end()
            self._changed.notify_all()
        for promise in waiting:
            promise.keep(self._failure or failure)
        self._stack.close()
        if self.connection.keepalive_thread is not None:
            self.connection.keepalive_thread.join()


def _connecting(address: HubAddress, seconds: float) -> AbstractContextManager[ClientConnection]:
    """Connect a web socket to the hub for frames, as a context."""
    return connect(
        address.socket_url + PATH,
        additional_headers=address.credentials(),
        compression=None,
        proxy=None if address.local else True,
        open_timeout=seconds,
        close_timeout=1,
    )
