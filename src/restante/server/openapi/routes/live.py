"""Live delivery as server-sent events, described; the web socket has a description of its own."""

from __future__ import annotations

from restante.limits import LIVE_CLIENT_CHARACTERS_MAX, LIVE_PING_SECONDS, TICKET_SECONDS
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject, of_schema
from restante.server.openapi.places import LIMIT, READING, RECIPIENT, WRITING, number
from restante.server.openapi.schemas import TEXT
from restante.wire import media

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
    Parameter(
        name="ticket",
        text="What `POST /v1/tickets` gave, where no header can be sent: in a browser. It is written to no log.",
        schema={"type": "string", "minLength": 1, "maxLength": 256},
        example="rsttk_…",
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
TICKET = Operation(
    method="POST",
    path="/v1/tickets",
    name="makeTicket",
    summary="Get a ticket for a browser",
    text=f"""
`EventSource` and `WebSocket` of a browser cannot send a token. A ticket goes into the address instead: `?ticket=…`, at the
live route of the recipient that it was made for, and nowhere else. It stands for the token that asked for it, opens
connections for {TICKET_SECONDS:g} seconds, and what it opened goes on until the token is revoked or expires.
""",
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("TicketBody")),),
    answers=(
        Answer(
            status=201,
            text="The ticket, and when it expires.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("TicketAnswer")),),
            headers=("Cache-Control",),
        ),
    ),
    problems=("body_too_large", "unsupported_media_type", *WRITING),
)
CLIENTS = Operation(
    method="GET",
    path="/v1/live",
    name="listLiveClients",
    summary="List connected clients",
    text="Who is connected for live delivery, how much waits for each, and what its queue had to drop.",
    parameters=(
        number("limit", LIMIT.text, least=1, example=50),
        number("after", "The `next` of the page before.", least=0, example=50),
    ),
    answers=(
        Answer(
            status=200,
            text="A page.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("LiveClientPage")),),
            headers=("Cache-Control",),
        ),
    ),
    problems=("unavailable",),
)
SUBJECT = Subject(
    name="Live",
    text="New messages are pushed to connected recipients." + LIVE,
    operations=(EVENTS, CLIENTS, TICKET),
)
