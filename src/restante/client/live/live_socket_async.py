"""Live connections over a web socket for asynchronous programs.

The library takes about thirty microseconds for each frame. A hub pushes whole text frames, many in one write. So
`_QuickConnection` cuts whole text frames out of the received bytes itself, and leaves all other frames to the library.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.frames import DATA_OPCODES, Frame
from websockets.protocol import Event, State

from restante.client.live.live_sockets import SocketDoor, deliver
from restante.limits import LIVE_CLOSE_SECONDS, LIVE_PUSHED_BYTES_MAX, LIVE_SILENCE_SECONDS
from restante.model.publishing.message import Message
from restante.wire.live import encode_collect, encode_send
from restante.wire.live_lines import LiveTaker

_WHOLE_TEXT = 0x81
_SHORT = 125
_WIDE = {126: 2, 127: 8}
"""The number of bytes of an extended length, by the code in the short length field."""
_HEAD_END = b"\r\n\r\n"


class AsyncSocketDoor(SocketDoor):
    async def connect(self, taker: LiveTaker, *, after: int | None, owner: str | None) -> AsyncSocketLine:
        address = self.address(owner)
        opening = connect(
            self.url(address, after),
            create_connection=_QuickConnection,
            open_timeout=self.terms.places.patience(self.terms.timeout),
            ping_interval=LIVE_SILENCE_SECONDS,
            **self.options(address),
        )
        try:
            connection = await opening
        except (OSError, WebSocketException) as error:
            raise self.refusal(error, address) from error
        assert isinstance(connection, _QuickConnection), "it was made so"
        return AsyncSocketLine(connection, taker)


class AsyncSocketLine:
    def __init__(self, connection: _QuickConnection, taker: LiveTaker) -> None:
        self._connection = connection
        self._taker = taker
        self._leaving: asyncio.Task[None] | None = None

    async def run(self) -> str:
        self._connection.attach(self._taker)
        await self._connection.wait_closed()
        return f"the connection was lost ({self._connection.why_lost})"

    async def send(self, request: int, message: Message) -> None:
        await self._say(encode_send(request, message))

    async def collect(self, sequence_number: int) -> None:
        await self._say(encode_collect(sequence_number))

    def go_on(self) -> None:
        self._connection.go_on()

    def leave(self) -> None:
        self._leaving = self._leaving or asyncio.create_task(self.close(), name="restante-live-leaving")

    async def close(self) -> None:
        self._connection.detach()
        with suppress(OSError, WebSocketException):
            try:
                async with asyncio.timeout(LIVE_CLOSE_SECONDS):
                    await self._connection.close()
            except TimeoutError:
                # With a hub that does not read, the close frame waits after all others, so closing would block.
                self._connection.transport.abort()
                await self._connection.wait_closed()

    async def _say(self, text: str) -> None:
        # If the connection is lost, `run` ends, and the next connection sends the item again.
        with suppress(OSError, WebSocketException):
            await self._connection.send(text)


class _QuickConnection(ClientConnection):
    """Hands whole text frames to a taker without the library."""

    _taker: LiveTaker | None = None
    _deaf = False
    """Whether received frames are dropped."""
    _rest = b""
    """The beginning of an incomplete frame, or everything received before a taker was attached."""
    _head = b""
    """The last bytes of the incomplete handshake response."""
    _by_library = True
    """Whether the library handles all received bytes."""
    _parts: tuple[bytes, ...] = ()
    """The fragments of an incomplete message."""
    _still = False
    _silent = False
    """Whether nothing has been received since `keepalive` last looked."""
    _gave_up = False

    def attach(self, taker: LiveTaker) -> None:
        self._taker = taker
        rest, self._rest = self._rest, b""
        self._cut(rest)

    def detach(self) -> None:
        """Drop all further frames, but keep reading."""
        self._deaf = True
        self.go_on()

    def go_on(self) -> None:
        if self._still:
            self._still = self._silent = False
            self.transport.resume_reading()

    @property
    def why_lost(self) -> str:
        if self._gave_up:
            return f"nothing came for {2 * LIVE_SILENCE_SECONDS:g} s"
        return str(self.close_exc)

    def data_received(self, data: bytes) -> None:
        self._silent = False
        if self._by_library:
            data = self._leave_to_library(data)
        if self._taker is None and not self._deaf:
            self._rest += data
        elif data:
            self._cut(self._rest + data if self._rest else data)

    def process_event(self, event: Event) -> None:
        """Join fragmented messages; leave all else to the library."""
        if not isinstance(event, Frame) or event.opcode not in DATA_OPCODES:
            super().process_event(event)
            return
        self._parts = (*self._parts, bytes(event.data))
        if event.fin:
            frame, self._parts = b"".join(self._parts), ()
            self._take(frame)

    async def keepalive(self) -> None:
        """Ping the hub when nothing is received; not while reading is paused, because the pong could not be read."""
        asked = False
        while True:
            self._silent = True
            await asyncio.sleep(LIVE_SILENCE_SECONDS)
            if self._still or not self._silent:
                asked = False
            elif asked:
                self._gave_up = True
                self.transport.abort()
                return
            else:
                asked = True
                await self.ping()

    def _leave_to_library(self, data: bytes) -> bytes:
        """Give the handshake response to the library; return the bytes after it once the connection is open."""
        end = (self._head + data).find(_HEAD_END) if self.protocol.state is State.CONNECTING else -1
        if end < 0:
            self._head = (self._head + data)[1 - len(_HEAD_END) :]
            super().data_received(data)
            return b""
        border = end + len(_HEAD_END) - len(self._head)
        super().data_received(data[:border])
        if self.protocol.state is State.OPEN:
            self._by_library = False
            return data[border:]
        if data[border:]:
            super().data_received(data[border:])  # The body of a refusal.
        return b""

    def _cut(self, data: bytes) -> None:
        """Take whole frames one after another, and keep the beginning of the next."""
        start, end = 0, len(data)
        while end - start >= 2:
            length, body = data[start + 1], start + 2
            if length > _SHORT:
                wide = _WIDE.get(length)
                if wide is None or (length := int.from_bytes(data[body : body + wide])) > LIVE_PUSHED_BYTES_MAX:
                    # No hub sends such a frame. The library reports the error, and ends the connection.
                    self._by_library, start = True, end
                    super().data_received(data[body - 2 :])
                    break
                body += wide
            stop = body + length
            if stop > end:
                break
            if data[start] == _WHOLE_TEXT:
                self._take(data[body:stop])
            else:
                super().data_received(data[start:stop])
            start = stop
        self._rest = data[start:]

    def _take(self, frame: bytes) -> None:
        if self._taker is not None and not self._deaf and not deliver(self._taker, frame) and not self._still:
            self._still = True
            self.transport.pause_reading()
