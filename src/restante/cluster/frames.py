"""Frames between a door and a shard: a length, a number that pairs question and answer, a kind, and the content."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct

from restante.errors import InvalidRequest
from restante.limits import CARRIED_BYTES_MAX

_HEAD = Struct(">IQB")
_BEYOND_LENGTH = _HEAD.size - 4


class FrameKind(IntEnum):
    """The kinds of frames."""

    GREETING = 0
    """The first of a connection: who speaks."""
    CALL = 1
    ANSWER = 2
    PROBLEM = 3
    CANCEL = 4
    """Nobody waits for the answer of a call any more."""


def frame(number: int, kind: FrameKind, content: bytes) -> bytes:
    return _HEAD.pack(len(content) + _BEYOND_LENGTH, number, kind) + content


class FrameReader:
    """Bytes as they come, cut into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def take(self, data: bytes) -> Iterator[tuple[int, FrameKind, bytes]]:
        """The frames that are whole now."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _HEAD.size:
            length, number, kind = _HEAD.unpack_from(buffer, start)
            if not _BEYOND_LENGTH <= length <= CARRIED_BYTES_MAX:
                raise InvalidRequest(f"A frame of {length} bytes is none: at most {CARRIED_BYTES_MAX} are carried.")
            end = start + 4 + length
            if len(buffer) < end:
                break
            yield number, FrameKind(kind), bytes(memoryview(buffer)[start + _HEAD.size : end])
            start = end
        if start:
            del buffer[:start]
