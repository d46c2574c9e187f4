"""The process of a clerk: reads what is to be computed, writes what came of it, and ends with its parent.

A question is MessagePack: what is to be done, and with what. So is an answer.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec
import numpy as np

from restante.errors import RestanteError
from restante.model.storage.changes import BlobKey
from restante.model.storage.joined import joined
from restante.model.storage.merge import DrawerStretch, merged
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.rows import RECORD
from restante.model.storage.run import StoredSegment
from restante.model.storage.segment import EncodedSegment, decode
from restante.outside.helper_frames import answer_all, write_frame
from restante.ports.clerk import SegmentPart

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
    stretches, pieces = [], []
    for part in (SegmentPart(*fields) for fields in parts):
        stored = StoredSegment(BlobKey(0, 0), part.base, decode(part.front, trusted=True), part.published_at)
        stretches.append(DrawerStretch(stored, part.first, part.last))
        records = np.frombuffer(part.records, RECORD)
        pieces.append(SegmentPiece(stored, part.row, records, part.data, part.properties))
    return merged(stretches, pieces, first, lambda *_: None)


def _answer(line: socket.socket, question: bytes) -> None:
    write_frame(line.fileno(), _encoder.encode(answered(question)))


if __name__ == "__main__":
    answer_all(_answer, niceness=_NICENESS)
