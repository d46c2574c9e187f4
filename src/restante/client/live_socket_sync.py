"""Live connections over a web socket for programs that wait."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from restante.client.live_sockets import SocketDoor, deliver
from restante.limits import LIVE_SILENCE_SECONDS
from restante.model.message import Message
from restante.wire.live import encode_collect, encode_send
from restante.wire.live_lines import LiveTaker


class SyncSocketDoor(SocketDoor):
    def connect(self, taker: LiveTaker, *, after: int | None, owner: str | None) -> SocketLine:
        address, stack = self.address(owner), ExitStack()
        try:
            opening = connect(
                self.url(address, after), open_timeout=self.terms.timeout, ping_interval=None, **self.options(address)
            )
            connection = stack.enter_context(opening)
        except (OSError, WebSocketException) as error:
            stack.close()
            raise self.refusal(error, address) from error
        # A hub that reads no more must not hold a sender forever. Reading is not concerned: it waits for bytes first.
        with suppress(OSError):  # It may be closed already: what came before that is still to be read.
            connection.socket.settimeout(self.terms.timeout)
        return SocketLine(connection, taker, stack)


class SocketLine:
    def __init__(self, connection: ClientConnection, taker: LiveTaker, stack: ExitStack) -> None:
        self._connection = connection
        self._taker = taker
        self._stack = stack
        self._left = False
        self._alive: threading.Event | None = None
        """The answer to the last sign of life that was asked for."""

    def run(self) -> str:
        try:
            while not self._left:
                frame = self._next()
                if frame is not None:
                    deliver(self._taker, frame)
                elif self._alive is not None and not self._alive.is_set():
                    return f"the connection was lost (nothing came for {2 * LIVE_SILENCE_SECONDS:g} s)"
                else:
                    self._alive = self._connection.ping()
        except (OSError, WebSocketException) as error:
            return f"the connection was lost ({error})"
        return "the hub ended it"

    def send(self, request: int, message: Message) -> None:
        self._say(encode_send(request, message))

    def collect(self, sequence_number: int) -> None:
        self._say(encode_collect(sequence_number))

    def leave(self) -> None:
        self._left = True

    def close(self) -> None:
        with suppress(OSError, WebSocketException):
            self._stack.close()

    def _next(self) -> bytes | None:
        """The next frame; None if none came for some time."""
        try:
            return self._connection.recv(LIVE_SILENCE_SECONDS, decode=False)
        except TimeoutError:
            return None

    def _say(self, text: str) -> None:
        # If the connection is lost, `run` ends, and it is said again over the next.
        with suppress(OSError, WebSocketException):
            self._connection.send(text)
