"""Nodes and shards: who has which partitions, and a node that gives its own away."""

from __future__ import annotations

from restante.calls.call import Call
from restante.model.shards.node_answers import NodeDrain, NodeMap, RoundsInDoubt


class ReadNodes(Call[NodeMap], frozen=True):
    """The map of nodes and shards."""


class DrainNode(Call[NodeDrain], frozen=True):
    """Have a node give its shards to the others, one after the other. The same again says how far it is."""

    node: str
    dry_run: bool = False


class ListRounds(Call[RoundsInDoubt], frozen=True):
    """The consignments over several shards that are being committed, as each shard sees them; the oldest first."""
