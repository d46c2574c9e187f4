"""Records of one topic partition as columns: the client library's objects are asked once for each column, and let go at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.bridges.in_rules import UNREADABLE, RawRecord, RecordHeaders
from restante.model.columns.arrow import Column

TopicPlace = tuple[str, int]
"""A topic and the number of a partition."""
_BYTES = pa.large_binary()


@dataclass(slots=True)
class TopicRecords:
    """Records of a topic partition, in order; a row is looked at as a `RawRecord` where it must be."""

    offsets: NDArray[np.int64]
    keys: Column
    """Null where there is none, as with values."""
    values: Column
    timestamps_ms: NDArray[np.int64]
    """0 where there is none."""
    headers: Sequence[RecordHeaders | None] | None
    """None: no record has any."""

    @classmethod
    def of_messages(cls, messages: Sequence[Any]) -> TopicRecords:
        """Each column is one pass in C: that takes a third of what a loop over the objects takes."""
        kind = type(messages[0])
        given, moments = zip(*map(kind.timestamp, messages), strict=True)
        headers = _headers_of(messages, kind.headers)
        return cls(
            offsets=np.fromiter(map(kind.offset, messages), np.int64, len(messages)),
            keys=pa.array(list(map(kind.key, messages)), _BYTES),
            values=pa.array(list(map(kind.value, messages)), _BYTES),
            timestamps_ms=np.where(np.array(given, np.int8), np.array(moments, np.int64), 0),
            headers=headers if any(headers) else None,
        )

    @classmethod
    def joined(cls, parts: Sequence[TopicRecords]) -> TopicRecords:
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        with_headers = any(part.headers is not None for part in parts)
        return cls(
            offsets=np.concatenate([part.offsets for part in parts]),
            keys=pa.concat_arrays([part.keys for part in parts]),
            values=pa.concat_arrays([part.values for part in parts]),
            timestamps_ms=np.concatenate([part.timestamps_ms for part in parts]),
            headers=list(chain.from_iterable(map(_headers, parts))) if with_headers else None,
        )

    @property
    def size(self) -> int:
        """How many bytes keys and values take."""
        return int(self.keys.nbytes + self.values.nbytes)

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, row: int) -> RawRecord:
        return RawRecord(
            int(self.offsets[row]),
            self.keys[row].as_py(),
            self.values[row].as_py(),
            int(self.timestamps_ms[row]),
            () if self.headers is None else tuple(self.headers[row] or ()),
        )

    def __iter__(self) -> Iterator[RawRecord]:
        columns = (self.offsets.tolist(), self.keys.to_pylist(), self.values.to_pylist(), self.timestamps_ms.tolist())
        for offset, key, value, moment, headers in zip(*columns, _headers(self), strict=True):
            yield RawRecord(offset, key, value, moment, tuple(headers or ()))


def _headers_of(messages: Sequence[Any], ask: Callable[[Any], Any]) -> list[RecordHeaders | None]:
    """The headers of each. A message that has failed to give them must not be asked again: the library keeps half of a list."""
    found: list[RecordHeaders | None] = []
    asked = map(ask, messages)
    while len(found) < len(messages):
        try:
            found.extend(asked)
        except (SystemError, UnicodeDecodeError):
            found.append(UNREADABLE)
    return found


def _headers(records: TopicRecords) -> Sequence[RecordHeaders | None]:
    return [None] * len(records) if records.headers is None else records.headers


def by_place(messages: Sequence[Any], only_topic: str | None = None) -> Mapping[TopicPlace, Sequence[Any]]:
    """Messages of the client library by topic partition, each in order. They come in long runs of one partition.

    If there is one topic only, they are asked for their partitions alone.
    """
    if not messages:
        return {}
    kind = type(messages[0])
    if only_topic is not None:
        partitions = list(map(kind.partition, messages))
        if partitions.count(partitions[0]) == len(partitions):
            return {(only_topic, partitions[0]): messages}
    found: dict[TopicPlace, list[Any]] = {}
    for topic, run in groupby(messages, kind.topic):
        for partition, part in groupby(run, kind.partition):
            found.setdefault((topic, partition), []).extend(part)
    return found


@dataclass(slots=True)
class GatheredRecords:
    """Records of a topic partition that are to be sent together."""

    since: float
    """When the first came."""
    parts: list[TopicRecords] = field(default_factory=list)
    count: int = 0
    size: int = 0

    def add(self, part: TopicRecords) -> None:
        self.parts.append(part)
        self.count += len(part)
        self.size += part.size

    def whole(self) -> TopicRecords:
        return TopicRecords.joined(self.parts)
