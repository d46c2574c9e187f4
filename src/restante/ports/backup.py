"""What an engine adds to its store so that it can be backed up while it is in use. An engine may do without."""

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
    """All that was committed at one moment. It stays as it is until it is closed, whatever is committed meanwhile."""

    @property
    def parts(self) -> Sequence[SnapshotPart]: ...

    def close(self) -> None:
        """Let go of what is kept for it. Closing again does nothing."""
        ...


@runtime_checkable
class SnapshotStore(Protocol):
    """A store that can give a snapshot of itself."""

    def snapshot(self, leaving_out: Sequence[Space] = ()) -> StoreSnapshot:
        """Without the entries of some spaces. Holds up no commit. One at a time: `Unavailable` while another is open."""
        ...
