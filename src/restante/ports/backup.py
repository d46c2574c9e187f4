"""Backups of a store that is in use: what an engine adds for them. An engine may do without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from restante.model.storage.changes import Space


class SnapshotPart(NamedTuple):
    """One file of a snapshot. `chunks` reads it from its start: exactly `size_bytes`, in pieces of bounded size."""

    name: str
    size_bytes: int
    chunks: Callable[[], Iterator[bytes]]


class StoreSnapshot(Protocol):
    """The content of a store at one moment. Later commits do not change it. Close it."""

    @property
    def parts(self) -> Sequence[SnapshotPart]: ...

    def close(self) -> None:
        """Let go of what is kept for it. Closing again does nothing."""
        ...


class CutLapses(NamedTuple):
    """After so many seconds a store goes on by itself, whatever those do who asked it to wait."""

    prepared: float
    held: float
    kept: float


class StoreCut(Protocol):
    """A snapshot of a moment that several stores agree upon. It is prepared; commits go on."""

    def hold(self) -> bool:
        """Hold all commits: none is made after this returns, until they are released or the cut lapses. False: it has lapsed already."""
        ...

    def release(self) -> float | None:
        """Commits go on; gives how many seconds they were held. None: it had lapsed, and was of no use."""
        ...

    def snapshot(self, leaving_out: Sequence[Space] = ()) -> StoreSnapshot:
        """The snapshot of the moment when commits were held. Call this once."""
        ...

    def close(self) -> None:
        """Let go of everything. Closing again does nothing."""
        ...


@runtime_checkable
class SnapshotStore(Protocol):
    """A store that can give a snapshot of itself."""

    def snapshot(self, leaving_out: Sequence[Space] = ()) -> StoreSnapshot:
        """Without the entries of some spaces. Holds up no commit. One at a time: `Unavailable` while another is open."""
        ...

    def cut(self, lapses: CutLapses) -> StoreCut:
        """Prepare a snapshot of a moment that is agreed upon with other stores; it counts as one that is open."""
        ...
