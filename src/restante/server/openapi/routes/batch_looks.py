"""Looking at batches, and waiting for them, described."""

from __future__ import annotations

from restante.calls.batches import ListBatches, ListPendingItems, ReadProgress, WaitForBatch
from restante.limits import WAIT_SECONDS_MAX
from restante.server.openapi.parts import Answer, BodyContent, Operation, QueryText, of_schema
from restante.server.openapi.places import (
    BATCH,
    BATCH_ID,
    KEY,
    LIMIT,
    READING,
    STATE,
    after_text,
    after_token,
    query,
)
from restante.wire import media


def _look(schema: str, text: str, *headers: str) -> Answer:
    return Answer(
        status=200, text=text, contents=(BodyContent(media_type=media.JSON, schema=of_schema(schema)),), headers=headers
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
    answers=(_look("BatchStatus", "The batch.", "Cache-Control"),),
    problems=("batch_unknown", *READING),
)
BATCHES = Operation(
    method="GET",
    path="/v1/batches",
    name="listBatches",
    summary="List batches",
    text="The newest first, by their ids.",
    parameters=query(ListBatches, state=STATE, key=KEY, limit=LIMIT, after=after_text(BATCH_ID)),
    answers=(_look("BatchPage", "A page."),),
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
    answers=(_look("PendingPage", "A page."),),
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
    answers=(_look("ProgressPage", "A page."),),
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
        _look("BatchStatus", "It is complete.", "Cache-Control"),
        Answer(status=204, text="It is not complete yet.", headers=("Cache-Control",)),
    ),
    problems=("batch_unknown", *READING),
)
