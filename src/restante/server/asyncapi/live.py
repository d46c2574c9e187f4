"""Live delivery, described frame by frame, out of the structs that make the frames."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, get_args

import msgspec

from restante import limits
from restante.server.asyncapi.parts import FrameShape, Saying, SocketChannel
from restante.server.live.socket_line import CLOSE_CODES
from restante.server.openapi import problems
from restante.server.openapi.parts import Schema, of_schema
from restante.server.openapi.places import MESSAGE_ID
from restante.server.openapi.routes import live as events
from restante.server.openapi.schemas import ID
from restante.wire import live

_STRUCTS = (
    live.Connected,
    live.Pushed,
    live.Echo,
    live.SendAccepted,
    live.Fate,
    live.Collected,
    live.Disconnect,
    live.LiveSend,
    live.Collect,
)
_SHOWN, _SENT = of_schema("ShownMessage"), of_schema("Message")
_INVOICE = {
    "recipient": "alice",
    "origin": "billing",
    "kind": "invoice",
    "document_type": "invoice",
    "weight": 1,
    "bundleable": True,
    "published_at": "2030-01-31T12:00:00.000000Z",
    "state": "waiting",
    "id": MESSAGE_ID,
    "sequence_number": 1,
    "media_type": "application/json",
    "properties": {"night": "7"},
    "data": {"number": 1001, "amount": "12.50"},
}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_BETTER: dict[type[msgspec.Struct], dict[str, Schema]] = {
    live.Connected: {"sequence_number": _NUMBER},
    live.Pushed: {"counter": {"type": "integer", "minimum": 1}, "message": _SHOWN},
    live.Echo: {"message": _SHOWN},
    live.SendAccepted: {"id": ID},
    live.Fate: {"id": ID},
    live.Collected: {"sequence_number": _NUMBER, "messages": {"type": "integer", "minimum": 0}},
    live.Disconnect: {"reason": {"enum": list(get_args(live.Disconnected))}},
    live.LiveSend: {"message": _SENT},
    live.Collect: {"sequence_number": _NUMBER},
}
"""The schemas of fields whose types in the code do not say enough."""


def _schemas() -> dict[type[msgspec.Struct], Schema]:
    _, made = msgspec.json.schema_components(_STRUCTS)
    return {struct: _mended(made[struct.__name__], _BETTER[struct]) for struct in _STRUCTS}


def _mended(made: dict[str, Any], better: dict[str, Schema]) -> dict[str, Any]:
    """The schema as frames are written: what there is not is left out, and never null."""
    found = deepcopy(made)
    for name, field in found["properties"].items():
        choices = [choice for choice in field.get("anyOf", ()) if choice != {"type": "null"}]
        found["properties"][name] = better.get(name) or (choices[0] if len(choices) == 1 else field)
    return found


_MADE = _schemas()
_PROBLEM: Schema = {
    "allOf": [
        of_schema("Problem"),
        {
            "properties": {
                "type": {"enum": ["problem"]},
                "request": {"type": "integer", "description": "The number of the frame that it answers."},
            }
        },
    ]
}


def _frame(struct: type[msgspec.Struct], name: str, text: str, *examples: dict[str, object]) -> FrameShape:
    shown = tuple({"type": struct.__struct_config__.tag, **example} for example in examples)
    return FrameShape(name=name, text=text, schema=_MADE[struct], examples=shown)


FRAMES = (
    _frame(
        live.Connected,
        "connected",
        "The first frame. Everything up to the number lies before this connection: it is `after`, if that was given, else "
        "the last number that there is.",
        {"sequence_number": 1, "client": "phone"},
    ),
    _frame(
        live.Pushed,
        "message",
        "A message. The counter is the connection's own and goes up by one for each message, also for those that were "
        "dropped: where one is missing, read the rest from history.",
        {"counter": 1, "message": _INVOICE},
    ),
    _frame(
        live.Echo, "echo", "What this recipient sent from another client. It has no counter.", {"message": _INVOICE}
    ),
    _frame(
        live.SendAccepted, "sent", "What was sent has this id. It is not stored yet.", {"request": 1, "id": MESSAGE_ID}
    ),
    _frame(
        live.Fate,
        "status",
        "What became of a message that this or another client of the recipient sent: `processed` when it is safe on disk, "
        "or `lost` with the reason.",
        {"id": MESSAGE_ID, "status": "processed"},
        {"id": MESSAGE_ID, "status": "lost", "reason": "storage_full: The disk is full."},
    ),
    _frame(
        live.Collected,
        "collected",
        "So many messages up to this number were collected, by this or another client of the recipient.",
        {"sequence_number": 2, "messages": 2},
    ),
    FrameShape(
        name="problem",
        text="What a client said is refused; the connection stays. The fields are those of every problem, less its type.",
        schema=_PROBLEM,
        examples=({**problems.example("invalid_message"), "type": "problem", "request": 1},),
    ),
    _frame(
        live.Disconnect,
        "disconnect",
        "The last frame. Come back after so many seconds, if they are given.",
        {"reason": "draining", "reconnect_after": 0.42},
        {"reason": "protocol_error", "detail": "The client sent a binary frame."},
    ),
    _frame(
        live.LiveSend,
        "send",
        "A message to be published. The number is the client's own, and comes back with the answer.",
        {"request": 1, "message": {"recipient": "bob", "data": {"text": "hello"}}},
    ),
    _frame(
        live.Collect,
        "collect",
        "Everything up to this number has been taken: it is dequeued in the origin groups whose setting `live_collect` "
        "is true.",
        {"sequence_number": 2},
    ),
)
CHANNEL = SocketChannel(
    name="live",
    path="/v1/recipients/{recipient}/live",
    title="Live delivery",
    text=f"""
New messages of a recipient, at once. Many clients may be connected; each gets all of them.

A client that reads too slowly loses nothing but freshness: what does not fit into its queue is dropped for it, the
counter shows the gap, and `GET /v1/recipients/{{recipient}}/messages?after=…&before=…` has what is missing.

Every frame is text: one JSON object with its `type`. A client passes over types that it does not know. What it sends
has at most {limits.LIVE_FRAME_TIMES} times `data_bytes_max` characters a frame, {limits.LIVE_FRAME_TIMES * limits.DATA_BYTES_MAX:,} unless it is set.
""",
    frames=FRAMES,
    said=(
        Saying(
            name="push",
            text="What the hub says by itself.",
            frames=("connected", "message", "echo", "disconnect"),
        ),
    ),
    heard=(
        Saying(
            name="sendMessage",
            text="Publish a message. It takes the role publisher besides.",
            frames=("send",),
            answers=("sent", "status", "problem"),
        ),
        Saying(
            name="collect",
            text="Dequeue everything up to a number.",
            frames=("collect",),
            answers=("collected", "problem"),
        ),
    ),
    parameters=(*events.QUERY, *events.PLACE),
    close_codes=CLOSE_CODES,
)
