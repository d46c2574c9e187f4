"""Partitions, described."""

from __future__ import annotations

from restante.server.openapi.parts import Answer, BodyContent, Operation, Subject, of_schema
from restante.server.openapi.places import LIMIT, PARTITION, RECIPIENT, number
from restante.wire import media

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
