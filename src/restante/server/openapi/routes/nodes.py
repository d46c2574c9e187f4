"""Nodes and shards, described."""

from __future__ import annotations

from restante.calls.nodes import DrainNode
from restante.server.openapi.parts import Operation, Parameter, QueryText, Subject, json_answer
from restante.server.openapi.places import READING
from restante.server.openapi.query import query
from restante.server.openapi.schemas import TEXT

_NODE = Parameter(name="node", where="path", text="The name of a node, percent-encoded.", schema=TEXT, example="mail-2")

NODES = Operation(
    method="GET",
    path="/v1/nodes",
    name="listNodes",
    summary="Show who has which partitions",
    text="""
All nodes, and all shards with their partitions and owners. A client may send what concerns a partition straight to the address
of its shard; any other node brings it there. `reason` is for operators; to others it is null.
""",
    answers=(json_answer(200, "The map.", "NodeMap", "Cache-Control"),),
    problems=("overloaded", "unavailable", "not_owner"),
)
DRAIN = Operation(
    method="POST",
    path="/v1/nodes/{node}/drain",
    name="drainNode",
    summary="Have a node give its shards away",
    text="""
From now on the node takes no shard, and gives its own to the others, one after the other. The answer lists those that it still has: ask
again, or look at the map, until there is none; then the node may be ended. The last node cannot be drained.
""",
    parameters=(_NODE, *query(DrainNode, dry_run=QueryText(text="Only say which shards it would be.", example=True))),
    answers=(json_answer(200, "What it still has.", "NodeDrain", "Cache-Control"),),
    problems=("node_unknown", "last_node", *READING),
)
ROUNDS = Operation(
    method="GET",
    path="/v1/rounds",
    name="listRounds",
    summary="List consignments that are being committed over several shards",
    text="""
As each shard sees them, the oldest first: home asks, home has decided, or a shard holds messages until it hears what was decided.
Normally they last for moments. One that is old waits for a shard; `advice` says for which.
""",
    answers=(json_answer(200, "All of them.", "RoundsInDoubt", "Cache-Control"),),
    problems=READING,
)
SUBJECT = Subject(
    name="Nodes",
    text="""
A node is a running hub; a shard is a range of partitions that one node has at a time. A hub in one process is one node with one shard.
""",
    operations=(NODES, DRAIN, ROUNDS),
)
