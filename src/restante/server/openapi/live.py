"""Live delivery as server-sent events, described; the web socket has a description of its own."""

from __future__ import annotations

from restante.limits import LIVE_CLIENT_CHARACTERS_MAX, LIVE_PING_SECONDS
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject
from restante.server.openapi.places import READING, RECIPIENT, number
from restante.server.openapi.schemas import TEXT

_EVENTS = "text/event-stream"

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
)
SUBJECT = Subject(
    name="Live",
    text="New messages are pushed to connected recipients." + LIVE,
    operations=(EVENTS,),
)
