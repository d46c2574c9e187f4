"""A publish as it waits for its commit: messages as they came, or laid out as mailbags by the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from restante.hub.engine.commit_request import CommitRequest, Line
from restante.hub.engine.plan import RequestDraft
from restante.hub.publishing.identities import Judged
from restante.model.access.access import EVERYTHING, Grant
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.parcel_digest import Digests
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.arrival import Arrivals, Grouped
from restante.model.publishing.letter import Letter
from restante.model.publishing.message import Message, MessageColumns
from restante.model.storage.changes import BlobKey
from restante.model.storage.segment_frame import EncodedSegment

ROW_BYTES = 512
"""About how many bytes a message takes beside its data."""


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
    """The blobs of the segments, if these are written already."""
    named: bool = False
    """Whether a commit that was planned names these blobs."""


@dataclass(slots=True)
class Unit:
    """Publishes that are judged together: all small ones of a commit, or one large one.

    Request i has rows start[i] to start[i + 1]. The parcel is there if everything is new.
    """

    requests: list[PublishRequest]
    start: NDArray[np.int64]
    judged: Judged
    parcel: LaidOut | None = None

    @property
    def arrivals(self) -> Arrivals:
        return self.judged.arrivals

    def accepted(self) -> NDArray[np.bool_]:
        """For each row whether its request has not been refused."""
        fine = np.array([request.error is None for request in self.requests], np.bool_)
        return np.repeat(fine, np.diff(self.start))


@dataclass(slots=True)
class SourcedRows:
    """Messages of a source, all of them, and which of them are to be stored."""

    name: str
    spaces: tuple[bytes, ...]
    """The owners whose sources are looked for, one after the other."""
    arrivals: Arrivals
    positions: NDArray[np.int64]
    ends: dict[int, int]
    """The last source position of the messages of each partition."""
    last: dict[int, int] = field(default_factory=dict)
    """The position of each partition that was stored when `kept` was found."""
    kept: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The rows beyond those positions."""


HearRows = Callable[[NDArray[np.int64], NDArray[np.int64]], None]
"""Takes the rows that are stored, in order, and their numbers."""


class PublishedBeside(Protocol):
    """The changes that are made in the commit of a publish, if it is not refused."""

    def check(self, draft: RequestDraft) -> Exception | None:
        """Why the publish must not be planned, as things are now."""

    def plan(self, draft: RequestDraft) -> None: ...


class PublishRequest(CommitRequest[Receipt]):
    """Some messages to be stored. A few come as they are and are checked with the others of their commit."""

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
        line: Line | None = None,
        size: int = 0,
    ) -> None:
        super().__init__(size + sum([_size(message) for message in messages]), line)
        self._messages = messages
        self.letters: Sequence[Letter] | None = None
        """The messages as letters, if they were found to be plainly right when they came."""
        self.partition = partition
        self.numbers = numbers
        self.batch = batch
        """The id of the batch whose items its new messages are."""
        self.caller = caller
        self.digests: Digests | None = None
        """The digests of a numbered publish, once they were computed."""
        self.light = batch is None and bool(messages)
        self.beside: PublishedBeside | None = None
        """The changes that go with it, in its commit."""
        self.hear_rows: HearRows | None = None
        """A function that hears, while the publish is planned, which of its messages are new, and what their numbers are."""
        self.source: SourcedRows | None = None
        """Where its messages come from, if it says so."""
        self.published_at = 0
        """When its messages were stored, once it is answered; 0: nothing was."""
        self.unit: Unit | None = None
        """A large publish is prepared by its caller's thread."""

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    def count(self) -> int:
        return len(self.messages) if self.unit is None else len(self.unit.arrivals)


ReadMessages = Callable[[], Sequence[Message]]
"""A function that reads once more what was sent, as messages."""


class PlainPublish(PublishRequest):
    """A few messages that were plainly right when they came. They are read as messages only if somebody must look closer."""

    __slots__ = ("_read",)

    def __init__(
        self,
        letters: Sequence[Letter],
        read: ReadMessages,
        caller: Grant,
        partition: int | None = None,
        numbers: ProducerNumbers | None = None,
        line: Line | None = None,
    ) -> None:
        # Everything that its classes set, at once: to call them takes as long as to set all of it. A test sees that nothing is left out.
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
    """About how many bytes messages take."""
    return len(columns) * ROW_BYTES + columns.data.nbytes


def _size(message: Message) -> int:
    """About how many bytes a message takes; the size of a value is known only when it is encoded."""
    data = message.data if message.text is None else message.text
    return ROW_BYTES + len(data) if type(data) in {bytes, str} else ROW_BYTES
