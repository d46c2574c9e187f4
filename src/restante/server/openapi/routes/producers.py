"""Producers that number what they publish, and sources that have positions, described."""

from __future__ import annotations

from restante.calls.producers import ListProducers, ListSources
from restante.limits import OWNER_LEVEL_MAX, PRODUCER_GROUP_MAX, PUBLISHED_SEQUENCE_MAX
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject, of_schema
from restante.server.openapi.places import (
    LIMIT,
    PARTITION,
    READING,
    SOURCE_NAME,
    WRITING,
    after_text,
    after_token,
    query,
)
from restante.server.requests.producer_numbers import GROUP, LEVEL, MADE_ANEW, SEQUENCE
from restante.wire import media


def _whole(most: int) -> dict[str, object]:
    return {"type": "integer", "format": "int64", "minimum": 0, "maximum": most}


def _header(name: str, text: str, *, most: int, example: int) -> Parameter:
    return Parameter(name=name, where="header", text=text, schema=_whole(most), example=example)


NUMBERING = (
    _header(
        GROUP,
        f"The producer group that numbers this parcel. With it come `{LEVEL}` and `{SEQUENCE}`: all three, or none.",
        most=PRODUCER_GROUP_MAX,
        example=42,
    ),
    _header(
        LEVEL, "The owner level of the producer; a higher one takes the group over.", most=OWNER_LEVEL_MAX, example=0
    ),
    _header(
        SEQUENCE,
        "The number of the parcel's first message. The numbers of a group go from 0 on, and from "
        f"{PUBLISHED_SEQUENCE_MAX:,} to 0 again.",
        most=PUBLISHED_SEQUENCE_MAX,
        example=0,
    ),
    Parameter(
        name=MADE_ANEW,
        where="header",
        text="Whether the messages of a repetition were made again, for example after a crash. Then their content identifies them, "
        "whatever their ids are.",
        schema={"type": "boolean"},
        example=False,
    ),
)
NUMBERED_PROBLEMS = ("invalid_client_state", "producer_disconnected")


_GROUP = Parameter(
    name="group", where="path", text="The producer group.", schema=_whole(PRODUCER_GROUP_MAX), example=42
)

LINK = Operation(
    method="POST",
    path="/v1/partitions/{partition}/links",
    name="openLink",
    summary="Link a producer to a partition",
    text="""
Takes a producer group up, and answers where its numbers are: the next one follows `last_published_sequence_number`, and
is 0 if that is null. Producers of a lower owner level are refused from then on.

Left out, `producer_group` is a new group that the hub chooses, `owner_level` that of the group (0 for a new one). At the
level of the group, an offered last number must be the hub's own, else the link is refused and the problem has the number. With
a higher level the producer may offer any number to go on after it, or none to begin at 0. A group that the hub does not
know has no last number to offer.

A link is not needed: numbers may be sent without one, from 0 on.
""",
    parameters=(PARTITION,),
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("LinkBody")),),
    body_required=False,
    answers=(
        Answer(
            status=201,
            text="Linked.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("ProducerState")),),
        ),
    ),
    problems=(
        "partition_unknown",
        "producer_disconnected",
        "link_refused",
        "body_too_large",
        "unsupported_media_type",
        *WRITING,
    ),
)
PRODUCER = Operation(
    method="GET",
    path="/v1/partitions/{partition}/producers/{group}",
    name="showProducer",
    summary="Show a producer group",
    text="Its owner level and its last number in this partition, when it was last used, and how often what it met with.",
    parameters=(PARTITION, _GROUP),
    answers=(
        Answer(
            status=200,
            text="Its state.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("ProducerState")),),
        ),
    ),
    problems=("partition_unknown", "producer_unknown", *READING),
)
PRODUCERS = Operation(
    method="GET",
    path="/v1/partitions/{partition}/producers",
    name="listProducers",
    summary="List producer groups",
    text="Those that the hub knows in this partition, by their groups.",
    parameters=(PARTITION, *query(ListProducers, limit=LIMIT, after=after_token(19, example="42"))),
    answers=(
        Answer(
            status=200,
            text="A page.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("ProducerPage")),),
        ),
    ),
    problems=("partition_unknown", *READING),
)
SUBJECT = Subject(
    name="Producers",
    text=f"""
A producer that numbers its messages may send a parcel again without fear: the hub stores it once. Numbers belong to a
producer group in a partition, and go with `POST /v1/partitions/{{partition}}/parcels` in the headers `{GROUP}`,
`{LEVEL}` and `{SEQUENCE}`, or in `producer` of a frame of `/v1/publish`.

The hub takes exactly the next number. The last parcel of a group and level again, with the same messages, is answered
as it was then, with `"replayed": true`. Anything else is `invalid_client_state`, and nothing of it is stored. A producer
with a higher owner level takes the group over; a lower one is refused with `producer_disconnected`. Groups are numbers
of up to 63 bits: some languages cannot read them exactly from JSON unless told to.
""",
    operations=(LINK, PRODUCER, PRODUCERS),
)

_SOURCE = "/v1/sources/{source}"


def _json(text: str, schema: str) -> tuple[Answer, ...]:
    contents = (BodyContent(media_type=media.JSON, schema=of_schema(schema)),)
    return (Answer(status=200, text=text, contents=contents, headers=("Cache-Control",)),)


SOURCES = Operation(
    method="GET",
    path="/v1/sources",
    name="listSources",
    summary="List sources",
    text="By name, each with the last position that every partition has stored of it.",
    parameters=query(ListSources, limit=LIMIT, after=after_text("b3JkZXJzLzMA")),
    answers=_json("A page.", "SourcePage"),
    problems=READING,
)
SHOW = Operation(
    method="GET",
    path=_SOURCE,
    name="showSource",
    summary="Show a source",
    text="The last position that every partition has stored of it, how many messages, and when.",
    parameters=(SOURCE_NAME,),
    answers=_json("How far it is stored.", "SourceStatus"),
    problems=("source_unknown", *READING),
)
RESET = Operation(
    method="POST",
    path=_SOURCE + "/reset",
    name="resetSource",
    summary="Set the position of a source",
    text="""
What lies beyond the position is stored when it is sent again; null lets all of it be stored. It holds for the partitions that know
the source, or for `partition` alone. Messages that are stored stay. Those that have ids are duplicates when they come
again; those without are stored again.
""",
    parameters=(SOURCE_NAME,),
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("ResetSourceBody")),),
    answers=_json("How far it is stored now.", "SourceStatus"),
    problems=("source_unknown", "body_too_large", "unsupported_media_type", *WRITING),
)
DELETE = Operation(
    method="DELETE",
    path=_SOURCE,
    name="deleteSource",
    summary="Forget a source",
    text="Forgets its positions, for a source that is gone for good. The messages stay.",
    parameters=(SOURCE_NAME,),
    answers=(Answer(status=204, text="Done."),),
    problems=("source_unknown", *WRITING),
)
SOURCES_SUBJECT = Subject(
    name="Sources",
    text="""
A source is an ordered log elsewhere, like a partition of a Kafka topic. A publish with the header `Restante-Source` says
the `source_position` of each message. Every partition keeps the last position that it has stored, in the same commit as
the messages. So a source may be read again from any earlier position, in other batches, by another process: nothing is
stored twice, for as long as the hub lives, and messages need no ids.

Send the batches of a source in order: the next after the last is answered, or on one `/v1/publish`. Begin again at the first
record that is not known to be stored; earlier does no harm.
""",
    operations=(SOURCES, SHOW, RESET, DELETE),
)
