"""Partitions, and the nodes and shards that have them, described."""

from __future__ import annotations

from restante.calls.nodes import DrainNode
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Operation,
    Parameter,
    QueryText,
    Subject,
    json_answer,
    of_schema,
)
from restante.server.openapi.places import LIMIT, PARTITION, READING, RECIPIENT, number, query
from restante.server.openapi.schemas import TEXT
from restante.wire import media

_NODE = Parameter(name="node", where="path", text="The name of a node, percent-encoded.", schema=TEXT, example="mail-2")

PARTITIONS = Operation(
    method="GET",
    path="/v1/partitions",
    name="listPartitions",
    summary="List partitions",
    text="How far each has come, how much waits in it, and how many mailbags are not filed yet.",
    parameters=(
        number("limit", LIMIT.text, least=1, example=50),
        number("after", "The `next` of the page before.", least=0, example=7),
    ),
    answers=(
        Answer(
            status=200,
            text="A page.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("PartitionPage")),),
        ),
    ),
    problems=("unavailable",),
)
PARTITION_STATUS = Operation(
    method="GET",
    path="/v1/partitions/{partition}",
    name="showPartition",
    summary="Show a partition",
    text="The same for one partition.",
    parameters=(PARTITION,),
    answers=(
        Answer(
            status=200,
            text="Its state.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("PartitionStatus")),),
        ),
    ),
    problems=("partition_unknown", "unavailable"),
)
PLACE = Operation(
    method="GET",
    path="/v1/recipients/{recipient}/partition",
    name="partitionOf",
    summary="Say where a recipient lives",
    text="The partition that the recipient's messages go to, be there any or not, and the hub that owns it.",
    parameters=(RECIPIENT,),
    answers=(
        Answer(
            status=200,
            text="The place.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("Place")),),
        ),
    ),
    problems=("unavailable",),
)
SUBJECT = Subject(
    name="Partitions",
    text="A hub spreads its recipients over partitions, each with its own sequence numbers.",
    operations=(PARTITIONS, PARTITION_STATUS, PLACE),
)
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
NODES_SUBJECT = Subject(
    name="Nodes",
    text="""
A node is a running hub; a shard is a range of partitions that one node has at a time. A hub in one process is one node with one shard.
""",
    operations=(NODES, DRAIN, ROUNDS),
)
