"""Records of one topic partition as columns of Python values: the client library's objects are asked once for each column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from restante.bridges.in_rules import RawRecord, RecordHeaders

TopicPlace = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(slots=True)
class TopicRecords:
    """Records of a topic partition, in order; a row is looked at as a `RawRecord` where it must be."""

    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps_ms: Sequence[int]
    """0 where there is none."""
    headers: Sequence[RecordHeaders | None]

    @classmethod
    def of_messages(cls, messages: Sequence[Any]) -> TopicRecords:
        """Each column is one pass in C: that takes a third of what a loop over the objects takes."""
        kind = type(messages[0])
        return cls(
            offsets=list(map(kind.offset, messages)),
            keys=list(map(kind.key, messages)),
            values=list(map(kind.value, messages)),
            timestamps_ms=[moment if given else 0 for given, moment in map(kind.timestamp, messages)],
            headers=list(map(kind.headers, messages)),
        )

    @classmethod
    def of_records(cls, records: Sequence[RawRecord]) -> TopicRecords:
        return cls(
            offsets=[record.offset for record in records],
            keys=[record.key for record in records],
            values=[record.value for record in records],
            timestamps_ms=[record.timestamp_ms for record in records],
            headers=[record.headers for record in records],
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, row: int) -> RawRecord:
        return RawRecord(
            self.offsets[row],
            self.keys[row],
            self.values[row],
            self.timestamps_ms[row],
            tuple(self.headers[row] or ()),
        )

    def __iter__(self) -> Iterator[RawRecord]:
        return map(self.__getitem__, range(len(self)))


def by_place(messages: Sequence[Any]) -> dict[TopicPlace, list[Any]]:
    """Messages of the client library by topic partition, each in order. They come in long runs of one partition."""
    found: dict[TopicPlace, list[Any]] = {}
    if messages:
        kind = type(messages[0])
        for topic, run in groupby(messages, kind.topic):
            for partition, part in groupby(run, kind.partition):
                found.setdefault((topic, partition), []).extend(part)
    return found
