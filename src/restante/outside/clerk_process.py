"""The process of a clerk: reads what is to be computed, writes what came of it, and ends with its parent.

A question is MessagePack: what is to be done, and with what. So is an answer.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

from restante.errors import RestanteError
from restante.model.storage.joined_segments import joined
from restante.model.storage.segment_frame import EncodedSegment
from restante.outside.helper_frames import answer_all, write_frame

_NICENESS = 5
_encoder = msgspec.msgpack.Encoder()


class ClerkTask(IntEnum):
    """A task of the filing clerk."""

    JOIN = 1
    MERGE = 2


class SegmentAnswer(msgspec.Struct, array_like=True, frozen=True):
    """An encoded segment as it travels."""

    group: int
    rows: int
    front: bytes
    rest: tuple[bytes, ...]
    length: int
    recipients: frozenset[int] | None

    @classmethod
    def of(cls, encoded: EncodedSegment) -> SegmentAnswer:
        rest = tuple(map(bytes, encoded.rest))
        return cls(encoded.group, encoded.rows, encoded.front, rest, encoded.length, encoded.recipients)

    def encoded(self) -> EncodedSegment:
        return EncodedSegment(self.group, self.rows, self.front, self.rest, self.length, self.recipients)


class ClerkAnswer(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a task. If it failed, who asked does it itself, and meets the reason."""

    failed: bool
    segments: list[SegmentAnswer]


def answered(question: bytes) -> ClerkAnswer:
    """The answer to a question."""
    try:
        task, *given = msgspec.msgpack.decode(question)
        segments: Sequence[EncodedSegment | None] = _join(*given) if task == ClerkTask.JOIN else _merge(*given)
    except (RestanteError, ValueError, TypeError, IndexError, KeyError, MemoryError):
        return ClerkAnswer(True, [])
    return ClerkAnswer(False, [SegmentAnswer.of(one) for one in segments if one is not None])


def _join(contents: Sequence[bytes], shifts: Sequence[int], group: int) -> list[EncodedSegment | None]:
    return [joined(contents, shifts, group)]


def _merge(parts: Sequence[Sequence[Any]], first: int) -> list[EncodedSegment]:
    # Arrow is loaded when larger runs are merged: most of the start of a process would be that.
    from restante.outside.clerk_merges import merged_parts  # noqa: PLC0415

    return merged_parts(parts, first)


def _answer(line: socket.socket, question: bytes) -> None:
    write_frame(line.fileno(), _encoder.encode(answered(question)))


if __name__ == "__main__":
    answer_all(_answer, niceness=_NICENESS)
