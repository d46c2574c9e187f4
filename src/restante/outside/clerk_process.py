"""The process of a clerk: reads what is to be computed, writes what came of it, and ends with its parent.

A question is a length and MessagePack: what is to be done, and with what. So is an answer. The first thing that is written is an
answer without content: the process is there.
"""

from __future__ import annotations

import os
import select
import signal
import struct
from collections.abc import Sequence
from contextlib import suppress
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
from restante.ports.clerk import SegmentPart

LENGTH = struct.Struct("<I")
IDLE_SECONDS = 60.0
"""Nobody has asked for so long: the process ends, and another one is started when it is needed."""
_NICENESS = 5


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


def read_frame(descriptor: int) -> bytes | None:
    """A whole frame; None at the end."""
    head = _read(descriptor, LENGTH.size)
    return None if head is None else _read(descriptor, LENGTH.unpack(head)[0])


def write_frame(descriptor: int, content: bytes) -> None:
    left = memoryview(LENGTH.pack(len(content)) + content)
    while left:
        left = left[os.write(descriptor, left) :]


def _read(descriptor: int, count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(descriptor, count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


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


def main() -> None:
    """Until nobody is there, or nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICENESS)
    encoder = msgspec.msgpack.Encoder()
    with suppress(OSError):
        write_frame(1, b"")
        while select.select([0], [], [], IDLE_SECONDS)[0] and (question := read_frame(0)) is not None:
            write_frame(1, encoder.encode(answered(question)))


if __name__ == "__main__":
    main()
