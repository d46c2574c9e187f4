"""`Room` bounds what may be under way at once. Beyond the bounds, callers are refused for now, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from threading import Lock
from types import TracebackType
from typing import Self

from restante.errors import Overloaded
from restante.settings import ServerSettings

RETRY_AFTER_SECONDS = 1
_SMALL_BYTES = 1024 * 1024
"""A publish that needs no more memory than this to be decoded is not refused for a large one of others."""


class Wait(Enum):
    """The things that requests wait for."""

    PEEK = "mail"
    BATCH = "the completion of a batch"
    FEED = "changes"
    GROUP = "changes for a member of a group"
    ACTION = "the outcome of an action"


class Room:
    """Counts the requests under way. Used only from the event loop, but for the bytes of publishes, which threads count, too."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.publishes = 0
        self.publish_bytes = 0
        self.made_bytes = 0
        """The memory of what was decoded of publishes under way, beside their bytes."""
        self._bytes = Lock()
        """Held while bytes are counted."""
        self.reads = 0
        self.waits = dict.fromkeys(Wait, 0)
        """How many requests wait for each thing. They take up only a connection."""
        self.refused = 0

    def publish(self) -> PublishRoom:
        """A context with room for one publish, whose bytes take room as they come."""
        if self.publishes >= self._settings.publishes_waiting_max:
            raise self._overloaded(f"{self.publishes} publishes are waiting already")
        return PublishRoom(self)

    @contextmanager
    def read(self) -> Iterator[None]:
        """A context with room for one request that reads, or commits something small."""
        if self.reads >= self._settings.reads_waiting_max:
            raise self._overloaded(f"{self.reads} requests are reading or waiting to read")
        self.reads += 1
        try:
            yield
        finally:
            self.reads -= 1

    @contextmanager
    def wait(self, what: Wait) -> Iterator[None]:
        """A context that counts a waiting request. There is always room."""
        self.waits[what] += 1
        try:
            yield
        finally:
            self.waits[what] -= 1

    def has_place(self, count: int) -> bool:
        """Whether there is room for a publish of `count` bytes."""
        settings = self._settings
        return self.publishes < settings.publishes_waiting_max and (
            not self.publish_bytes or self.publish_bytes + count <= settings.publish_bytes_in_flight_max
        )

    def enter(self, count: int) -> None:
        """Take room for a publish, after `has_place`."""
        self.publishes += 1
        with self._bytes:
            self.publish_bytes += count

    def leave(self, count: int, publishes: int = 1) -> None:
        """Give back the room of publishes that have ended, with `count` bytes together."""
        self.publishes -= publishes
        self.give(count)

    def take(self, count: int, own: PublishRoom | None = None) -> None:
        """Take room for so many bytes, for `own` if a publish is to keep them until it ends."""
        bound = self._settings.publish_bytes_in_flight_max
        with self._bytes:
            # The first publish always fits, or a body larger than the bound could never be sent.
            if self.publish_bytes > (0 if own is None else own.bytes) and self.publish_bytes + count > bound:
                raise self._overloaded(f"{self.publish_bytes} bytes of {bound} are being published")
            if own is not None:
                own.add(count)
            self.publish_bytes += count

    def make(self, count: int, own: PublishRoom) -> None:
        """Take room for memory that decoding needs. One large send keeps no small ones from being published."""
        bound = self._settings.publish_bytes_in_flight_max
        with self._bytes:
            others, wanted = self.made_bytes - own.made, self.made_bytes + count
            # Small ones have as much again, so that large ones do not shut them out.
            if others and wanted > (bound if own.made + count > _SMALL_BYTES else 2 * bound + _SMALL_BYTES):
                raise self._overloaded(f"what is being published takes {self.made_bytes} bytes of {bound} in memory")
            own.make_more(count)
            self.made_bytes += count

    def give(self, count: int) -> None:
        with self._bytes:
            self.publish_bytes -= count

    def end(self, own: PublishRoom) -> None:
        """Give back all room of a publish that has ended."""
        with self._bytes:
            own.ended = True
            self.publish_bytes -= own.bytes
            self.made_bytes -= own.made
        self.publishes -= 1

    def _overloaded(self, why: str) -> Overloaded:
        self.refused += 1
        return Overloaded(
            f"The hub is busy: {why}. Try again in {RETRY_AFTER_SECONDS} s.", retry_after=RETRY_AFTER_SECONDS
        )


class PublishRoom:
    """The room that one publish takes."""

    __slots__ = ("_room", "bytes", "ended", "made")

    def __init__(self, room: Room) -> None:
        self._room = room
        self.ended = False
        self.bytes = 0
        self.made = 0
        """The memory of what was decoded of it."""

    def __enter__(self) -> Self:
        self._room.publishes += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._room.end(self)

    def grow_to(self, count: int) -> None:
        if count > self.bytes:
            self.grow(count - self.bytes)

    def grow(self, count: int) -> None:
        """Take room for so many more bytes. Threads that decode a body may call this, one at a time."""
        self._room.take(count, self)

    def make(self, count: int) -> None:
        """Take room for memory that decoding needs. Threads may call this, too."""
        self._room.make(count, self)

    def make_more(self, count: int) -> None:
        """Note memory that `Room.make` counts."""
        self._require_begun()
        self.made += count

    def add(self, count: int) -> None:
        """Note bytes that `Room.take` counts."""
        self._require_begun()
        self.bytes += count

    def _require_begun(self) -> None:
        if self.ended:
            # A thread goes on with a request that was given up: nobody would give back its room.
            raise Overloaded("The request has ended.", retry_after=RETRY_AFTER_SECONDS)
