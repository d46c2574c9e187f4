"""The backplane: an ordered, durable log for each partition, between the doors that take messages and their owners.

A door hands in records. The log keeps the records that it has taken, in one order. The owner of a partition reads its log
from any position. Positions ascend; gaps are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol


class Delivered(NamedTuple):
    """The log has the record, at this position, durably."""

    position: int


class Undelivered(NamedTuple):
    """The log did not say that it has the record."""

    reason: str
    maybe: bool
    """Whether the log may have it, or may get it still."""


HearOutcome = Callable[[Delivered | Undelivered], None]
"""Told once what became of a record, from a thread of the backplane; it must not wait."""


class FetchedRecord(NamedTuple):
    partition: int
    position: int
    content: bytes


class LogEnds(NamedTuple):
    """The first position that the log of a partition still has, and the next that it will give."""

    first: int
    next: int


class BackplaneReader(Protocol):
    """Reads the logs of some partitions, each from a position on, in order. Used by one thread."""

    def take(self, records_max: int, seconds: float) -> Sequence[FetchedRecord]:
        """The next records, waited for so long if there are none; `Unavailable` if the log cannot be read now."""
        ...

    def close(self) -> None: ...


class Backplane(Protocol):
    """Every method may be called from any thread, and raises only errors of `restante.errors`."""

    @property
    def name(self) -> str:
        """The name of the log: it names the source whose positions the owners store."""
        ...

    @property
    def record_bytes_max(self) -> int:
        """How many bytes a record may have."""
        ...

    def check(self, partition_count: int) -> None:
        """Whether the log has as many partitions as the hub: `InvalidSettings` if not, `Unavailable` if it does not answer."""
        ...

    def produce(self, partition: int, content: bytes, report: HearOutcome) -> None:
        """Hand a record in. `Unavailable`: it was not taken, and `report` is not called."""
        ...

    def reader(self, starts: Mapping[int, int]) -> BackplaneReader:
        """A reader of these partitions, from these positions on."""
        ...

    def ends(self, partitions: Sequence[int]) -> dict[int, LogEnds]:
        """The ends of the logs; `Unavailable` if nobody says."""
        ...

    def failure(self) -> str | None:
        """Why records are not taken at present, if that is known."""
        ...

    def close(self) -> None:
        """Report what is under way, and let go. Closing again does nothing."""
        ...
