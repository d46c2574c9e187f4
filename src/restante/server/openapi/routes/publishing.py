"""Publishing, described."""

from __future__ import annotations

from restante.limits import PIPELINE_FRAMES_MAX, SEND_BYTES_MAX, SENDS_BYTES_MAX, SENDS_MAX
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject, of_schema
from restante.server.openapi.places import BATCH_ID, PARTITION, WRITING
from restante.server.openapi.routes.producers import NUMBERED_PROBLEMS, NUMBERING
from restante.server.openapi.schemas import ARROW, TEXT, UUID
from restante.server.requests.publish_headers import ACCEPT_HEADER, BATCH_HEADER, SOURCE_HEADER
from restante.wire import media


def _binary_header(name: str, text: str, example: str) -> Parameter:
    return Parameter(name=name, where="header", text=f"CloudEvents, binary mode: {text}", schema=TEXT, example=example)


_BATCH = Parameter(
    name=BATCH_HEADER,
    where="header",
    text="The id of an open batch: the messages become its items, less those that were stored before.",
    schema=UUID,
    example=BATCH_ID,
)
_SOURCE = Parameter(
    name=SOURCE_HEADER,
    where="header",
    text=(
        "Where the messages come from, percent-encoded: a topic and its partition, for example. Then each message has a "
        "`source_position`, and one at or below the position that its partition has stored of this source is skipped."
    ),
    schema={"type": "string", "minLength": 1},
    example="orders%2F3",
)
_ACCEPT = Parameter(
    name=ACCEPT_HEADER,
    where="header",
    text=(
        "When to answer: `stored`, the default, or `accepted`, as soon as the backplane has the messages, if the hub has "
        "one. It cannot be combined with a producer's numbers, a source, a batch or `visible_at`."
    ),
    schema={"type": "string", "enum": ["stored", "accepted"]},
    example="stored",
)
BODY_HEADERS = (
    Parameter(
        name="Content-Encoding",
        where="header",
        text=f"`gzip` or `zstd` if the body is packed. Unpacked it is at most {SEND_BYTES_MAX:,} bytes.",
        schema={"type": "string", "enum": ["gzip", "zstd", "identity"]},
        example="zstd",
    ),
    _binary_header("ce-specversion", "`1.0`. With it the body is the data of one event.", "1.0"),
    _binary_header("ce-id", "the event's id.", "invoice-1002"),
    _binary_header("ce-source", "the origin.", "billing"),
    _binary_header("ce-type", "the kind.", "invoice"),
    _binary_header("ce-recipient", "who gets it. Other attributes go as `ce-…` likewise, percent-encoded.", "alice"),
)
BODIES = (
    BodyContent(media_type=media.JSON, schema=of_schema("Messages")),
    BodyContent(media_type=media.CLOUDEVENT, schema=of_schema("CloudEvent")),
    BodyContent(media_type=media.CLOUDEVENTS_BATCH, schema=of_schema("CloudEvents")),
    BodyContent(media_type=media.ARROW, schema=ARROW),
    BodyContent(
        media_type="*/*", schema={"description": "The data of one CloudEvent whose attributes are `ce-…` headers."}
    ),
)
_STORED = Answer(
    status=201,
    text="Stored and safe on disk. Partitions without new messages are left out.",
    contents=(BodyContent(media_type=media.JSON, schema=of_schema("Receipt")),),
)
_ACCEPTED = Answer(
    status=202,
    text="In the backplane, and will be stored: `positions` says where. Of a publish with `Restante-Accept: accepted`.",
    contents=(BodyContent(media_type=media.JSON, schema=of_schema("Receipt")),),
)
_PROBLEMS = (
    "invalid_message",
    "message_conflict",
    "message_erased",
    "batch_unknown",
    "batch_sealed",
    "body_too_large",
    "unsupported_media_type",
    "partly_stored",
    *WRITING,
)
BODY_TEXT = """

A body is checked whole before anything is stored: one bad message stores nothing, and the problem names each by its
index. A message whose recipient and id were stored before, with equal origin, kind, bundleable, weight and data, is a
duplicate and skipped; with other content it is a `message_conflict`. So a publish that gives its messages ids may be
repeated safely.

With the header `Restante-Source` each message has a `source_position`, ascending, gaps allowed. The hub keeps the last
position of the source in each partition, in the commit of the messages, and skips what is not beyond it: `skipped` says how
many. Send the batches of a source in order. It cannot be combined with a producer's numbers, or with `visible_at`.

On a hub with a backplane the messages go through its log, and are whole per record of the log: one for each partition, or
several for a large publish. What is stored of a refused publish is in `partitions` of the problem. With
`Restante-Accept: accepted` the answer is `202` as soon as the log has them.

Bodies: JSON (`{"messages": [...]}`, a bare list, or one message as an object), one CloudEvent (structured, or binary with `ce-…` headers), a batch of CloudEvents, or an Arrow stream
with the fields of a message as columns by name (`id` as text or 16 bytes, `properties` as a map of text to text,
`expires_at` as a timestamp in UTC; `data` as bytes, as text, which is `text/plain`, or as a struct, list, map, number or
boolean, which is JSON); a missing column or a null takes the default. `text_id` may be sent as it was read.
"""
_NUMBERED_TEXT = """

With the headers of a producer's numbers the parcel is idempotent, whether its messages have ids or not: sent again, the
last parcel of the group is answered as it was then, with `"replayed": true`, and is stored once.
"""

PUBLISH = Operation(
    method="POST",
    path="/v1/messages",
    name="publish",
    summary="Publish messages",
    text="Leaves messages in the mailboxes of their recipients." + BODY_TEXT,
    parameters=(_BATCH, _SOURCE, _ACCEPT, *BODY_HEADERS),
    bodies=BODIES,
    answers=(_STORED, _ACCEPTED),
    problems=_PROBLEMS,
)
PARCEL = Operation(
    method="POST",
    path="/v1/partitions/{partition}/parcels",
    name="publishParcel",
    summary="Publish messages to one partition",
    text=(
        "The same as `POST /v1/messages`, for senders that sort by partition. Every recipient must belong to it: "
        "`GET /v1/recipients/{recipient}/partition` says where." + BODY_TEXT + _NUMBERED_TEXT
    ),
    parameters=(PARTITION, *NUMBERING, _BATCH, _SOURCE, _ACCEPT, *BODY_HEADERS),
    bodies=BODIES,
    answers=(_STORED, _ACCEPTED),
    problems=("partition_mismatch", "partition_unknown", *NUMBERED_PROBLEMS, *_PROBLEMS),
)
EACH = Operation(
    method="POST",
    path="/v1/sends",
    name="publishEach",
    summary="Make several small sends in one request",
    text=f"""
For programs with many small sends at the same time, which share a request: at most {SENDS_MAX:,} sends and {SENDS_BYTES_MAX:,}
bytes. Each send is what the JSON body of `POST /v1/messages` says, and is stored whole, or refused whole, as if it had come
alone. `answers` has a receipt, or a problem, for each in their order; most of them share one commit. Give the messages ids:
then the request may be repeated.
""",
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("SendsBody")),),
    answers=(
        Answer(
            status=200,
            text="Each send is stored and safe on disk, or has its problem.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("SendsAnswer")),),
        ),
    ),
    problems=("body_too_large", "unsupported_media_type", *WRITING),
)
LINK = f"""

The WebSocket `/v1/publish` is for many small publishes: they are pipelined, stored in the order sent, and each is
answered by its number. It takes a token as other routes do, in the header `Authorization`, and the role publisher; else
the handshake is answered `401` or `403`, and at another address `404`.

A text frame is `{{"number": n, "partition"?: p, "messages": [...]}}`. A binary frame is 4 bytes with a length
(big-endian), that many bytes of the same JSON without `messages`, and an Arrow stream. Each is answered by a text
frame: `{{"number": n, "accepted": ..., "duplicates": ..., "partitions": [...]}}` or `{{"number": n, "problem": {{...}}}}`.

A frame with `"partition": p, "producer": {{"group": g, "owner_level": l, "published_sequence": s}}` is a numbered parcel.
Its producer need not wait for the answer before it sends the next number; if one frame is refused, so are those after
it. With `"batch": b` the messages of a frame become items of a batch. With `"source": s` each message has a
`source_position`, and what is stored of the source is skipped. With `"accept": "accepted"` a frame is answered as soon as
the backplane has its messages.

At most {PIPELINE_FRAMES_MAX:,} frames are read ahead of their answers. When the hub shuts down it answers what it has
taken, and closes with the code 1001. When the token is revoked or expires, it closes within a second with the code 1008.
"""
SUBJECT = Subject(name="Publishing", text="Send messages." + LINK, operations=(PUBLISH, PARCEL, EACH))
