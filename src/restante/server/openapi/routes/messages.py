"""A recipient's messages, described."""

from __future__ import annotations

from restante.calls.mailboxes import ReadHistory
from restante.calls.removal import Erase
from restante.server.openapi.headers import PACKED
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Operation,
    Parameter,
    QueryText,
    Subject,
    of_schema,
)
from restante.server.openapi.places import (
    LIMIT,
    MESSAGE,
    READING,
    RECIPIENT,
    SOURCE,
    WRITING,
    query,
)
from restante.server.openapi.schemas import ARROW
from restante.wire import media
from restante.wire.live import LIVE_GAP

_MESSAGES = "/v1/recipients/{recipient}/messages"
_NOTHING = (Answer(status=204, text="Done."),)
_REMOVED = (
    Answer(
        status=200,
        text="How many messages.",
        contents=(BodyContent(media_type=media.JSON, schema=of_schema("Removed")),),
    ),
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
            without_data=QueryText(text="Leave the data of the messages out: for a list of them.", example=True),
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
)
SUBJECT = Subject(
    name="Messages",
    text="What a recipient has and had, and what an operator may do with it.",
    operations=(HISTORY, FIND, WITHDRAW, SET_ASIDE, RELEASE, PURGE, ERASE),
)
