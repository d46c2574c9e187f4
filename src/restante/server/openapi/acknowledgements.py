"""Acknowledging items, described."""

from __future__ import annotations

from restante.limits import ACKNOWLEDGED_CALLS_MAX, ACKNOWLEDGED_ITEMS_MAX, ACKNOWLEDGED_RANGES_MAX, BATCHES_AT_ONCE_MAX
from restante.server.openapi.parts import Answer, BodyContent, Example, Operation, of_schema
from restante.server.openapi.places import BATCH_ID, OTHER_ID, WRITING
from restante.wire import media

_JSON = {"Content-Type": media.JSON}
_PATH = "/v1/acknowledgements"
_COMPLETE = [{"id": BATCH_ID, "key": "night-run-7"}]


def _answer(acknowledged: int, *, complete: object = (), unknown: object = ()) -> dict[str, object]:
    return {"acknowledged": acknowledged, "complete": complete or [], "unknown": unknown or []}


ACKNOWLEDGE = Operation(
    method="POST",
    path=_PATH,
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
    examples=(
        Example(
            name="acknowledge",
            text="Two items of three.",
            target=_PATH,
            headers=_JSON,
            body={"items": [f"{BATCH_ID}:0:0", f"{BATCH_ID}:0:1"]},
            status=200,
            answer=_answer(2),
            after=("batch-open", "batch-add"),
        ),
        Example(
            name="acknowledge-range",
            text="All of a group, and the batch is complete.",
            target=_PATH,
            headers=_JSON,
            body={"ranges": [{"group": f"{BATCH_ID}:0", "from": 0, "upto": 3}]},
            status=200,
            answer=_answer(3, complete=_COMPLETE),
            after=("batch-open", "batch-add", "batch-seal"),
        ),
        Example(
            name="acknowledge-calls",
            text="Two calls in one request, both by indices; of the second, one was acknowledged by the first.",
            target=_PATH,
            headers=_JSON,
            body={
                "calls": [
                    {"indices": [{"group": f"{BATCH_ID}:0", "indices": [0]}]},
                    {"indices": [{"group": f"{BATCH_ID}:0", "indices": [0, 1]}]},
                ]
            },
            status=200,
            answer={"answers": [_answer(1), _answer(1)]},
            after=("batch-open", "batch-add"),
        ),
        Example(
            name="acknowledge-again",
            text="The same again: nothing was pending, and the batch is still complete.",
            target=_PATH,
            headers=_JSON,
            body={"ranges": [{"group": f"{BATCH_ID}:0", "from": 0, "upto": 3}]},
            status=200,
            answer=_answer(0, complete=_COMPLETE),
            after=("batch-open", "batch-add", "batch-seal", "acknowledge-range"),
        ),
        Example(
            name="acknowledge-unknown",
            text="One that is known, one beyond its group, one of a batch that there is not.",
            target=_PATH,
            headers=_JSON,
            body={"items": [f"{BATCH_ID}:0:0", f"{BATCH_ID}:0:3", f"{OTHER_ID}:0:0"]},
            status=200,
            answer=_answer(1, unknown=[f"{BATCH_ID}:0:3", f"{OTHER_ID}:0:0"]),
            after=("batch-open", "batch-add"),
        ),
        Example(
            name="acknowledge-invalid",
            text="One text is no item id: nothing is acknowledged.",
            target=_PATH,
            headers=_JSON,
            body={"items": [f"{BATCH_ID}:0:0", "invoice-1002"]},
            status=400,
            code="invalid_item",
            after=("batch-open", "batch-add"),
        ),
        Example(
            name="acknowledge-nothing",
            text="Neither items nor ranges.",
            target=_PATH,
            headers=_JSON,
            body={},
            status=400,
            code="invalid_request",
        ),
    ),
)
