"""The nodes of one shared store: who is alive, and who owns which shard. It is kept in the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from restante.model.storage.changes import Changes
from restante.ports.store import Store, StoreReader


class NodeRow(NamedTuple):
    """A node as it states itself. It lives as long as its beat changes."""

    session: str
    """The session of this start of the node: the same node started again has another."""
    name: str
    beat: int
    lease_milliseconds: int
    about: bytes
    """The text that the node tells the others; the store does not read it."""


class ShardRow(NamedTuple):
    """A shard, and who owns it."""

    shard: int
    first: int
    """The shard's first partition. It ends where the next one begins."""
    owner: str | None
    """The session of a node."""
    heir: str | None
    """The session of the node that is to take it when its owner has let go of it."""
    fence: int


class StoreSurvey(NamedTuple):
    """All nodes and shards, as of one moment."""

    epoch: int
    """Raised when shards are split or joined."""
    nodes: tuple[NodeRow, ...]
    shards: tuple[ShardRow, ...]
    """The shards that have partitions, in their order."""


class WholeStore(Store, Protocol):
    """All shards of a shared store, taken together."""

    @property
    def shard_count(self) -> int: ...

    def cut(self, firsts: Sequence[int], changes: Changes | None = None) -> None:
        """Cut the store into shards that begin with these partitions; rows are changed in the same commit. Close it then."""
        ...


class NodeMembership(Protocol):
    """One node's place among the others. Every method may be called from any thread."""

    @property
    def session(self) -> str: ...

    @property
    def lost(self) -> str | None:
        """Why this session has ended for good, if it has: the others took this node for dead."""
        ...

    def survey(self) -> StoreSurvey: ...

    def expire(self, node: NodeRow) -> bool:
        """End the session of a node if its beat is still this one; nobody owns its shards then."""
        ...

    def take(self, shard: int) -> Store | None:
        """Own a shard that nobody owns; None if another node owns it, or is its heir."""
        ...

    def look(self) -> AbstractContextManager[StoreReader]:
        """The store as it is now, for a node that is to take a shard soon. It also makes ready what taking the shard will need."""
        ...

    def let_go(self, shard: int) -> None:
        """Give a shard back that is not open."""
        ...

    def appoint(self, shard: int, heir: str | None) -> bool:
        """State who is to take a shard of this node when it lets go of it; False if the shard is not its own, or the heir is gone."""
        ...

    def tell(self, about: bytes) -> None:
        """Say what the others are to know of this node, from the next beat on."""
        ...

    def lease_seconds(self) -> float:
        """How long this node may still answer if it does not renew its lease."""
        ...

    def require(self) -> None:
        """Raise `NotOwner` if another may own the shards of this node by now."""
        ...

    def close(self) -> None:
        """Leave. Shards that are still open are nobody's then."""
        ...
