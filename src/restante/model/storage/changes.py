"""`Changes` are the changes of one commit, which is all that a store engine has to carry out.

Keys are ordered byte strings within (partition, space). Values are small. Blobs are immutable: written once, read in
slices, deleted whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview


class Space(IntEnum):
    """The families of small rows. Numbers are part of the stored format."""

    META = 0
    PARTITION = 1
    RUN = 2
    HEAD = 3
    BUNDLE = 4
    CHANGE = 5
    SETTLEMENT = 6
    CONTENT = 7
    OUTBOX = 8
    ERASED = 9
    PRODUCER = 10
    BATCH = 11
    BATCH_COUNT = 12
    BATCH_GROUP = 13
    BATCH_REQUEST = 14
    BATCH_ACKNOWLEDGED = 15
    BATCH_BITS = 16
    BATCH_KEY = 17
    BATCH_BINDING = 18
    BATCH_NOTICE = 19
    CONSIGNMENT = 20
    CONSIGNMENT_KEY = 21
    CONSIGNMENT_PARCEL = 22
    GROUP = 23
    GROUP_MEMBER = 24
    GROUP_POSITION = 25
    IDENTITIES = 26
    DELAYED = 40
    DELAYED_DUE = 41
    ACTION = 42
    ACTION_ID = 43
    ACTION_POISON = 44
    ACTION_TEXTS = 45
    SOURCE = 47
    BATCH_PART = 50
    BATCH_ENLISTED = 51
    BATCH_REPORT = 52
    BATCH_CLOSING = 53
    CONSIGNMENT_ROUND = 54
    STAGED_PART = 55
    PREPARED = 56
    BACKPLANE_POISON = 58
    JOB = 61
    JOB_RUN = 62
    JOB_TABLE = 63
    GROUP_COPY = 64


class BlobKey(NamedTuple):
    """The name of a blob. The hub assigns ascending numbers within a partition and never reuses one."""

    partition: int
    number: int


class EntryKey(NamedTuple):
    partition: int
    space: Space
    key: bytes


@dataclass(slots=True)
class Changes:
    """Entries to put (None deletes), blobs to write and to drop, and the fences that must be unchanged."""

    entries: dict[EntryKey, bytes | None] = field(default_factory=dict)
    blobs: list[tuple[BlobKey, Sequence[Buffer]]] = field(default_factory=list)
    """Each blob as a sequence of parts."""
    dropped: list[BlobKey] = field(default_factory=list)
    fences: dict[int, int] = field(default_factory=dict)
    """The fence that this hub holds, by partition. A different one in the store is a conflict."""

    def put(self, partition: int, space: Space, key: bytes, value: bytes) -> None:
        self.entries[EntryKey(partition, space, key)] = value

    def delete(self, partition: int, space: Space, key: bytes) -> None:
        self.entries[EntryKey(partition, space, key)] = None

    def empty(self) -> bool:
        return not (self.entries or self.blobs or self.dropped)
