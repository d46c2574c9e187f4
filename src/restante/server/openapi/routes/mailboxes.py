"""Mailboxes, described: collecting, and looking at messages."""

from __future__ import annotations

from restante.calls.mailboxes import Explain, ListRecipients, Peek, ReadHistory
from restante.limits import BUNDLE_WEIGHT_KIB_MAX, RECIPIENT_CHARACTERS_MAX
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
    BUNDLE,
    BUNDLE_ID,
    LIMIT,
    MESSAGE,
    ORIGIN,
    ORIGIN_GROUP,
    READING,
    RECIPIENT,
    SOURCE,
    WAIT,
    WRITING,
    after_token,
    query,
)
from restante.server.openapi.schemas import ARROW
from restante.wire import media
from restante.wire.live import LIVE_GAP

MESSAGES = "/v1/recipients/{recipient}/messages"
_LIVE_GAP = Parameter(
    name=LIVE_GAP,
    where="header",
    text="How many messages a live client missed, when it reads them here. It is counted, and changes nothing.",
    schema={"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    example="12",
)
_BUNDLE_HEADERS = {
    "Restante-Bundle-Id": BUNDLE_ID,
    "Restante-Origin": "billing",
    "Restante-Kind": "invoice",
    "Restante-Document-Types": "invoice",
    "Restante-Message-Count": "2",
}

PEEK = Operation(
    method="GET",
    path="/v1/recipients/{recipient}/peek",
    name="peek",
    summary="Peek the next bundle",
    text="""
Opens a bundle, or answers the open one again, until it is dequeued: peeking has no other effect and may be repeated.
A recipient has one open bundle in each origin group. A peek over several groups answers the open bundle with the
smallest sequence number, else it opens the next.

A claim-check bundle answers what its origin delivers, in the origin's own media type, whatever `Accept` says; if the
origin does not deliver, the answer is `204` with that reason, and the next peek asks it again.
""",
    parameters=(
        RECIPIENT,
        *query(
            Peek,
            origin=ORIGIN,
            origin_group=ORIGIN_GROUP,
            bundle_id=QueryText(
                text="The id that a new bundle is to have; it is made by the hub if left out.",
                example=BUNDLE_ID,
            ),
            format=QueryText(
                text=(
                    "Handed to the origin of a claim-check bundle, `json` if left out, and fixed while the bundle is open."
                ),
                example="json",
            ),
            max_messages=QueryText(
                text=(
                    f"A new bundle has at most so many; more than {BUNDLE_WEIGHT_KIB_MAX:,} is clipped. An open one "
                    "stays as it is."
                ),
                example=100,
            ),
            max_weight=QueryText(
                text="A new bundle weighs at most so many KiB, less a first message that is heavier; clipped likewise.",
                example=1_024,
            ),
            wait=WAIT,
        ),
    ),
    answers=(
        Answer(
            status=200,
            text="The bundle.",
            contents=(
                BodyContent(media_type=media.JSON, schema=of_schema("Bundle")),
                BodyContent(media_type=media.CLOUDEVENTS_BATCH, schema=of_schema("CloudEvents")),
                BodyContent(media_type=media.ARROW, schema=ARROW),
                BodyContent(
                    media_type="*/*",
                    schema={
                        "description": "The content of a claim-check bundle, with `Restante-Content: claim-check`."
                    },
                ),
            ),
            headers=(
                *_BUNDLE_HEADERS,
                "Cache-Control",
                "Restante-Content?",
                "Content-Security-Policy.content?",
                "Content-Disposition.content?",
                *PACKED,
            ),
        ),
        Answer(status=204, text="There is nothing.", headers=("Restante-Empty-Reason", "Cache-Control")),
    ),
    problems=("not_acceptable", "bundle_open", "bundle_id_used", *WRITING),
)
DEQUEUE = Operation(
    method="DELETE",
    path="/v1/recipients/{recipient}/bundles/{bundle_id}",
    name="dequeue",
    summary="Dequeue a bundle",
    text="The recipient has what is in the bundle: its messages are collected, and the next peek opens the next one.",
    parameters=(RECIPIENT, BUNDLE),
    answers=(
        Answer(
            status=200,
            text="Collected.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("Dequeued")),),
        ),
    ),
    problems=("bundle_unknown", *WRITING),
)
EXPLAIN = Operation(
    method="GET",
    path="/v1/recipients/{recipient}/explain",
    name="explain",
    summary="Explain what a peek would answer",
    text="Why there is a bundle or none, what waits, and which bundles are open. Looking has no effect.",
    parameters=(RECIPIENT, *query(Explain, origin=ORIGIN, origin_group=ORIGIN_GROUP)),
    answers=(
        Answer(
            status=200,
            text="The reason, in a word and in a sentence.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("Explanation")),),
        ),
    ),
    problems=READING,
)
RECIPIENTS = Operation(
    method="GET",
    path="/v1/recipients",
    name="listRecipients",
    summary="List recipients with waiting messages",
    text="Those with the most, or with the oldest, first. The list is at most 5 s old.",
    parameters=query(
        ListRecipients,
        order=QueryText(
            text="`waiting`: most messages first. `oldest`: the recipient whose message has waited longest first.",
            example="oldest",
        ),
        limit=LIMIT,
        after=after_token(18, example="100"),
        search=QueryText(
            text="Only those with this text in their names, in upper or lower case.",
            example="ali",
            form={"minLength": 1, "maxLength": RECIPIENT_CHARACTERS_MAX, "pattern": r"\S"},
        ),
    ),
    answers=(
        Answer(
            status=200,
            text="A page.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("RecipientPage")),),
            headers=("Restante-As-Of",),
        ),
    ),
    problems=READING,
)
HISTORY = Operation(
    method="GET",
    path=MESSAGES,
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
    path=f"{MESSAGES}/{{id}}",
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
SUBJECT = Subject(
    name="Collecting",
    text="Collect messages: peek a bundle, process its messages, dequeue it.",
    operations=(PEEK, DEQUEUE, EXPLAIN, RECIPIENTS),
)
