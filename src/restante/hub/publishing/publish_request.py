"""`PublishRequest` is a publish that waits for its commit, as messages or as mailbags that its caller's thread laid out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from restante.hub.engine.commit_request import CommitRequest, RequestLine
from restante.hub.engine.plan import RequestDraft
from restante.hub.publishing.identities import Judged
from restante.model.access.access import EVERYTHING, Grant
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.parcel_digest import Digests
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.arrival import Arrivals, Grouped
from restante.model.publishing.message import Message, MessageColumns
from restante.model.storage.changes import BlobKey
from restante.model.storage.letter import Letter
from restante.model.storage.segment_frame import EncodedSegment

ROW_BYTES = 512
"""Estimated bytes of a message besides its data."""


@dataclass(slots=True)
class LaidOut:
    """Messages laid out as mailbags, before they have numbers."""

    arrivals: Arrivals
    grouped: Grouped
    place: NDArray[np.int64]
    counts: NDArray[np.int64]
    segments: list[EncodedSegment]
    published_at: int
    blobs: tuple[BlobKey, ...] = ()
    """The blobs of the segments, if they were written ahead."""
    named: bool = False
    """Whether a planned commit names these blobs."""


@dataclass(slots=True)
class Unit:
    """Publishes that are judged together: all small ones of a commit, or one large one.

    Request i has rows start[i] to start[i + 1]. `parcel` is set only if all messages are new.
    """

    requests: list[PublishRequest]
    start: NDArray[np.int64]
    judged: Judged
    parcel: LaidOut | None = None

    @property
    def arrivals(self) -> Arrivals:
        return self.judged.arrivals

    def accepted(self) -> NDArray[np.bool_]:
        """For each row, whether its request has not been refused."""
        fine = np.array([request.error is None for request in self.requests], np.bool_)
        return np.repeat(fine, np.diff(self.start))


@dataclass(slots=True)
class SourcedRows:
    """All messages of a publish with source positions, and which of them are to be stored."""

    name: str
    spaces: tuple[bytes, ...]
    """The owners whose sources are tried, in this order."""
    arrivals: Arrivals
    positions: NDArray[np.int64]
    ends: dict[int, int]
    """The last source position among the messages for each partition."""
    last: dict[int, int] = field(default_factory=dict)
    """The stored position in each partition when `kept` was computed."""
    kept: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The rows beyond those positions."""


HearRows = Callable[[NDArray[np.int64], NDArray[np.int64]], None]
"""A function that gets the rows that are stored, in order, and their numbers."""


class PublishedBeside(Protocol):
    """Further changes in the commit of a publish, made if it is not refused."""

    def check(self, draft: RequestDraft) -> Exception | None:
        """The error that prevents the publish in the current state, or None."""

    def plan(self, draft: RequestDraft) -> None: ...


class PublishRequest(CommitRequest[Receipt]):
    """Messages to be stored. Few messages are checked in their commit, together with those of other requests."""

    __slots__ = (
        "_messages",
        "batch",
        "beside",
        "caller",
        "digests",
        "hear_rows",
        "letters",
        "numbers",
        "partition",
        "published_at",
        "source",
        "unit",
    )

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        partition: int | None = None,
        numbers: ProducerNumbers | None = None,
        batch: bytes | None = None,
        caller: Grant = EVERYTHING,
        line: RequestLine | None = None,
        size: int = 0,
    ) -> None:
        super().__init__(size + sum([_size(message) for message in messages]), line)
        self._messages = messages
        self.letters: Sequence[Letter] | None = None
        """The messages as letters, if they were found plainly valid on arrival."""
        self.partition = partition
        self.numbers = numbers
        self.batch = batch
        """The id of the batch that the new messages become items of."""
        self.caller = caller
        self.digests: Digests | None = None
        """The digests of a numbered publish, once computed."""
        self.light = batch is None and bool(messages)
        self.beside: PublishedBeside | None = None
        """Further changes to make in the same commit."""
        self.hear_rows: HearRows | None = None
        """Called while the publish is planned, with the rows of its new messages and their numbers."""
        self.source: SourcedRows | None = None
        """The source rows, for a publish with source positions."""
        self.published_at = 0
        """When the messages were stored, set when the request is answered; 0 if none was."""
        self.unit: Unit | None = None
        """The judged unit of a large publish, prepared in its caller's thread; None for a small one."""

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    def count(self) -> int:
        return len(self.messages) if self.unit is None else len(self.unit.arrivals)

    def answer(self) -> Receipt:
        # The unit holds this request: both would live, with all columns, until the next garbage collection.
        self.unit = None
        return super().answer()


ReadMessages = Callable[[], Sequence[Message]]
"""A function that reads what was sent again, as messages."""


class PlainPublish(PublishRequest):
    """A few messages that were plainly valid on arrival. They are read as `Message`s only if they need a closer look."""

    __slots__ = ("_read",)

    def __init__(
        self,
        letters: Sequence[Letter],
        read: ReadMessages,
        caller: Grant,
        partition: int | None = None,
        numbers: ProducerNumbers | None = None,
        line: RequestLine | None = None,
    ) -> None:
        # Set everything that the base classes set, without calling them, which would double the time. A test checks that
        # no attribute is missing.
        size = ROW_BYTES * len(letters)
        for letter in letters:
            size += len(letter.data)
        self.size, self.line, self.caller, self.letters, self._read = size, line, caller, letters, read
        self.partition, self.numbers, self._messages, self.reads = partition, numbers, (), ()
        self.light, self.alone, self.put_off, self.parked, self.brief = True, False, False, False, False
        self.result = self.error = self.waiter = self.batch = self.digests = None
        self.beside = self.hear_rows = self.source = self.unit = None
        self.published_at = 0

    @property
    def messages(self) -> Sequence[Message]:
        self._messages = self._messages or self._read()
        return self._messages

    def count(self) -> int:
        return len(self.letters or ())


def size_of(columns: MessageColumns) -> int:
    """Estimated bytes of messages."""
    return len(columns) * ROW_BYTES + columns.data.nbytes


def _size(message: Message) -> int:
    """Estimated bytes of a message. Data that is neither bytes nor text counts as 0, because its size is known only when encoded."""
    data = message.data if message.text is None else message.text
    return ROW_BYTES + len(data) if type(data) in {bytes, str} else ROW_BYTES
