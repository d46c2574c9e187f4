"""Partitions, described."""

from __future__ import annotations

from restante.server.openapi.html_pages.route_page import EXAMPLE_ADDRESS
from restante.server.openapi.parts import Answer, BodyContent, Example, Operation, Subject, of_schema
from restante.server.openapi.places import LIMIT, PARTITION, RECIPIENT, number
from restante.wire import media


def _status(partition: int, messages: int) -> dict[str, object]:
    state = {"visible_sequence": messages, "waiting": messages, "unfiled": int(messages > 0)}
    return {"partition": partition, **state, "owner": EXAMPLE_ADDRESS}


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
    examples=(
        Example(
            name="partitions",
            text="The first two.",
            target="/v1/partitions?limit=2",
            status=200,
            answer={"partitions": [_status(0, 0), _status(1, 0)], "next": "1"},
        ),
    ),
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
    examples=(
        Example(
            name="partition",
            text="With two messages.",
            target="/v1/partitions/7",
            status=200,
            answer=_status(7, 2),
            after=("publish",),
        ),
        Example(
            name="partition-unknown",
            text="There are sixteen unless the settings say otherwise.",
            target="/v1/partitions/16",
            status=404,
            code="partition_unknown",
        ),
    ),
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
    examples=(
        Example(
            name="place",
            text="Of one recipient.",
            target="/v1/recipients/alice/partition",
            status=200,
            answer={"partition": 7, "owner": EXAMPLE_ADDRESS},
        ),
    ),
)
SUBJECT = Subject(
    name="Partitions",
    text="A hub spreads its recipients over partitions, each with its own sequence numbers.",
    operations=(PARTITIONS, PARTITION_STATUS, PLACE),
)
