"""Collecting, described."""

from __future__ import annotations

from restante.calls.mailboxes import Explain, ListRecipients, Peek
from restante.limits import BUNDLE_WEIGHT_KIB_MAX
from restante.server.openapi.headers import PACKED
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Example,
    Operation,
    QueryText,
    Subject,
    of_schema,
)
from restante.server.openapi.places import (
    BUNDLE,
    BUNDLE_ID,
    LIMIT,
    MESSAGE_ID,
    ORIGIN,
    ORIGIN_GROUP,
    OTHER_ID,
    READING,
    RECIPIENT,
    SECOND_ID,
    WAIT,
    WRITING,
    after_token,
)
from restante.server.openapi.query import query
from restante.server.openapi.schemas import ARROW, UUID
from restante.wire import media

TIME = "2030-01-31T12:00:00Z"
PRECISE_TIME = "2030-01-31T12:00:00.000000Z"
_COMMON = {
    "recipient": "alice",
    "origin": "billing",
    "kind": "invoice",
    "document_type": "invoice",
    "weight": 1,
    "bundleable": True,
    "published_at": PRECISE_TIME,
    "state": "waiting",
}
FIRST_SHOWN = {
    **_COMMON,
    "id": MESSAGE_ID,
    "sequence_number": 1,
    "media_type": "application/json",
    "properties": {"night": "7"},
    "data": {"number": 1001, "amount": "12.50"},
}
SECOND_SHOWN = {
    **_COMMON,
    "id": SECOND_ID,
    "sequence_number": 2,
    "media_type": "application/pdf",
    "properties": {},
    "data_base64": "JVBERi0xLjcK",
}
_BUNDLE = {
    "bundle_id": BUNDLE_ID,
    "origin": "billing",
    "kind": "invoice",
    "document_types": ["invoice"],
    "messages": [FIRST_SHOWN, SECOND_SHOWN],
}
_EVENT = {
    "specversion": "1.0",
    "source": "billing",
    "type": "invoice",
    "recipient": "alice",
    "documenttype": "invoice",
    "weight": 1,
    "bundleable": True,
}
_EVENTS = [
    {**_EVENT, "id": MESSAGE_ID, "datacontenttype": "application/json", "night": "7", "data": FIRST_SHOWN["data"]},
    {**_EVENT, "id": SECOND_ID, "datacontenttype": "application/pdf", "data_base64": "JVBERi0xLjcK"},
]
_BUNDLE_HEADERS = {
    "Restante-Bundle-Id": BUNDLE_ID,
    "Restante-Origin": "billing",
    "Restante-Kind": "invoice",
    "Restante-Document-Types": "invoice",
    "Restante-Message-Count": "2",
}
_PEEK = "/v1/recipients/alice/peek"

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
                form=UUID,
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
            headers=(*_BUNDLE_HEADERS, "Cache-Control", "Restante-Content?", *PACKED),
        ),
        Answer(status=204, text="There is nothing.", headers=("Restante-Empty-Reason", "Cache-Control")),
    ),
    problems=("not_acceptable", "bundle_open", "bundle_id_used", *WRITING),
    examples=(
        Example(
            name="peek",
            text="A bundle as JSON, under an id of the caller's choice.",
            target=f"{_PEEK}?bundle_id={BUNDLE_ID}",
            status=200,
            answer=_BUNDLE,
            answer_headers=_BUNDLE_HEADERS,
            after=("publish",),
        ),
        Example(
            name="peek-events",
            text="The same bundle as CloudEvents.",
            target=_PEEK,
            headers={"Accept": media.CLOUDEVENTS_BATCH},
            status=200,
            answer=_EVENTS,
            answer_headers=_BUNDLE_HEADERS,
            after=("publish", "peek"),
        ),
        Example(
            name="peek-arrow",
            text="The same bundle as an Arrow stream.",
            target=_PEEK,
            headers={"Accept": media.ARROW},
            status=200,
            answer_headers=_BUNDLE_HEADERS,
            after=("publish", "peek"),
        ),
        Example(
            name="peek-empty",
            text="Nothing is there, nor comes while it waits.",
            target=f"{_PEEK}?wait=0.01",
            status=204,
            answer_headers={"Restante-Empty-Reason": "recipient_unknown"},
        ),
        Example(
            name="peek-other",
            text="Another id is proposed while a bundle is open.",
            target=f"{_PEEK}?bundle_id={OTHER_ID}",
            status=409,
            code="bundle_open",
            after=("publish", "peek"),
        ),
        Example(
            name="peek-used",
            text="An id that was used before.",
            target=f"{_PEEK}?bundle_id={BUNDLE_ID}",
            status=409,
            code="bundle_id_used",
            after=("publish", "peek", "dequeue"),
        ),
        Example(
            name="peek-html",
            text="A type that a bundle cannot be answered in.",
            target=_PEEK,
            headers={"Accept": "text/html"},
            status=406,
            code="not_acceptable",
            after=("publish",),
        ),
        Example(
            name="peek-misspelt",
            text="An unknown query parameter.",
            target=f"{_PEEK}?max_mesages=5",
            status=400,
            code="invalid_request",
        ),
    ),
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
    examples=(
        Example(
            name="dequeue",
            text="The bundle that was peeked.",
            target=f"/v1/recipients/alice/bundles/{BUNDLE_ID}",
            status=200,
            answer={"bundle_id": BUNDLE_ID, "messages": 2},
            after=("publish", "peek"),
        ),
        Example(
            name="dequeue-again",
            text="Dequeued before: the problem says when, so that a retry can tell.",
            target=f"/v1/recipients/alice/bundles/{BUNDLE_ID}",
            status=404,
            code="bundle_unknown",
            after=("publish", "peek", "dequeue"),
        ),
        Example(
            name="dequeue-no-uuid",
            text="Not a UUID.",
            target="/v1/recipients/alice/bundles/first",
            status=400,
            code="invalid_request",
        ),
    ),
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
    examples=(
        Example(
            name="explain",
            text="Messages wait.",
            target="/v1/recipients/alice/explain",
            status=200,
            answer={
                "reason": "ready",
                "text": "A peek answers messages now.",
                "waiting": [{"origin": "billing", "kind": "invoice", "messages": 2, "oldest": TIME}],
                "open_bundles": [],
                "not_yet_visible": 0,
            },
            after=("publish",),
        ),
        Example(
            name="explain-no-group",
            text="A group that nobody has heard of.",
            target="/v1/recipients/alice/explain?origin_group=nobody",
            status=400,
            code="invalid_request",
        ),
    ),
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
            text="`waiting`: most messages first. `oldest`: whoever waits longest first.", example="oldest"
        ),
        limit=LIMIT,
        after=after_token(18, example="100"),
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
    examples=(
        Example(
            name="recipients",
            text="Whoever waits longest.",
            target="/v1/recipients?order=oldest&limit=10",
            status=200,
            answer={
                "recipients": [{"recipient": "alice", "waiting": 2, "oldest": TIME, "partition": 7}],
                "next": None,
            },
            answer_headers={"Restante-As-Of": TIME},
            after=("publish",),
        ),
    ),
)
SUBJECT = Subject(
    name="Collecting",
    text="Messages out: peek a bundle, keep what is in it, dequeue it.",
    operations=(PEEK, DEQUEUE, EXPLAIN, RECIPIENTS),
)
