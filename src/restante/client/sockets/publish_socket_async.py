"""`AsyncPublishSocket`, the client of the publish socket for asynchronous programs.

It sends frames over one web socket, with at most `window` under way. A task reads the answers of a connection and hands them
to the callers. When a connection is lost, all its frames fail, and the next frame connects again. `publish_socket_sync` is
the same with threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.protocol import State

from restante.calls.publishing import Publish
from restante.client.concurrency.waits_async import AsyncCondition
from restante.client.sockets.frame_window import UnderWay, crowded
from restante.client.sockets.frames import PATH, Framing, UnreadableAnswer, is_small, lost, read_answer
from restante.client.sockets.sockets import denied, failure_of, refused
from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import Failure, LinkFrame, LongWork, Pause, Reply, Response, Step
from restante.client.transport.http import closed
from restante.client.transport.options import Terms
from restante.limits import LINK_FRAMES_MAX
from restante.model.mailboxes.answers import Receipt


class AsyncPublishSocket(Framing):
    """Sends frames for any number of tasks of one event loop. A pipeline uses a window of 1, a producer a wide one."""

    def __init__(self, terms: Terms, window: int = LINK_FRAMES_MAX) -> None:
        super().__init__(terms)
        self._window = window
        self._connecting = asyncio.Lock()
        self._changed = AsyncCondition()
        """Notified when a connection has room again, or has ended."""
        self._line: _Line | None = None
        self._lines: list[_Line] = []
        """All connections whose task may still run: the one in use, and others that were given up."""
        self._closed = False

    async def call(self, call: Publish) -> Receipt:
        """Send one frame in one attempt. Raises `OutcomeUnknown` if it may have been stored, `Unavailable` if not."""
        frame = self.frame(call) if is_small(call.sent) else await asyncio.to_thread(self.frame, call)
        return self.receipt_of(await self._exchange(frame))

    async def perform(self, step: Step, meanwhile: Callable[[], None]) -> Any:  # noqa: ANN401 - as the step
        """Carry out a step of `deliver`. Calls `meanwhile` between sending a frame and waiting for its answer."""
        if isinstance(step, LinkFrame):
            return await self._exchange(step, meanwhile)
        if isinstance(step, LongWork):
            return await asyncio.to_thread(step.function)
        assert isinstance(step, Pause)
        return await asyncio.sleep(step.seconds)

    async def close(self) -> None:
        """Close the socket. Sends under way fail; they may have been stored."""
        self._closed = True
        self._line = None
        for line in self._lines:
            await line.hang_up()
        if self._lines:
            # If the caller is cancelled here, the tasks still end.
            await asyncio.wait([line.task for line in self._lines])

    async def _exchange(self, frame: LinkFrame, meanwhile: Callable[[], None] | None = None) -> Reply:
        """Send a frame and wait for its answer. Its timeout covers connecting, waiting for room, sending and answering."""
        sent: _Line | None = None
        answers_before, silent = 0, False
        try:
            async with asyncio.timeout(frame.timeout):
                line = await self._room()
                promise = line.put(frame.number)
                sent, answers_before = line, line.under_way.answers
                await line.send(frame)
                if meanwhile is not None:
                    meanwhile()
                return await promise
        except InvalidStatus as error:
            return denied(error)
        except (OSError, WebSocketException) as error:
            if isinstance(error, TimeoutError):
                if sent is not None:
                    silent = sent.under_way.answers == answers_before
                elif self._line is not None and self._line.usable:
                    raise crowded(self._terms.address) from None
            return failure_of(error, frame, reached=sent is not None)
        finally:
            if sent is not None:
                self._leave(sent, frame.number, silent=silent)

    async def _room(self) -> _Line:
        """A connection with room for a frame. The room is certain only until the caller's next `await`."""
        while True:
            if self._closed:
                raise closed()
            line = self._line
            if line is None or not line.usable:
                await self._connect()
            elif line.under_way.full:
                await self._changed.wait()
            else:
                return line

    async def _connect(self) -> None:
        """Open a connection. One caller does it while others wait; if it is cancelled, the next one does it."""
        async with self._connecting:
            if self._closed or (self._line is not None and self._line.usable):
                return
            place = self._terms.places.place_for(PATH)
            try:
                connection = await _connecting(place, self._terms.places.patience(self._terms.timeout))
            except (OSError, WebSocketException) as error:
                self._terms.places.heard(place, refused(error))
                raise
            self._use(_Line(connection, self._changed, self._window))

    def _use(self, line: _Line) -> None:
        self._lines = [line, *(old for old in self._lines if not old.task.done())]
        if self._closed:
            line.shut()
        else:
            self._line = line

    def _leave(self, line: _Line, number: int, *, silent: bool) -> None:
        """Note that a caller is done. If the connection was silent all the time, no new frame is sent over it."""
        line.under_way.forget(number)
        line.given_up = line.given_up or silent
        if line.given_up and self._line is line:
            self._line = None
            self._changed.notify_all()
        if line.given_up and not line.under_way.anybody_waits:
            line.shut()


class _Line:
    """One connection, its unanswered frames, and the task that reads its answers."""

    def __init__(self, connection: ClientConnection, changed: AsyncCondition, window: int) -> None:
        self._connection = connection
        self._changed = changed
        self._failure: Failure | None = None
        self.under_way: UnderWay[asyncio.Future[Reply]] = UnderWay(window)
        self.given_up = False
        """Whether no new frame is sent over this connection. It is cut when no caller waits for an answer any more."""
        self.task = asyncio.create_task(self._read(), name="restante-frames")

    @property
    def usable(self) -> bool:
        return not self.under_way.ended and self._connection.state is State.OPEN

    def put(self, number: int) -> asyncio.Future[Reply]:
        promise: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.under_way.put(number, promise)
        return promise

    async def send(self, frame: LinkFrame) -> None:
        """Send a frame. The library takes all of it at once, so cancelling this call does not cut the frame off."""
        # If the connection is lost, its task fails all waiting callers.
        with suppress(OSError, WebSocketException):
            await self._connection.send(frame.content)

    async def hang_up(self) -> None:
        """Close the connection: with a handshake if nothing is under way, else at once, because the hub may be silent."""
        self._failure = Failure("this program has closed the link", reached=True)
        if self.under_way.empty:
            await self._connection.close()
        else:
            self.shut()

    def shut(self) -> None:
        self._connection.transport.abort()

    async def _read(self) -> None:
        """The task: read one answer after another until the connection is lost."""
        failure = Failure("its answers could not be read", reached=True)
        try:
            while True:
                self._answer(*read_answer(await self._connection.recv(decode=False)))
        except (OSError, WebSocketException, UnreadableAnswer) as error:
            failure = lost(error)
        finally:
            for promise in self.under_way.end():
                _keep(promise, self._failure or failure)
            self._changed.notify_all()
            self.shut()
            await self._connection.wait_closed()

    def _answer(self, number: int, response: Response) -> None:
        if self.under_way.full:
            self._changed.notify_all()
        promise = self.under_way.answered(number)
        if promise is not None:
            _keep(promise, response)


def _keep(promise: asyncio.Future[Reply], reply: Reply) -> None:
    if not promise.done():
        promise.set_result(reply)


def _connecting(address: HubAddress, seconds: float) -> connect:
    """Connect a web socket to the hub for frames. The awaiting caller limits the time."""
    return connect(
        address.socket_url + PATH,
        additional_headers=address.credentials(),
        compression=None,
        proxy=None if address.local else True,
        open_timeout=seconds,
        close_timeout=1,
    )
