"""A recipient's messages, described."""

from __future__ import annotations

from restante.calls.mailboxes import ReadHistory
from restante.calls.removal import Erase
from restante.server.openapi.collecting import FIRST_SHOWN, SECOND_SHOWN
from restante.server.openapi.headers import PACKED
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Example,
    Operation,
    Parameter,
    QueryText,
    Subject,
    of_schema,
)
from restante.server.openapi.places import (
    LIMIT,
    MESSAGE,
    MESSAGE_ID,
    OTHER_ID,
    READING,
    RECIPIENT,
    SOURCE,
    WRITING,
)
from restante.server.openapi.query import query
from restante.server.openapi.schemas import ARROW
from restante.wire import media
from restante.wire.live import LIVE_GAP

_MESSAGES = "/v1/recipients/{recipient}/messages"
_MINE = "/v1/recipients/alice/messages"
_NOTHING = (Answer(status=204, text="Done."),)
_REMOVED = (
    Answer(
        status=200,
        text="How many messages.",
        contents=(BodyContent(media_type=media.JSON, schema=of_schema("Removed")),),
    ),
)


def _unknown(name: str, target: str) -> Example:
    return Example(
        name=f"{name}-unknown",
        text="There is no such message.",
        target=target.replace(MESSAGE_ID, OTHER_ID),
        status=404,
        code="message_unknown",
    )


_LIVE_GAP = Parameter(
    name=LIVE_GAP,
    where="header",
    text="How many messages a live client missed, when it reads them here. It is counted, and changes nothing.",
    schema={"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    example="12",
)

HISTORY = Operation(
    method="GET",
    path=_MESSAGES,
    name="history",
    summary="Look through a recipient's messages",
    text="""
All of them, collected ones too until their retention is over, by ascending sequence number. `next` is the `after` of
the next page; with `before` alone it is the next `before`, and pages lie just below it. An answer ends at 64 MiB as it is sent.
Looking has no effect.
""",
    parameters=(
        RECIPIENT,
        *query(
            ReadHistory,
            after=QueryText(text="Only messages beyond this sequence number.", example=1),
            before=QueryText(text="Only messages below this sequence number.", example=100),
            state=QueryText(text="Only messages in this state.", example="waiting"),
            limit=LIMIT,
            live_gap=(_LIVE_GAP,),
        ),
    ),
    answers=(
        Answer(
            status=200,
            text="A page.",
            contents=(
                BodyContent(media_type=media.JSON, schema=of_schema("HistoryPage")),
                BodyContent(media_type=media.ARROW, schema=ARROW),
            ),
            headers=("Restante-Next?", *PACKED),
        ),
    ),
    problems=("not_acceptable", *READING),
    examples=(
        Example(
            name="history",
            text="The first message; there are more.",
            target=f"{_MINE}?limit=1",
            status=200,
            answer={"messages": [FIRST_SHOWN], "next": 1},
            answer_headers={"Restante-Next": "1"},
            after=("publish",),
        ),
        Example(
            name="history-next",
            text="The page after it.",
            target=f"{_MINE}?limit=1&after=1&state=waiting",
            status=200,
            answer={"messages": [SECOND_SHOWN], "next": None},
            after=("publish",),
        ),
        Example(
            name="history-arrow",
            text="The same as an Arrow stream.",
            target=_MINE,
            headers={"Accept": media.ARROW},
            status=200,
            after=("publish",),
        ),
        Example(
            name="history-no-state",
            text="There is no such state.",
            target=f"{_MINE}?state=lost",
            status=400,
            code="invalid_request",
        ),
        Example(
            name="history-gap",
            text="A live client reads what it missed.",
            target=f"{_MINE}?after=0&before=2",
            headers={LIVE_GAP: "1"},
            status=200,
            answer={"messages": [FIRST_SHOWN], "next": None},
            after=("publish",),
        ),
        Example(
            name="history-html",
            text="A type that cannot be answered.",
            target=_MINE,
            headers={"Accept": "text/html"},
            status=406,
            code="not_acceptable",
        ),
    ),
)
FIND = Operation(
    method="GET",
    path=f"{_MESSAGES}/{{id}}",
    name="findMessage",
    summary="Show one message",
    text="In whatever state it is.",
    parameters=(RECIPIENT, MESSAGE, SOURCE),
    answers=(
        Answer(
            status=200,
            text="The message.",
            contents=(
                BodyContent(media_type=media.JSON, schema=of_schema("ShownMessage")),
                BodyContent(media_type=media.ARROW, schema=ARROW),
            ),
            headers=PACKED,
        ),
    ),
    problems=("message_unknown", "message_erased", "not_acceptable", *READING),
    examples=(
        Example(
            name="find",
            text="By its id.",
            target=f"{_MINE}/{MESSAGE_ID}",
            status=200,
            answer=FIRST_SHOWN,
            after=("publish",),
        ),
        Example(
            name="find-arrow",
            text="As an Arrow stream of one row.",
            target=f"{_MINE}/{MESSAGE_ID}",
            headers={"Accept": media.ARROW},
            status=200,
            after=("publish",),
        ),
        _unknown("find", f"{_MINE}/{MESSAGE_ID}"),
        Example(
            name="find-erased",
            text="It was erased for good.",
            target=f"{_MINE}/{MESSAGE_ID}",
            status=410,
            code="message_erased",
            after=("publish", "erase"),
        ),
    ),
)
WITHDRAW = Operation(
    method="DELETE",
    path=f"{_MESSAGES}/{{id}}",
    name="withdraw",
    summary="Withdraw a message",
    text="It is no longer delivered. Withdrawing what is withdrawn or expired does nothing.",
    parameters=(RECIPIENT, MESSAGE, SOURCE),
    answers=_NOTHING,
    problems=("message_unknown", "message_erased", "message_collected", "bundle_open", *WRITING),
    examples=(
        Example(
            name="withdraw",
            text="Before it was peeked.",
            target=f"{_MINE}/{MESSAGE_ID}",
            status=204,
            after=("publish",),
        ),
        Example(
            name="withdraw-open",
            text="It is in an open bundle.",
            target=f"{_MINE}/{MESSAGE_ID}",
            status=409,
            code="bundle_open",
            after=("publish", "peek"),
        ),
        Example(
            name="withdraw-late",
            text="The recipient has it.",
            target=f"{_MINE}/{MESSAGE_ID}",
            status=409,
            code="message_collected",
            after=("publish", "peek", "dequeue"),
        ),
        _unknown("withdraw", f"{_MINE}/{MESSAGE_ID}"),
    ),
)
SET_ASIDE = Operation(
    method="POST",
    path=f"{_MESSAGES}/{{id}}/set-aside",
    name="setAside",
    summary="Set a message aside",
    text="It is no longer delivered, but kept: `GET …/messages?state=set_aside` lists it.",
    parameters=(RECIPIENT, MESSAGE, SOURCE),
    answers=_NOTHING,
    problems=("message_unknown", "message_erased", "message_collected", "message_settled", "bundle_open", *WRITING),
    examples=(
        Example(
            name="set-aside",
            text="One that waits.",
            target=f"{_MINE}/{MESSAGE_ID}/set-aside",
            status=204,
            after=("publish",),
        ),
        Example(
            name="set-aside-late",
            text="It was withdrawn.",
            target=f"{_MINE}/{MESSAGE_ID}/set-aside",
            status=409,
            code="message_settled",
            after=("publish", "withdraw"),
        ),
        _unknown("set-aside", f"{_MINE}/{MESSAGE_ID}/set-aside"),
    ),
)
RELEASE = Operation(
    method="POST",
    path=f"{_MESSAGES}/{{id}}/release",
    name="release",
    summary="Release a message that was set aside",
    text="Back into its place if delivery has not gone past it, else at the end with a new sequence number.",
    parameters=(RECIPIENT, MESSAGE, SOURCE),
    answers=_NOTHING,
    problems=("message_unknown", "message_erased", "message_collected", "message_settled", "bundle_open", *WRITING),
    examples=(
        Example(
            name="release",
            text="One that was set aside.",
            target=f"{_MINE}/{MESSAGE_ID}/release",
            status=204,
            after=("publish", "set-aside"),
        ),
        _unknown("release", f"{_MINE}/{MESSAGE_ID}/release"),
    ),
)
PURGE = Operation(
    method="POST",
    path="/v1/recipients/{recipient}/purge",
    name="purge",
    summary="Purge waiting messages",
    text="""
Withdraws what waits and fits the filters, or with `"all": true` everything; what is in an open bundle stays. A purge
without a filter is an error, and so is a filter that is null: a lost variable empties no mailbox. `"dry_run": true` only
counts, without filters too.
""",
    parameters=(RECIPIENT,),
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("PurgeBody")),),
    answers=_REMOVED,
    problems=("body_too_large", "unsupported_media_type", *WRITING),
    examples=(
        Example(
            name="purge-dry-run",
            text="How many it would be.",
            target="/v1/recipients/alice/purge",
            headers={"Content-Type": media.JSON},
            body={"origin": "billing", "kind": "invoice", "before": "2031-01-01T00:00:00Z", "dry_run": True},
            status=200,
            answer={"messages": 2},
            after=("publish",),
        ),
        Example(
            name="purge",
            text="Everything that waits.",
            target="/v1/recipients/alice/purge",
            headers={"Content-Type": media.JSON},
            body={"all": True},
            status=200,
            answer={"messages": 2},
            after=("publish",),
        ),
        Example(
            name="purge-of-nothing",
            text="Without a filter.",
            target="/v1/recipients/alice/purge",
            headers={"Content-Type": media.JSON},
            body={},
            status=400,
            code="invalid_request",
        ),
        Example(
            name="purge-misspelt",
            text="An unknown field.",
            target="/v1/recipients/alice/purge",
            headers={"Content-Type": media.JSON},
            body={"orgin": "billing"},
            status=400,
            code="invalid_request",
        ),
    ),
)
ERASE = Operation(
    method="DELETE",
    path="/v1/recipients/{recipient}",
    name="erase",
    summary="Erase a recipient",
    text="All messages of the recipient, history too, for good. Their ids cannot be used again within the retention.",
    parameters=(
        RECIPIENT,
        *query(Erase, dry_run=QueryText(text="Only say how many messages it would be.", example=True)),
    ),
    answers=_REMOVED,
    problems=WRITING,
    examples=(
        Example(
            name="erase-dry-run",
            text="How many it would be.",
            target="/v1/recipients/alice?dry_run=true",
            status=200,
            answer={"messages": 2},
            after=("publish",),
        ),
        Example(
            name="erase",
            text="For good.",
            target="/v1/recipients/alice",
            status=200,
            answer={"messages": 2},
            after=("publish",),
        ),
    ),
)
SUBJECT = Subject(
    name="Messages",
    text="What a recipient has and had, and what an operator may do with it.",
    operations=(HISTORY, FIND, WITHDRAW, SET_ASIDE, RELEASE, PURGE, ERASE),
)
