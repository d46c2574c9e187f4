"""Looking at batches, and waiting for them, described."""

from __future__ import annotations

from restante.calls.batches import ListBatches, ListPendingItems, ReadProgress, WaitForBatch
from restante.limits import WAIT_SECONDS_MAX
from restante.server.openapi.parts import Answer, BodyContent, Example, Operation, QueryText, of_schema
from restante.server.openapi.places import (
    BATCH,
    BATCH_ID,
    KEY,
    LIMIT,
    OTHER_ID,
    READING,
    STATE,
    after_id,
    after_text,
    after_token,
)
from restante.server.openapi.query import query
from restante.wire import media

_TIME = "2030-01-31T12:00:00Z"
_ONE = f"/v1/batches/{BATCH_ID}"
_DONE = ("batch-open", "batch-add", "batch-seal", "acknowledge-range")


def _shown(**known: object) -> dict[str, object]:
    """The status of the batch of the examples, with what is other than at its beginning."""
    shown: dict[str, object] = {
        "id": BATCH_ID,
        "key": "night-run-7",
        "counting": "exact",
        "state": "open",
        "items": 0,
        "pending": 0,
        "acknowledged": 0,
        "collected": 0,
        "expired": 0,
        "withdrawn": 0,
        "duplicates": 0,
        "duplicates_waiting": 0,
        "opened_at": _TIME,
        "sealed_at": None,
        "completed_at": None,
        "deliveries": [],
    }
    return shown | known


_COMPLETE = _shown(state="complete", items=3, acknowledged=3, sealed_at=_TIME, completed_at=_TIME)


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
    examples=(
        Example(
            name="batch",
            text="One item of three is pending.",
            target=_ONE,
            status=200,
            answer=_shown(items=3, pending=1, acknowledged=2),
            after=("batch-open", "batch-add", "acknowledge"),
        ),
        Example(
            name="batch-bound",
            text="Bound to two messages that wait.",
            target=_ONE,
            status=200,
            answer=_shown(items=2, pending=2),
            after=("batch-open", "publish-batch"),
        ),
        Example(
            name="batch-complete",
            text="Complete.",
            target=_ONE,
            status=200,
            answer=_COMPLETE,
            after=_DONE,
        ),
        Example(
            name="batch-unknown",
            text="There is no such batch.",
            target=f"/v1/batches/{OTHER_ID}",
            status=404,
            code="batch_unknown",
        ),
    ),
)
BATCHES = Operation(
    method="GET",
    path="/v1/batches",
    name="listBatches",
    summary="List batches",
    text="The newest first, by their ids.",
    parameters=query(ListBatches, state=STATE, key=KEY, limit=LIMIT, after=after_id(BATCH_ID)),
    answers=(_look("BatchPage", "A page."),),
    problems=READING,
    examples=(
        Example(
            name="batches",
            text="One is open.",
            target="/v1/batches?state=open",
            status=200,
            answer={"batches": [_shown()], "next": None},
            after=("batch-open",),
        ),
        Example(
            name="batches-state",
            text="A state that there is not.",
            target="/v1/batches?state=done",
            status=400,
            code="invalid_request",
        ),
    ),
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
    examples=(
        Example(
            name="batch-pending",
            text="One of three.",
            target=f"{_ONE}/pending",
            status=200,
            answer={"items": [f"{BATCH_ID}:0:2"], "next": None},
            after=("batch-open", "batch-add", "acknowledge"),
        ),
    ),
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
        ),
    ),
    answers=(_look("ProgressPage", "A page."),),
    problems=("batch_unknown", *READING),
    examples=(
        Example(
            name="batch-progress",
            text="Alice has two messages, and has not collected them.",
            target=f"{_ONE}/progress?waiting=true",
            status=200,
            answer={
                "recipients": [
                    {
                        "recipient": "alice",
                        "collected": 0,
                        "waiting": 2,
                        "set_aside": 0,
                        "expired": 0,
                        "withdrawn": 0,
                        "oldest_waiting": _TIME,
                        "duplicates_waiting": 0,
                    }
                ],
                "next": None,
            },
            after=("batch-open", "publish-batch"),
        ),
    ),
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
    examples=(
        Example(
            name="batch-wait",
            text="Complete.",
            target=f"{_ONE}/wait?seconds=20",
            status=200,
            answer=_COMPLETE,
            after=_DONE,
        ),
        Example(
            name="batch-wait-over",
            text="Not yet.",
            target=f"{_ONE}/wait",
            status=204,
            after=("batch-open",),
        ),
    ),
)
