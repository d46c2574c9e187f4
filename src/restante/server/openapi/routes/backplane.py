"""The backplane, described."""

from __future__ import annotations

from restante.calls.backplane import ListRefusedRecords
from restante.server.openapi.parts import Answer, Operation, Parameter, Subject, json_answer
from restante.server.openapi.places import LIMIT, PARTITION, READING, WRITING, after_text, query

_POSITION = Parameter(
    name="position",
    where="path",
    text="The position of the record in the log of its partition.",
    schema={"type": "integer", "format": "int64", "minimum": 0},
    example=41,
)

SHOW = Operation(
    method="GET",
    path="/v1/backplane",
    name="showBackplane",
    summary="Show the backplane",
    text="What went through it since the hub was started, and how far each partition has stored its log.",
    answers=(
        json_answer(200, "The backplane; `topic` is null if the hub has none.", "BackplaneStatus", "Cache-Control"),
    ),
    problems=READING,
)
REFUSED = Operation(
    method="GET",
    path="/v1/backplane/refused",
    name="listRefusedRecords",
    summary="List records that could not be stored",
    text="By partition and position, each with the reason. They are kept as long as collected messages.",
    parameters=query(ListRefusedRecords, limit=LIMIT, after=after_text("3:41")),
    answers=(json_answer(200, "A page.", "RefusedPage", "Cache-Control"),),
    problems=READING,
)
READ = Operation(
    method="GET",
    path="/v1/backplane/refused/{partition}/{position}",
    name="showRefusedRecord",
    summary="Show a record that could not be stored",
    text="With the reason, and the first messages that are at fault.",
    parameters=(PARTITION, _POSITION),
    answers=(json_answer(200, "The record.", "RefusedRecord", "Cache-Control"),),
    problems=("not_found", "partition_unknown", *READING),
)
AGAIN = Operation(
    method="POST",
    path="/v1/backplane/refused/{partition}/{position}/again",
    name="repeatRefusedRecord",
    summary="Try again to store a record that could not be stored",
    text="If it is stored now, it is refused no longer. If not, the problem says why, and it stays.",
    parameters=(PARTITION, _POSITION),
    answers=(json_answer(200, "What was stored.", "Receipt"),),
    problems=("not_found", "partition_unknown", "message_conflict", "message_erased", "invalid_operation", *WRITING),
)
DELETE = Operation(
    method="DELETE",
    path="/v1/backplane/refused/{partition}/{position}",
    name="deleteRefusedRecord",
    summary="Forget a record that could not be stored",
    text="Removes it with its messages.",
    parameters=(PARTITION, _POSITION),
    answers=(Answer(status=204, text="Done."),),
    problems=("not_found", "partition_unknown", *WRITING),
)
SUBJECT = Subject(
    name="Backplane",
    text="""
With a backplane publishes go through a topic of Kafka, and are stored from there in its order. A record that cannot be
stored (a conflict, an erased message, not readable) is kept with its reason, and the others go on.
""",
    operations=(SHOW, REFUSED, READ, AGAIN, DELETE),
)
