"""Many messages at once for connected clients: their JSON and their frames are made as columns.

All of it happens in a thread. It is given the counters of the connections. If a counter has changed when the messages are
handed out, or connections of one recipient have different counters, `LiveRows.in_frames` makes new frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante import limits
from restante.model.columns.arrow import Column, bytes_of, column_of, offsets_of, string_array, strings_of
from restante.model.columns.properties import joined
from restante.model.columns.texts import Texts
from restante.model.live.committed_mail import Shipped
from restante.model.mailboxes.message_tables import to_table
from restante.model.publishing.message import NEVER, MessageColumns, State
from restante.server.live.live_rows import LiveRows
from restante.server.live.socket_line import socket_frames
from restante.wire.live import MESSAGE_HEAD
from restante.wire.outgoing.outgoing import message_lines

_HEAD, _MIDDLE = MESSAGE_HEAD.split(b"%d")
_END = b"}"
_LENGTH_MIN, _LENGTH_MAX = 126, 65_535

Found = dict[str, LiveRows | None]
"""The messages of each recipient; None if its connections must read them from history."""


def parcel_rows(item: Shipped, listened: NDArray[np.uint64], counters: Mapping[str, int]) -> Found:
    """The messages for connected recipients. `counters` has the counter of one connection of each recipient."""
    arrivals = item.arrivals
    recipients = arrivals.columns.recipient
    rows = np.flatnonzero(np.isin(arrivals.recipient_hash, listened)[recipients.codes])
    if not len(rows):
        return {}
    codes = recipients.codes[rows]
    crowded = _crowded(arrivals.columns, rows, codes)
    names = strings_of(recipients.values.take(column_of(np.flatnonzero(crowded))))
    found: Found = dict.fromkeys(names)
    kept = ~crowded[codes]
    rows, codes = rows[kept], codes[kept]
    if len(rows):
        order = np.argsort(codes, kind="stable")
        _add(found, item, rows[order], codes[order], counters)
    return found


def _crowded(columns: MessageColumns, rows: NDArray[np.int64], codes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which recipients get so many messages at once that reading them from history is better."""
    many = len(columns.recipient.values)
    counts = np.bincount(codes, minlength=many)
    sizes = np.diff(offsets_of(columns.data))[rows]
    if len(rows) > limits.LIVE_PARCEL_MESSAGES_MAX or int(sizes.sum()) > limits.LIVE_PARCEL_BYTES_MAX:
        return counts > 0
    crowded: NDArray[np.bool_] = counts > limits.LIVE_BURST_MESSAGES_MAX
    return crowded | (np.bincount(codes, sizes, many) > limits.LIVE_WRITE_BYTES)


def _add(
    found: Found, item: Shipped, rows: NDArray[np.int64], codes: NDArray[np.int32], counters: Mapping[str, int]
) -> None:
    columns, numbers = item.arrivals.columns.take(rows), item.number[rows]
    lines = message_lines(_table(columns, numbers, item.published_at))
    borders = np.append(np.flatnonzero(np.diff(codes, prepend=-1)), len(codes))
    names = strings_of(item.arrivals.columns.recipient.values.take(column_of(codes[borders[:-1]])))
    before = np.array([counters.get(name, 0) for name in names], np.int64)
    counts = np.diff(borders)
    counter = np.repeat(before - borders[:-1], counts) + np.arange(1, len(codes) + 1)
    texts, frames = _Lines.of(lines), _frames(lines, counter)
    framed = None if frames is None else _Lines.of(frames)
    for index, (start, stop) in enumerate(pairwise(borders.tolist())):
        own = LiveRows(numbers[start:stop].tolist(), texts.part(start, stop), texts.size(start, stop))
        if framed is not None:
            own.framed[socket_frames, int(before[index])] = framed.whole(start, stop)
        found[names[index]] = own


def _table(columns: MessageColumns, numbers: NDArray[np.int64], published_at: int) -> pa.Table:
    count = len(numbers)
    return to_table(
        columns,
        sequence_number=numbers,
        published_at=np.full(count, published_at, np.int64),
        collected_at=np.full(count, NEVER, np.int64),
        state=Texts(np.zeros(count, np.int32), string_array([State.WAITING.value])),
    )


def _frames(lines: Column, counter: NDArray[np.int64]) -> Column | None:
    """Each message as a web socket frame; None if the length of one needs another form of frame header."""
    digits: Column = column_of(counter).cast(pa.string()).view(pa.binary())
    fixed = len(_HEAD) + len(_MIDDLE) + len(_END)
    lengths = np.diff(offsets_of(lines)) + np.diff(offsets_of(digits)) + fixed
    if lengths.min() < _LENGTH_MIN or lengths.max() > _LENGTH_MAX:
        return None
    begins = np.empty((len(lengths), 4), np.uint8)
    begins[:, 0], begins[:, 1], begins[:, 2], begins[:, 3] = 0x81, 126, lengths >> 8, lengths & 0xFF
    content: Column = pa.py_buffer(begins.tobytes())
    heads: Column = pa.Array.from_buffers(pa.binary(4), len(begins), [None, content]).cast(pa.binary())
    parts = (pa.scalar(part, pa.binary()) for part in (_HEAD, _MIDDLE, _END, b""))
    head, middle, end, nothing = parts
    return joined(heads, head, digits, middle, lines.view(pa.binary()), end, nothing)


@dataclass(frozen=True, slots=True)
class _Lines:
    """The rows of a column, cut out on demand."""

    content: NDArray[np.uint8]
    ends: Sequence[int]

    @classmethod
    def of(cls, column: Column) -> _Lines:
        ends = offsets_of(column)
        return cls(bytes_of(column), (ends - ends[0]).tolist())

    def whole(self, start: int, stop: int) -> bytes:
        """A copy of some consecutive rows, so that a slow client does not keep the whole column in memory."""
        return self.content[self.ends[start] : self.ends[stop]].tobytes()

    def size(self, start: int, stop: int) -> int:
        return self.ends[stop] - self.ends[start]

    def part(self, start: int, stop: int) -> Sequence[bytes]:
        return _Part(self, start, stop)


class _Part(Sequence[bytes]):
    """Some rows as a sequence."""

    __slots__ = ("_lines", "_start", "_stop")

    def __init__(self, lines: _Lines, start: int, stop: int) -> None:
        self._lines, self._start, self._stop = lines, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]  # nobody takes slices of it
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._lines.whole(self._start + index, self._start + index + 1)

    def __iter__(self) -> Iterator[bytes]:
        whole = self._lines.whole
        return (whole(row, row + 1) for row in range(self._start, self._stop))
