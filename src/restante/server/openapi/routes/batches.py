"""Batches, described: what changes them, acknowledging their items, looking at them and waiting for them."""

from __future__ import annotations

from restante.calls.batches import ListBatches, ListPendingItems, ReadProgress, WaitForBatch
from restante.limits import (
    ACKNOWLEDGED_CALLS_MAX,
    ACKNOWLEDGED_ITEMS_MAX,
    ACKNOWLEDGED_RANGES_MAX,
    BATCH_ITEMS_MAX,
    BATCHES_AT_ONCE_MAX,
    WAIT_SECONDS_MAX,
)
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Operation,
    QueryText,
    Subject,
    json_answer,
    json_body,
    of_schema,
)
from restante.server.openapi.places import (
    BATCH,
    BATCH_ID,
    KEY,
    LIMIT,
    READING,
    STATE,
    WRITING,
    after_text,
    after_token,
    query,
)
from restante.wire import media

_ACKNOWLEDGEMENTS = "/v1/acknowledgements"
_BODY_PROBLEMS = ("body_too_large", "unsupported_media_type", *WRITING)


ACKNOWLEDGE = Operation(
    method="POST",
    path=_ACKNOWLEDGEMENTS,
    name="acknowledge",
    summary="Acknowledge items",
    text=f"""
Items one by one by their ids, and ranges of the items of a group, `from` the first and `upto` the one after the last.
Of one batch or of several: at most {ACKNOWLEDGED_ITEMS_MAX:,} items, {ACKNOWLEDGED_RANGES_MAX:,} ranges and
{BATCHES_AT_ONCE_MAX:,} batches a call. `indices` names items of a group by their indices alone, which is shorter than
their ids. `calls` has several such calls in one request, at most {ACKNOWLEDGED_CALLS_MAX:,}: `answers` then has an
answer for each, as if they had been made one after another.

Answers how many items were pending until then, and which of the named batches are complete, also if they have been
before. So acknowledging twice is harmless, and the call may be repeated. What is well written but not known (no such
batch, no such group, an index beyond it) comes back in `unknown` as it was sent, and the rest is acknowledged, also the
part of a range that lies inside its group. A text that is no item id refuses the call, and nothing is acknowledged.
""",
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("AcknowledgeBody")),),
    answers=(
        Answer(
            status=200,
            text="Acknowledged, and safe on disk.",
            contents=(
                BodyContent(media_type=media.JSON, schema={"anyOf": [of_schema("Acknowledged"), of_schema("Answers")]}),
            ),
        ),
    ),
    problems=("invalid_item", "body_too_large", "unsupported_media_type", *WRITING),
)


OPEN = Operation(
    method="POST",
    path="/v1/batches",
    name="openBatch",
    summary="Open a batch",
    text="""
Everything may be left out. `key` is the caller's own name for the batch; with `unique` it is refused if another open
batch has the same key. `counting` is `exact`, or `estimated` for the cheapest count.

When the batch is complete, `webhook` is called with the headers of Standard Webhooks, and `notify` gets a message in its
mailbox; both carry `{"id", "key", "completed_at", "items", "duplicates", "duplicates_waiting"}`. A webhook's `secret` is
`whsec_` and the base64 of 24 to 64 bytes. Without one the hub makes a secret, and gives it only in this answer, as
`webhook_secret`. Webhooks are called at public addresses only, unless the hub's setting `webhooks.allowed_networks` says
more: another IP address, or `localhost`, is refused here; a name that leads to one is not called.

With an `id` of its own choice a caller may repeat the call: the same again gets the same answer.
""",
    bodies=(json_body("OpenBatchBody"),),
    body_required=False,
    answers=(json_answer(201, "Opened.", "BatchOpened", "Cache-Control"),),
    problems=("batch_key_used", *_BODY_PROBLEMS),
)
ADD = Operation(
    method="POST",
    path="/v1/batches/{batch}/items",
    name="addItems",
    summary="Add items to a batch",
    text=f"""
Costs the same for 1 item and for a billion; a batch has at most {BATCH_ITEMS_MAX:,}. Answers groups: the ids of their
items are `<batch>:<group>:<index>`, with indices from 0 to `upto` - 1. There may be several groups.

With a `request_id`, a UUID, the call may be repeated: the same again adds nothing, and answers the same groups.
""",
    parameters=(BATCH,),
    bodies=(json_body("AddItemsBody"),),
    answers=(json_answer(201, "Added.", "ItemGroups"),),
    problems=("batch_unknown", "batch_sealed", *_BODY_PROBLEMS),
)
SEAL = Operation(
    method="POST",
    path="/v1/batches/{batch}/seal",
    name="sealBatch",
    summary="Seal a batch",
    text="Nothing more is added from then on. A batch is complete when it is sealed and nothing is pending. Again: the same.",
    parameters=(BATCH,),
    answers=(json_answer(200, "Sealed.", "Sealed"),),
    problems=("batch_unknown", *WRITING),
)
DELETE = Operation(
    method="DELETE",
    path="/v1/batches/{batch}",
    name="deleteBatch",
    summary="Delete a batch",
    text="Its items are unknown from then on, and nobody is told that it is complete. Messages bound to it stay.",
    parameters=(BATCH,),
    answers=(Answer(status=204, text="Deleted."),),
    problems=("batch_unknown", *WRITING),
)
REAP = Operation(
    method="POST",
    path="/v1/batches/reap",
    name="reapBatches",
    summary="Remove batches that nobody uses",
    text=(
        "The hub does so by itself. The settings `open_batch_retention_seconds` and `sealed_batch_retention_seconds` say "
        "after how long; adding and acknowledging are use. A batch bound to messages that still wait or are set aside "
        "stays. With `dry_run`, only says which would go."
    ),
    bodies=(json_body("ReapBody"),),
    body_required=False,
    answers=(json_answer(200, "Those that went.", "Reaped"),),
    problems=_BODY_PROBLEMS,
)
STATUS = Operation(
    method="GET",
    path="/v1/batches/{batch}",
    name="showBatch",
    summary="Show a batch",
    text="""
`items` are those that were added and the messages bound to the batch; `pending` those that are not done. The others are
`acknowledged` by hand, or messages `collected`, `expired` or `withdrawn`. Messages that were sent before, and skipped, are
`duplicates` and no items; `duplicates_waiting` of them have not been collected. `deliveries` tell how telling the webhook
and the `notify` recipient goes.

The `pending` of an estimated batch is never below 0, and may be too small.
""",
    parameters=(BATCH,),
    answers=(json_answer(200, "The batch.", "BatchStatus", "Cache-Control"),),
    problems=("batch_unknown", *READING),
)
BATCHES = Operation(
    method="GET",
    path="/v1/batches",
    name="listBatches",
    summary="List batches",
    text="The newest first, by their ids.",
    parameters=query(ListBatches, state=STATE, key=KEY, limit=LIMIT, after=after_text(BATCH_ID)),
    answers=(json_answer(200, "A page.", "BatchPage"),),
    problems=READING,
)
PENDING = Operation(
    method="GET",
    path="/v1/batches/{batch}/pending",
    name="listPendingItems",
    summary="List items that are not acknowledged",
    text=(
        "The ids of those that were added; messages that wait are in the progress of the batch. An estimated batch does "
        "not know which they are: `invalid_request`."
    ),
    parameters=(BATCH, *query(ListPendingItems, limit=LIMIT, after=after_token(13, example="100"))),
    answers=(json_answer(200, "A page.", "PendingPage"),),
    problems=("batch_unknown", *READING),
)
PROGRESS = Operation(
    method="GET",
    path="/v1/batches/{batch}/progress",
    name="showProgress",
    summary="Show who has collected the messages of a batch",
    text="By recipient, of the messages bound to the batch. `waiting` includes what lies in an open bundle.",
    parameters=(
        BATCH,
        *query(
            ReadProgress,
            waiting=QueryText(text="Only recipients with messages that wait or are set aside.", example=True),
            limit=LIMIT,
            after=after_text("alice"),
            slowest=QueryText(
                text="Only those, and the recipient whose oldest message has waited longest first.", example=True
            ),
        ),
    ),
    answers=(json_answer(200, "A page.", "ProgressPage"),),
    problems=("batch_unknown", *READING),
)
WAIT = Operation(
    method="GET",
    path="/v1/batches/{batch}/wait",
    name="waitForBatch",
    summary="Wait until a batch is complete",
    text="Answers as soon as it is, or `204` when the time is over: then ask again.",
    parameters=(
        BATCH,
        *query(
            WaitForBatch,
            seconds=QueryText(
                text=f"How long to wait; 0 if left out, more than {WAIT_SECONDS_MAX:g} is clipped.", example=20
            ),
        ),
    ),
    answers=(
        json_answer(200, "It is complete.", "BatchStatus", "Cache-Control"),
        Answer(status=204, text="It is not complete yet.", headers=("Cache-Control",)),
    ),
    problems=("batch_unknown", *READING),
)
SUBJECT = Subject(
    name="Batches",
    text="""
To know when everything is done, or everyone has collected. A batch has items: those that were added, and are
acknowledged by hand; and the messages whose publish named it with the header `Restante-Batch`, which are done when
they are collected, have expired or are withdrawn. It is complete when it is sealed and no item is pending. That is
recorded once.
""",
    operations=(OPEN, BATCHES, STATUS, ADD, SEAL, ACKNOWLEDGE, PENDING, PROGRESS, WAIT, DELETE, REAP),
)
