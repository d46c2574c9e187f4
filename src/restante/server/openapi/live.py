"""Live delivery as server-sent events, described; the web socket has a description of its own."""

from __future__ import annotations

from restante.limits import LIVE_CLIENT_CHARACTERS_MAX, LIVE_PING_SECONDS
from restante.server.openapi.parts import Answer, BodyContent, Example, Operation, Parameter, Subject
from restante.server.openapi.places import READING, RECIPIENT, number
from restante.server.openapi.schemas import TEXT

_EVENTS = "text/event-stream"
_MINE = "/v1/recipients/alice/live"

PLACE = (RECIPIENT,)
QUERY = (
    Parameter(
        name="client",
        text="A name for this client, as it likes; two connections of one name are two clients.",
        schema={"type": "string", "minLength": 1, "maxLength": LIVE_CLIENT_CHARACTERS_MAX},
        example="phone",
    ),
    number(
        "after",
        "Begin with what came after this sequence number; 0 is all of history. Without it, with what comes from now on.",
        least=0,
        example=1,
    ),
)
LIVE = """

At this address a WebSocket, too: there a client may send, and say what it has collected. Its frames are described at
`/asyncapi.json`.
"""
EVENTS = Operation(
    method="GET",
    path="/v1/recipients/{recipient}/live",
    name="liveEvents",
    summary="Get new messages at once",
    text=f"""
Server-sent events, for browsers and curl. The data of each event is one JSON object with its `type`: first `connected`,
then `message` for each message, `echo` for what the recipient sends from elsewhere, and `disconnect` as the last. The id
of a message's event is its sequence number, so a browser that comes back goes on by itself.

Nothing is dropped: a slow client is given the rest from history. Nothing is dequeued, either. A comment comes at least
every {LIVE_PING_SECONDS:g} seconds.
"""
    + LIVE,
    parameters=(
        *PLACE,
        *QUERY,
        Parameter(
            name="Last-Event-ID",
            where="header",
            text="The sequence number of the last message that the client has. It goes before `after`.",
            schema={"type": "string", "pattern": "^[0-9]{1,18}$"},
            example="1",
        ),
    ),
    answers=(
        Answer(
            status=200,
            text="Events, until one side has enough.",
            contents=(BodyContent(media_type=_EVENTS, schema=TEXT),),
            headers=("Cache-Control", "X-Accel-Buffering"),
        ),
    ),
    problems=("not_acceptable", *READING),
    examples=(
        Example(
            name="live",
            text="What came after the first message, and then whatever comes.",
            target=f"{_MINE}?client=phone",
            headers={"Accept": _EVENTS, "Last-Event-ID": "1"},
            status=200,
            answer_headers={"Cache-Control": "no-store"},
            after=("publish",),
        ),
        Example(
            name="live-plain",
            text="Another type cannot be answered.",
            target=_MINE,
            status=406,
            code="not_acceptable",
        ),
        Example(
            name="live-no-number",
            text="Not the id of an event.",
            target=_MINE,
            headers={"Accept": _EVENTS, "Last-Event-ID": "nonsense"},
            status=400,
            code="invalid_request",
        ),
    ),
)
SUBJECT = Subject(
    name="Live",
    text="New messages are pushed to whoever is connected." + LIVE,
    operations=(EVENTS,),
)
