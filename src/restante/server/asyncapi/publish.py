"""The pipelined link, described frame by frame."""

from __future__ import annotations

from restante.limits import SEND_MESSAGES_MAX
from restante.server.asyncapi.parts import FrameShape, Saying, SocketChannel
from restante.server.openapi import problems
from restante.server.openapi.parts import Schema, of_schema
from restante.server.openapi.routes.publishing import LINK
from restante.server.openapi.schemas import BINARY, TEXT, UUID, record

_NUMBER: Schema = {"type": "integer", "description": "The client's own; it comes back with the answer."}
_PRODUCER = record(
    {
        "group": {"type": "integer", "minimum": 0},
        "owner_level": {"type": "integer", "minimum": 0},
        "published_sequence": {"type": "integer", "minimum": 0},
        "made_anew": {"type": "boolean", "default": False},
    },
    optional=("made_anew",),
    description="The numbers of a producer, which belong to one partition.",
)
_FIELDS: dict[str, Schema] = {
    "number": _NUMBER,
    "partition": {"type": "integer", "minimum": 0},
    "producer": _PRODUCER,
    "batch": UUID,
    "source": {**TEXT, "description": "Where the messages come from; each has a `source_position`."},
    "accept": {
        "type": "string",
        "enum": ["stored", "accepted"],
        "description": "Whether to answer when they are stored, or when the backplane has them.",
    },
}
_MESSAGES: Schema = {"type": "array", "items": of_schema("Message"), "maxItems": SEND_MESSAGES_MAX}

FRAMES = (
    FrameShape(
        name="parcel",
        text="Messages as JSON, in a text frame.",
        schema=record(
            {**_FIELDS, "messages": _MESSAGES}, optional=("partition", "producer", "batch", "source", "accept")
        ),
        examples=({"number": 1, "messages": [{"recipient": "alice", "data": {"text": "hello"}}]},),
    ),
    FrameShape(
        name="arrowParcel",
        text=(
            "Messages as Arrow, in a binary frame: 4 bytes with a length (big-endian), that many bytes of the JSON of a "
            "parcel without `messages`, and an Arrow stream."
        ),
        schema=BINARY,
        examples=(),
        content_type="application/octet-stream",
    ),
    FrameShape(
        name="receipt",
        text="The messages of the frame with this number are stored and safe on disk.",
        schema={"allOf": [of_schema("Receipt"), {"properties": {"number": _NUMBER}, "required": ["number"]}]},
        examples=(
            {
                "number": 1,
                "accepted": 1,
                "duplicates": 0,
                "partitions": [{"partition": 7, "first_sequence_number": 1, "last_sequence_number": 1}],
            },
        ),
    ),
    FrameShape(
        name="refusal",
        text="The frame with this number is refused, and nothing of it is stored. A frame that cannot be read has none.",
        schema=record({"number": _NUMBER, "problem": of_schema("Problem")}, optional=("number",)),
        examples=({"number": 1, "problem": problems.example("invalid_message")},),
    ),
)
CHANNEL = SocketChannel(
    name="publish",
    path="/v1/publish",
    title="The pipelined link",
    text=LINK,
    frames=FRAMES,
    said=(),
    heard=(
        Saying(
            name="publish",
            text="Publish messages; others may be sent before the answer comes.",
            frames=("parcel", "arrowParcel"),
            answers=("receipt", "refusal"),
        ),
    ),
    close_codes={"draining": 1001, "token_expired": 1008, "overloaded": 1013},
)
