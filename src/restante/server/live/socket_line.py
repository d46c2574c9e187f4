"""A web socket as the line to a client: encoded frames go straight into the transport, many with one write."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from restante.limits import LIVE_SOCKET_BYTES
from restante.model.live.live_queue import Counted
from restante.server.connections.corked_transport import bare
from restante.server.connections.exchange import ClientGone, Exchange
from restante.server.connections.socket_protocol import Socket, text_head
from restante.server.live.live_rows import LiveRows
from restante.wire.live import MESSAGE_HEAD, Disconnected, message_frame

CLOSE_CODES: Final[dict[Disconnected, int]] = {
    "draining": 1001,
    "moved": 1001,
    "idle": 1001,
    "token_expired": 1008,
    "protocol_error": 1002,
    "failed": 1011,
}

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""Replaces line breaks, which are white space in JSON but would end a line of an event."""


def bound_buffer(transport: asyncio.BaseTransport) -> None:
    """Bound the system's send buffer for a client that does not read: it takes memory, and delays newer messages."""
    system = transport.get_extra_info("socket")
    if system is not None:
        with suppress(OSError):
            system.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LIVE_SOCKET_BYTES)


class ServerLine:
    """One accepted web socket as a line."""

    def __init__(self, own: Socket, exchange: Exchange, frame_bytes_max: int) -> None:
        self._socket = own
        self._transport = bare(own.transport)
        self._exchange = exchange
        own.conn.max_message_size = 2 * frame_bytes_max
        bound_buffer(self._transport)

    @property
    def open(self) -> bool:
        own = self._socket
        return own.writable.is_set() and not own.close_sent and not self._transport.is_closing()

    def write(self, frames: Sequence[bytes], messages: Sequence[Counted]) -> None:
        own = self._socket
        if not own.close_sent and not self._transport.is_closing():
            self._transport.write(socket_bytes(frames, messages))

    def push(self, counter: int, rows: LiveRows) -> None:
        self._transport.write(rows.in_frames(socket_frames, counter))

    async def ready(self) -> None:
        await self._socket.writable.wait()
        own = self._socket
        # A connection that is about to end takes nothing, so a caller that waits in a loop would never let it end.
        if own.disconnected or own.close_sent or own.transport.is_closing():
            raise ClientGone

    async def hang_up(self, reason: Disconnected) -> None:
        if not self._socket.writable.is_set():
            # The client does not read, so the last frame would wait for ever.
            self._socket.transport.abort()
            return
        with suppress(OSError, RuntimeError):
            await self._exchange.close_socket(CLOSE_CODES[reason], reason)


def socket_bytes(frames: Sequence[bytes], messages: Sequence[Counted]) -> bytes:
    parts: list[bytes] = []
    for frame in frames:
        parts += (text_head(len(frame)), frame)
    for counter, _, message in messages:
        head = MESSAGE_HEAD % counter
        parts += (text_head(len(head) + len(message) + 1), head, message, b"}")
    return b"".join(parts)


def socket_frames(counter: int, rows: LiveRows) -> bytes:
    """Messages as web socket frames, counted from `counter` + 1."""
    counters = range(counter + 1, counter + 1 + len(rows))
    return socket_bytes((), tuple(zip(counters, rows.numbers, rows.texts, strict=True)))


def event_frames(counter: int, rows: LiveRows) -> bytes:
    """Messages as server-sent events, counted from `counter` + 1."""
    counters = range(counter + 1, counter + 1 + len(rows))
    return event_bytes((), tuple(zip(counters, rows.numbers, rows.texts, strict=True)))


def event_bytes(frames: Sequence[bytes], messages: Sequence[Counted]) -> bytes:
    """Frames and counted messages as server-sent events. An event's id is the sequence number, from which clients go on."""
    parts = [b"data: %b\n\n" % frame for frame in frames]
    for counter, number, text in messages:
        parts.append(b"id: %d\ndata: %b\n\n" % (number, message_frame(counter, text.translate(_ONE_LINE))))
    return b"".join(parts)
