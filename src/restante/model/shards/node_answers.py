"""The map: which nodes there are, which shards, and who has which, as a hub answers it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.errors import LastNode, NodeUnknown, RestanteError

Uri = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
WholeNumber = Annotated[int, Meta(ge=0)]

OWN_NODE = "local"
"""The name of a node that nobody gave one."""


class NodeState(Enum):
    SERVING = "serving"
    DRAINING = "draining"
    """The node gives its shards to others, and takes none."""
    SILENT = "silent"
    """The node was not heard of for longer than a lease."""


class ShardState(Enum):
    SERVING = "serving"
    LOADING = "loading"
    MOVING = "moving"
    """The shard's owner hands it over; calls wait."""
    IN_DOUBT = "in_doubt"
    """The shard's owner does not know for certain that it is: it answers nothing until it does."""
    SILENT = "silent"
    FAILED = "failed"
    """The shard cannot be loaded, or its store has stopped."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A running hub process, or several that share one address."""

    node: str
    address: Uri | None = None
    """Null: it is reached only from within its own process."""
    state: NodeState = NodeState.SERVING
    version: str = ""
    formats: tuple[int, ...] = ()
    """The formats of stored data that it can write."""
    settings: str = ""
    """A digest of what all nodes must have alike."""
    since: datetime


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions that lie together, and who has them now."""

    shard: WholeNumber
    first: WholeNumber
    last: WholeNumber
    node: str | None
    """Null: nobody has it."""
    address: Uri | None = None
    fence: WholeNumber = 0
    """Rises with every owner."""
    state: ShardState = ShardState.SERVING
    reason: str | None = None
    """Why the shard does not serve; operators see it."""
    lease_seconds: float | None = None
    """The time that is left of the owner's lease; null: it has the store for as long as it runs."""


class NodeMap(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes and shards."""

    epoch: WholeNumber
    """Rises when partitions are cut into other shards."""
    partition_count: WholeNumber
    nodes: tuple[NodeStatus, ...]
    shards: tuple[ShardStatus, ...]

    def owner_of(self, partition: int) -> str | None:
        """The address of the node that has a partition; None if nobody has it."""
        return next((own.address for own in self.shards if own.first <= partition <= own.last), None)


class NodeDrain(msgspec.Struct, frozen=True, kw_only=True):
    """A node that gives its shards away: those that it still has. None: it may be ended."""

    node: str
    state: NodeState
    shards: tuple[int, ...]


class DoubtState(Enum):
    PREPARING = "preparing"
    """Home asks the shards whether they can deliver."""
    DECIDED = "decided"
    """Home has decided; some shards are not known to have carried it out."""
    PREPARED = "prepared"
    """A shard holds the messages until it hears what home has decided."""


class RoundInDoubt(msgspec.Struct, frozen=True, kw_only=True):
    """A consignment over several shards that is being committed, as one of them sees it."""

    consignment: str
    round: WholeNumber
    state: DoubtState
    shard: WholeNumber
    """The shard that reports the doubt."""
    partitions: tuple[int, ...]
    """The partitions that home waits for; or, of a shard that is prepared, those of its own that hold messages."""
    home: WholeNumber
    """The partition that decides."""
    messages: WholeNumber
    since: datetime
    """Decided then; else, known to the process of the shard since then."""
    advice: str


class RoundsInDoubt(msgspec.Struct, frozen=True, kw_only=True):
    rounds: tuple[RoundInDoubt, ...]


def placed(found: NodeMap, address: str) -> NodeMap:
    """The map, with this address for whatever has none of its own."""
    return msgspec.structs.replace(
        found,
        nodes=tuple(msgspec.structs.replace(own, address=own.address or address) for own in found.nodes),
        shards=tuple(
            own if own.node is None else msgspec.structs.replace(own, address=own.address or address)
            for own in found.shards
        ),
    )


def without_reasons(found: NodeMap) -> NodeMap:
    """The map as everybody may see it."""
    shards = tuple(msgspec.structs.replace(own, reason=None) for own in found.shards)
    return msgspec.structs.replace(found, shards=shards)


def not_drained(node: str, only: str) -> RestanteError:
    """Why a node cannot be drained where there is but one."""
    if node == only:
        return LastNode(f"{node} is the only node: nobody could take its shards. Start another one first.", node=node)
    return NodeUnknown(f"There is no node {node[:64]!r}. GET /v1/nodes lists them.", node=node[:64])


def all_in_doubt(parts: Iterable[RoundsInDoubt]) -> RoundsInDoubt:
    """The rounds in doubt of several shards, the oldest first."""
    found = [own for part in parts for own in part.rounds]
    return RoundsInDoubt(rounds=tuple(sorted(found, key=lambda own: (own.since, own.consignment, own.shard))))
