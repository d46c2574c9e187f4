"""Parcels over one web socket for asynchronous programs: `restante.client.sockets.frame_link_sync` with tasks for threads."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from websockets.asyncio.client import ClientConnection
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
    is_small,
    read_answer,
    told,
    too_long,
    unanswered,
)
from restante.client.sockets.socket_async import connecting
from restante.client.sockets.sockets import denied
from restante.client.transport.address import HubAddress
from restante.client.transport.http import closed
from restante.client.transport.http_answers import error_of_response, unreachable
from restante.client.transport.options import Terms
from restante.errors import RestanteError
from restante.model.mailboxes.answers import Receipt


class AsyncFrameLink:
    """Publishes from any number of tasks of one event loop. Nothing is repeated here: each call is one attempt."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._numbering = Numbering(terms)
        self._connecting = asyncio.Lock()
        self._line: _Line | None = None
        self._lines: list[_Line] = []
        """All whose task may still run: the one in use, and those that were given up."""
        self._closed = False

    async def call(self, call: Publish) -> Receipt:
        """One frame and its answer. `OutcomeUnknown` if it may have been stored, `Unavailable` if it cannot."""
        frame = self._numbering.frame
        numbered = frame(call) if is_small(call.sent) else await asyncio.to_thread(frame, call)
        deadline = asyncio.get_running_loop().time() + self._terms.timeout
        return await self._exchange(await self._room(deadline), numbered, deadline)

    async def close(self) -> None:
        """What is under way fails with `OutcomeUnknown`."""
        self._closed = True
        self._line = None
        for line in self._lines:
            await line.hang_up()
        if self._lines:
            # Who is cancelled here has only stopped waiting: the tasks end all the same.
            await asyncio.wait([line.task for line in self._lines])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _room(self, deadline: float) -> _Line:
        """A connection with room for a frame, for as long as the caller does not wait for anything else."""
        line: _Line | None = None
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    if self._closed:
                        raise closed()
                    line = self._line
                    if line is None or not line.usable:
                        await self._connect()
                    elif line.under_way.full:
                        await line.progress.wait()
                    else:
                        return line
        except TimeoutError:
            if line is not None and line.usable:
                raise crowded(self._terms.address) from None
            raise unreachable(self._terms.address, too_long(self._terms)) from None

    async def _connect(self) -> None:
        """Done by one caller, and waited for by the others; if it is cancelled, the next one does it."""
        async with self._connecting:
            if self._closed or (self._line is not None and self._line.usable):
                return
            self._use(_Line(self._terms.address, await self._opened()))

    def _use(self, line: _Line) -> None:
        self._lines = [line, *(old for old in self._lines if not old.task.done())]
        if self._closed:
            line.shut()
        else:
            self._line = line

    async def _opened(self) -> ClientConnection:
        address = self._terms.address
        try:
            return await connecting(address)
        except InvalidStatus as error:
            raise error_of_response(denied(error), address) from error
        except (OSError, WebSocketException) as error:
            raise unreachable(address, told(error)) from error

    async def _exchange(self, line: _Line, frame: NumberedFrame, deadline: float) -> Receipt:
        promise: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        line.under_way.put(frame.number, promise)
        answers_before = line.under_way.answers
        silent = False
        try:
            async with asyncio.timeout_at(deadline):
                await line.send(frame)
                return await promise
        except TimeoutError:
            silent = line.under_way.answers == answers_before
            raise unanswered(self._terms.address, too_long(self._terms)) from None
        finally:
            self._leave(line, frame.number, silent=silent)

    def _leave(self, line: _Line, number: int, *, silent: bool) -> None:
        """This caller has done. Over a connection that was silent all the time, no new frame is sent."""
        line.under_way.forget(number)
        line.given_up = line.given_up or silent
        if line.given_up and self._line is line:
            self._line = None
            line.progressed()
        if line.given_up and not line.under_way.anybody_waits:
            line.shut()


class _Line:
    """One connection, what is under way over it, and the task that reads from it."""

    def __init__(self, address: HubAddress, connection: ClientConnection) -> None:
        self._address = address
        self._connection = connection
        self._reason: str | None = None
        self.under_way: UnderWay[asyncio.Future[Receipt]] = UnderWay()
        self.given_up = False
        """No new frame goes over it. It is cut when nobody waits for an answer any more."""
        self.progress = asyncio.Event()
        """Set when there is room again, or never will be; who waits again waits for the next one."""
        self.task = asyncio.create_task(self._read(), name="restante-frames")

    @property
    def usable(self) -> bool:
        return not self.under_way.ended and self._connection.state is State.OPEN

    async def send(self, frame: NumberedFrame) -> None:
        """The whole frame is taken at once; to be cancelled here is only to stop waiting until it has left."""
        # If the connection is lost, its task tells all whom it concerns.
        with suppress(OSError, WebSocketException):
            await self._connection.send(frame.content)

    async def hang_up(self) -> None:
        """Politely, unless something is under way: then the hub may be silent, and is not waited for."""
        self._reason = "this program has closed the link"
        if self.under_way.empty:
            await self._connection.close()
        else:
            self.shut()

    def shut(self) -> None:
        self._connection.transport.abort()

    def progressed(self) -> None:
        told_now, self.progress = self.progress, asyncio.Event()
        told_now.set()

    async def _read(self) -> None:
        """The task: one answer after another, until the connection is lost."""
        reason = "its answers could not be read"
        try:
            while True:
                self._answer(*read_answer(await self._connection.recv()))
        except UnreadableAnswer as error:
            reason = told(error)
        except (OSError, WebSocketException) as error:
            reason = f"the connection was lost ({told(error)})"
        finally:
            self._end(reason)
            self.shut()
            await self._connection.wait_closed()

    def _answer(self, number: int, outcome: Outcome) -> None:
        was_full = self.under_way.full
        promise = self.under_way.answered(number)
        if was_full:
            self.progressed()
        if promise is not None:
            _keep(promise, outcome)

    def _end(self, reason: str) -> None:
        for promise in self.under_way.end():
            _keep(promise, unanswered(self._address, self._reason or reason))
        self.progressed()


def _keep(promise: asyncio.Future[Receipt], outcome: Outcome) -> None:
    if promise.done():
        return
    if isinstance(outcome, RestanteError):
        promise.set_exception(outcome)
        # Looked at here, for a caller that is cancelled just now never does, and that is no defect to be logged.
        promise.exception()
    else:
        promise.set_result(outcome)
