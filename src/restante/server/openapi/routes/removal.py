"""Removal, described: what an operator may do with a recipient's messages."""

from __future__ import annotations

from restante.calls.removal import Erase
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Operation,
    QueryText,
    Subject,
    of_schema,
)
from restante.server.openapi.places import (
    MESSAGE,
    RECIPIENT,
    SOURCE,
    WRITING,
    query,
)
from restante.server.openapi.routes.mailboxes import FIND, HISTORY, MESSAGES
from restante.wire import media

_NOTHING = (Answer(status=204, text="Done."),)
_REMOVED = (
    Answer(
        status=200,
        text="How many messages.",
        contents=(BodyContent(media_type=media.JSON, schema=of_schema("Removed")),),
    ),
)


WITHDRAW = Operation(
    method="DELETE",
    path=f"{MESSAGES}/{{id}}",
    name="withdraw",
    summary="Withdraw a message",
    text="It is no longer delivered. Withdrawing what is withdrawn or expired does nothing.",
    parameters=(RECIPIENT, MESSAGE, SOURCE),
    answers=_NOTHING,
    problems=("message_unknown", "message_erased", "message_collected", "bundle_open", *WRITING),
)
SET_ASIDE = Operation(
    method="POST",
    path=f"{MESSAGES}/{{id}}/set-aside",
    name="setAside",
    summary="Set a message aside",
    text="It is no longer delivered, but kept: `GET …/messages?state=set_aside` lists it.",
    parameters=(RECIPIENT, MESSAGE, SOURCE),
    answers=_NOTHING,
    problems=("message_unknown", "message_erased", "message_collected", "message_settled", "bundle_open", *WRITING),
)
RELEASE = Operation(
    method="POST",
    path=f"{MESSAGES}/{{id}}/release",
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
