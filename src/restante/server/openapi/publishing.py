"""Publishing, described."""

from __future__ import annotations

import pyarrow as pa

from restante.limits import PIPELINE_FRAMES_MAX, SEND_BYTES_MAX
from restante.server.openapi.parts import Answer, BodyContent, Example, Operation, Parameter, Subject, of_schema
from restante.server.openapi.places import BATCH_ID, MESSAGE_ID, OTHER_ID, PARTITION, SECOND_ID, WRITING
from restante.server.openapi.producers import NUMBERED_PROBLEMS, NUMBERING, numbered
from restante.server.openapi.schemas import ARROW, TEXT, UUID
from restante.server.requests.batch_names import HEADER as BATCH_HEADER
from restante.wire import media

_JSON = {"Content-Type": media.JSON}
INVOICE = {
    "id": MESSAGE_ID,
    "recipient": "alice",
    "origin": "billing",
    "kind": "invoice",
    "data": {"number": 1001, "amount": "12.50"},
    "properties": {"night": "7"},
}
SECOND = {
    "id": SECOND_ID,
    "recipient": "alice",
    "origin": "billing",
    "kind": "invoice",
    "data_base64": "JVBERi0xLjcK",
    "media_type": "application/pdf",
}
_NUMBERED = {"messages": [{"recipient": "alice", "data": 1}, {"recipient": "alice", "data": 2}]}
_EVENT = {
    "specversion": "1.0",
    "id": MESSAGE_ID,
    "source": "billing",
    "type": "invoice",
    "recipient": "alice",
    "datacontenttype": "application/json",
    "data": {"number": 1001},
}
_SECOND_EVENT = {**_EVENT, "id": "invoice-1002", "time": "2030-01-31T11:59:00Z", "data": {"number": 1002}}


def _arrow() -> bytes:
    """Two messages as an Arrow stream."""
    table = pa.table(
        {
            "id": [MESSAGE_ID, SECOND_ID],
            "recipient": ["alice", "alice"],
            "origin": ["billing", "billing"],
            "kind": ["invoice", "invoice"],
            "data": pa.array([b'{"number":1001}', b'{"number":1002}'], pa.binary()),
            "media_type": ["application/json", "application/json"],
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _receipt(accepted: int, duplicates: int = 0) -> dict[str, object]:
    stored = [{"partition": 7, "first_sequence_number": 1, "last_sequence_number": accepted}] if accepted else []
    return {"accepted": accepted, "duplicates": duplicates, "partitions": stored}


def _binary_header(name: str, text: str, example: str) -> Parameter:
    return Parameter(name=name, where="header", text=f"CloudEvents, binary mode: {text}", schema=TEXT, example=example)


_BATCH = Parameter(
    name=BATCH_HEADER,
    where="header",
    text="The id of an open batch: the messages become its items, less those that were stored before.",
    schema=UUID,
    example=BATCH_ID,
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
_PROBLEMS = (
    "invalid_message",
    "message_conflict",
    "message_erased",
    "batch_unknown",
    "batch_sealed",
    "body_too_large",
    "unsupported_media_type",
    *WRITING,
)
BODY_TEXT = """

A body is checked whole before anything is stored: one bad message stores nothing, and the problem names each by its
index. A message whose recipient and id were stored before, with equal origin, kind, bundleable, weight and data, is a
duplicate and skipped; with other content it is a `message_conflict`. So a publish that gives its messages ids may be
repeated safely.

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
    parameters=(_BATCH, *BODY_HEADERS),
    bodies=BODIES,
    answers=(_STORED,),
    problems=_PROBLEMS,
    examples=(
        Example(
            name="publish",
            text="Two messages, one with JSON and one with bytes.",
            target="/v1/messages",
            headers=_JSON,
            body={"messages": [INVOICE, SECOND]},
            status=201,
            answer=_receipt(2),
        ),
        Example(
            name="publish-again",
            text="The same again: skipped.",
            target="/v1/messages",
            headers=_JSON,
            body={"messages": [INVOICE]},
            status=201,
            answer=_receipt(0, 1),
            after=("publish",),
        ),
        Example(
            name="publish-event",
            text="One CloudEvent, structured.",
            target="/v1/messages",
            headers={"Content-Type": media.CLOUDEVENT},
            body=_EVENT,
            status=201,
            answer=_receipt(1),
        ),
        Example(
            name="publish-event-binary",
            text="One CloudEvent whose attributes are headers; the body is its data.",
            target="/v1/messages",
            headers={
                "Content-Type": "text/plain",
                "ce-specversion": "1.0",
                "ce-id": "invoice-1002",
                "ce-source": "billing",
                "ce-type": "invoice",
                "ce-recipient": "alice",
            },
            body=b"Thank you for your order.",
            status=201,
            answer=_receipt(1),
        ),
        Example(
            name="publish-events",
            text="A batch of CloudEvents.",
            target="/v1/messages",
            headers={"Content-Type": media.CLOUDEVENTS_BATCH},
            body=[_EVENT, _SECOND_EVENT],
            status=201,
            answer=_receipt(2),
        ),
        Example(
            name="publish-arrow",
            text="An Arrow stream of two messages.",
            target="/v1/messages",
            headers={"Content-Type": media.ARROW},
            body=_arrow(),
            status=201,
            answer=_receipt(2),
        ),
        Example(
            name="publish-batch",
            text="Bound to a batch: its status tells how many have been collected.",
            target="/v1/messages",
            headers={**_JSON, BATCH_HEADER: BATCH_ID},
            body={"messages": [INVOICE, SECOND]},
            status=201,
            answer=_receipt(2),
            after=("batch-open",),
        ),
        Example(
            name="publish-batch-unknown",
            text="There is no such batch: nothing is stored.",
            target="/v1/messages",
            headers={**_JSON, BATCH_HEADER: OTHER_ID},
            body={"messages": [INVOICE]},
            status=404,
            code="batch_unknown",
        ),
        Example(
            name="publish-invalid",
            text="A blank recipient and an unknown field: each is named.",
            target="/v1/messages",
            headers=_JSON,
            body={"messages": [{"recipient": " ", "data": 1}, {"recipient": "alice", "data": 1, "wieght": 2}]},
            status=400,
            code="invalid_message",
        ),
        Example(
            name="publish-conflict",
            text="Other data under an id that was stored before.",
            target="/v1/messages",
            headers=_JSON,
            body={"messages": [{**INVOICE, "data": {"number": 9}}]},
            status=409,
            code="message_conflict",
            after=("publish",),
        ),
        Example(
            name="publish-erased",
            text="A message that was erased for good does not come back.",
            target="/v1/messages",
            headers=_JSON,
            body={"messages": [INVOICE]},
            status=410,
            code="message_erased",
            after=("publish", "erase"),
        ),
        Example(
            name="publish-numbered",
            text="The numbers of a producer belong to one partition.",
            target="/v1/messages",
            headers={**_JSON, **numbered()},
            body=_NUMBERED,
            status=400,
            code="invalid_request",
        ),
        Example(
            name="publish-malformed",
            text="Not JSON.",
            target="/v1/messages",
            headers=_JSON,
            body=b'{"messages": [',
            status=400,
            code="invalid_request",
        ),
        Example(
            name="publish-form",
            text="A body type that is not understood.",
            target="/v1/messages",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=b"recipient=alice",
            status=415,
            code="unsupported_media_type",
        ),
    ),
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
    parameters=(PARTITION, *NUMBERING, _BATCH, *BODY_HEADERS),
    bodies=BODIES,
    answers=(_STORED,),
    problems=("partition_mismatch", "partition_unknown", *NUMBERED_PROBLEMS, *_PROBLEMS),
    examples=(
        Example(
            name="parcel",
            text="One message for the partition of its recipient.",
            target="/v1/partitions/7/parcels",
            headers=_JSON,
            body={"messages": [INVOICE]},
            status=201,
            answer=_receipt(1),
        ),
        Example(
            name="parcel-mismatch",
            text="The recipient belongs to another partition.",
            target="/v1/partitions/4/parcels",
            headers=_JSON,
            body={"messages": [INVOICE]},
            status=400,
            code="partition_mismatch",
        ),
        Example(
            name="parcel-unknown",
            text="There is no such partition.",
            target="/v1/partitions/99/parcels",
            headers=_JSON,
            body={"messages": [INVOICE]},
            status=404,
            code="partition_unknown",
        ),
        Example(
            name="parcel-numbered",
            text="Numbered by its producer: the messages have the numbers 0 and 1.",
            target="/v1/partitions/7/parcels",
            headers={**_JSON, **numbered()},
            body=_NUMBERED,
            status=201,
            answer=_receipt(2),
        ),
        Example(
            name="parcel-replayed",
            text="The same again, since no answer came: answered as before, stored once.",
            target="/v1/partitions/7/parcels",
            headers={**_JSON, **numbered()},
            body=_NUMBERED,
            status=201,
            answer={**_receipt(2), "replayed": True},
            after=("parcel-numbered",),
        ),
        Example(
            name="parcel-gap",
            text="The number 3, and 2 would be next.",
            target="/v1/partitions/7/parcels",
            headers={**_JSON, **numbered(sequence=3)},
            body=_NUMBERED,
            status=409,
            code="invalid_client_state",
            after=("parcel-numbered",),
        ),
        Example(
            name="parcel-fenced",
            text="Another producer has taken the group over.",
            target="/v1/partitions/7/parcels",
            headers={**_JSON, **numbered(sequence=2)},
            body=_NUMBERED,
            status=409,
            code="producer_disconnected",
            after=("parcel-numbered", "link-higher"),
        ),
        Example(
            name="parcel-half-numbered",
            text="One of the three headers is missing.",
            target="/v1/partitions/7/parcels",
            headers={**_JSON, "Restante-Producer-Group": "42", "Restante-Published-Sequence": "0"},
            body=_NUMBERED,
            status=400,
            code="invalid_request",
        ),
    ),
)
LINK = f"""

The WebSocket `/v1/publish` is for many small publishes: they are pipelined, stored in the order sent, and each is
answered by its number. It takes a token as other routes do, in the header `Authorization`, and the role publisher; else
the handshake is answered `401` or `403`, and at another address `404`.

A text frame is `{{"number": n, "partition"?: p, "messages": [...]}}`. A binary frame is 4 bytes with a length
(big-endian), that many bytes of the same JSON without `messages`, and an Arrow stream. Each is answered by a text
frame: `{{"number": n, "accepted": ..., "duplicates": ..., "partitions": [...]}}` or `{{"number": n, "problem": {{...}}}}`.

A frame with `"partition": p, "producer": {{"group": g, "owner_level": l, "published_sequence": s}}` is a numbered parcel.
Its producer need not wait for the answer before it sends the next number; if one frame is refused, so are those behind
it. With `"batch": b` the messages of a frame become items of a batch.

At most {PIPELINE_FRAMES_MAX:,} frames are read ahead of their answers. When the hub shuts down it answers what it has
taken, and closes with the code 1001. When the token is revoked or expires, it closes within a second with the code 1008.
"""
SUBJECT = Subject(name="Publishing", text="Messages in." + LINK, operations=(PUBLISH, PARCEL))
