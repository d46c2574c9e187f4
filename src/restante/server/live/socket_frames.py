"""Frames as bytes of a web socket: whole, as text, and many in one piece."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from restante.model.live.live_queue import Counted
from restante.server.live.rows import LiveRows
from restante.wire.live import MESSAGE_HEAD, message_frame

_TEXT = 0x81
_SHORT = struct.Struct(">BB")
_MIDDLING = struct.Struct(">BBH")
_LONG = struct.Struct(">BBQ")
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""A line break in JSON is white space between its parts; in an event it would end the line."""


def text_head(length: int) -> bytes:
    """The bytes before a text of so many bytes."""
    if length < 126:
        return _SHORT.pack(_TEXT, length)
    if length < 65_536:
        return _MIDDLING.pack(_TEXT, 126, length)
    return _LONG.pack(_TEXT, 127, length)


def socket_bytes(frames: Sequence[bytes], messages: Sequence[Counted]) -> bytes:
    parts: list[bytes] = []
    for frame in frames:
        parts += (text_head(len(frame)), frame)
    for counter, _, message in messages:
        head = MESSAGE_HEAD % counter
        parts += (text_head(len(head) + len(message) + 1), head, message, b"}")
    return b"".join(parts)


def socket_frames(counter: int, rows: LiveRows) -> bytes:
    """Messages that are counted after a number, as frames of a web socket."""
    counters = range(counter + 1, counter + 1 + len(rows))
    return socket_bytes((), tuple(zip(counters, rows.numbers, rows.texts, strict=True)))


def event_frames(counter: int, rows: LiveRows) -> bytes:
    """The same as server-sent events."""
    counters = range(counter + 1, counter + 1 + len(rows))
    return event_bytes((), tuple(zip(counters, rows.numbers, rows.texts, strict=True)))


def event_bytes(frames: Sequence[bytes], messages: Sequence[Counted]) -> bytes:
    """The same as server-sent events. A message's id is its sequence number, from which a client goes on."""
    parts = [b"data: %b\n\n" % frame for frame in frames]
    for counter, number, text in messages:
        parts.append(b"id: %d\ndata: %b\n\n" % (number, message_frame(counter, text.translate(_ONE_LINE))))
    return b"".join(parts)
