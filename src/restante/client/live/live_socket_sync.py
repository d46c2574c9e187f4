"""Live connections over a web socket for programs that wait.

The library does not read while it writes, and a hub stops reading from a client that does not read, so the two could wait
for each other. So a separate thread writes, and reading goes on meanwhile.
"""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from restante.client.live.live_sockets import SocketDoor, deliver
from restante.limits import LIVE_SILENCE_SECONDS
from restante.model.publishing.message import Message
from restante.wire.live import encode_collect, encode_send
from restante.wire.live_lines import LiveTaker


class SyncSocketDoor(SocketDoor):
    def connect(self, taker: LiveTaker, *, after: int | None, owner: str | None) -> SocketLine:
        address, stack = self.address(owner), ExitStack()
        try:
            opening = connect(
                self.url(address, after),
                create_connection=_Connection,
                open_timeout=self.terms.places.patience(self.terms.timeout),
                ping_interval=None,
                **self.options(address),
            )
            connection = stack.enter_context(opening)
        except (OSError, WebSocketException) as error:
            stack.close()
            raise self.refusal(error, address) from error
        # A hub that no longer reads must not block the writer for ever. The timeout does not affect reading, which waits first.
        with suppress(OSError):  # A connection that is closed already may still have frames to read.
            connection.socket.settimeout(self.terms.timeout)
        return SocketLine(connection, taker, stack)


class SocketLine:
    def __init__(self, connection: ClientConnection, taker: LiveTaker, stack: ExitStack) -> None:
        self._connection = connection
        self._taker = taker
        self._stack = stack
        self._left = False
        self._alive: threading.Event | None = None
        """The pong that answers the last ping."""

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
        """The next frame; None if the hub was silent for some time."""
        try:
            return self._connection.recv(LIVE_SILENCE_SECONDS, decode=False)
        except TimeoutError:
            return None

    def _say(self, text: str) -> None:
        # If the connection is lost, `run` ends, and the next connection sends the item again.
        with suppress(OSError, WebSocketException):
            self._connection.send(text)


class _Connection(ClientConnection):
    """Writes in a separate thread. The bounds on unanswered items bound its queue."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - the library's own signature
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        super().__init__(*arguments, **options)

    def send_data(self) -> None:
        if self.protocol.state is State.CONNECTING:
            super().send_data()
            return
        for data in self.protocol.data_to_send():
            self._outbox.put(data)
        if self._writer is None:
            writer = threading.Thread(target=self._write, name="restante-live-writer", daemon=True)
            writer.start()
            self._writer = writer

    def close_socket(self) -> None:
        self._outbox.put(None)
        writer = self._writer
        if writer is not None and writer is not threading.current_thread():
            # Closing the socket would not wake the writer. Call the method of the base class: that of a TLS socket would
            # turn it into a plain socket first, to which the writer would then write unencrypted.
            with suppress(OSError):
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
            writer.join()
        super().close_socket()

    def _write(self) -> None:
        try:
            while (data := self._outbox.get()) is not None:
                if data:
                    self.socket.sendall(data)
                else:
                    self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            with self.protocol_mutex:
                self.set_connection_exc(error)
            self.close_socket()
