"""Acknowledging items, described."""

from __future__ import annotations

from restante.limits import ACKNOWLEDGED_CALLS_MAX, ACKNOWLEDGED_ITEMS_MAX, ACKNOWLEDGED_RANGES_MAX, BATCHES_AT_ONCE_MAX
from restante.server.openapi.parts import Answer, BodyContent, Operation, of_schema
from restante.server.openapi.places import WRITING
from restante.wire import media

_PATH = "/v1/acknowledgements"


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
)
