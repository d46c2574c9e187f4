"""Actions, described."""

from __future__ import annotations

from restante.calls.actions import GiveUpPoison, ListPoison, ReadAction, RepeatPoison
from restante.limits import (
    ACTION_DEATHS_MAX,
    ACTIONS_AT_ONCE_MAX,
    GROUP_PARTITIONS_AT_ONCE_MAX,
    OUTCOMES_AT_ONCE_MAX,
    PROBLEM_BYTES_MAX,
    RESULT_BYTES_MAX,
    SEND_BYTES_MAX,
    WAIT_SECONDS_MAX,
)
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, QueryText, Subject, of_schema
from restante.server.openapi.places import (
    ACTION,
    BATCH_ID,
    GROUP,
    LIMIT,
    MESSAGE_ID,
    PARTITION,
    READING,
    WAIT,
    WRITING,
    after_text,
    query,
)
from restante.server.openapi.schemas import ID, UUID
from restante.wire import media

_BODY = ("body_too_large", "unsupported_media_type")
_ACCEPTING = (
    "invalid_message",
    "message_conflict",
    "message_erased",
    "action_unknown",
    "batch_unknown",
    "batch_sealed",
    *_BODY,
    *WRITING,
)
"""The problems of sending actions, one or many."""
_ACTION = "/v1/actions/{action}"
_POISON = "/v1/groups/{group}/poison"
_ACTION_ID = Parameter(
    name="action",
    where="path",
    text="The id of an action, percent-encoded: as its sender gave it, or the UUID that it is stored under.",
    schema=ID,
    example=MESSAGE_ID,
)
_POISON_ID = Parameter(
    name="id", where="path", text="The id of an action, percent-encoded.", schema=ID, example=MESSAGE_ID
)
_CONCERNS = QueryText(text="The thing: to be said if the same id was used for several.", example="item-7")
_WAITING = Parameter(
    name="wait",
    text=f"Seconds to wait for the outcome; more than {WAIT_SECONDS_MAX:g} is clipped.",
    schema={"type": "number", "minimum": 0},
    example=5,
)
_BATCH = Parameter(
    name="Restante-Batch",
    where="header",
    text="The batch whose items the new actions become.",
    schema=UUID,
    example=BATCH_ID,
)


def _json(status: int, description: str, schema: str, *headers: str) -> Answer:
    contents = (BodyContent(media_type=media.JSON, schema=of_schema(schema)),)
    return Answer(status=status, text=description, contents=contents, headers=headers)


def _sent(schema: str) -> tuple[BodyContent, ...]:
    return (BodyContent(media_type=media.JSON, schema=of_schema(schema)),)


SEND = Operation(
    method="POST",
    path=_ACTION,
    name="sendAction",
    summary="Have something done",
    text=f"""
It is stored before it is answered, and a worker does it later. Actions that concern one thing are done in order.
`Location` is where its outcome is looked up. With `wait`, the answer comes with the outcome if there is one in time.

To be safely repeatable, give an `id`: the same id, thing, name and content again is answered with the outcome as it is
now, and anything different is `message_conflict`. `declared` says whether a group has declared the name. One that
nobody has declared fails when a group comes to it; with the setting `actions.undeclared = "refuse"` it is
`action_unknown` at once. With the header `Restante-Batch` it becomes an item of a batch. A body has at most
{SEND_BYTES_MAX:,} bytes.
""",
    parameters=(ACTION, _WAITING, _BATCH),
    bodies=_sent("ActionBody"),
    answers=(
        _json(202, "Accepted.", "ActionStatus", "Location", "Retry-After?", "Cache-Control"),
        _json(200, "Waited for, and final.", "ActionStatus", "Location", "Cache-Control"),
    ),
    problems=_ACCEPTING,
)
SEND_MANY = Operation(
    method="POST",
    path="/v1/actions",
    name="sendActions",
    summary="Have many things done",
    text=f"""
At most {ACTIONS_AT_ONCE_MAX:,}: all of them are accepted, or none. With the header `Restante-Batch` they become items of a
batch, which is complete when all are done or given up.
""",
    parameters=(_BATCH,),
    bodies=_sent("ActionsBody"),
    answers=(_json(202, "Accepted, in their order.", "AcceptedActions", "Cache-Control"),),
    problems=_ACCEPTING,
)
SHOW = Operation(
    method="GET",
    path=_ACTION,
    name="showAction",
    summary="What became of an action",
    text="""
For who may publish for its origin, collect for the thing that it concerns, or work; to everybody else it is not there.
`Retry-After` stands there until the outcome is final. When it was done and has a location, the answer leads there.

`result` and the text of a problem go after `outcome_retention_seconds`; the state stays as long as the message.
""",
    parameters=(
        _ACTION_ID,
        *query(ReadAction, concerns=_CONCERNS, wait=WAIT),
        Parameter(
            name="redirect",
            text="Whether the answer leads to the location of what was done.",
            schema={"type": "boolean", "default": True},
            example=False,
        ),
    ),
    answers=(
        _json(200, "The outcome as it is now.", "ActionStatus", "Retry-After?", "Cache-Control"),
        _json(303, "Done: what came of it is there.", "ActionStatus", "Location", "Cache-Control"),
    ),
    problems=("action_unknown", "message_erased", *READING),
)
REPORT = Operation(
    method="POST",
    path="/v1/groups/{group}/partitions/{partition}/outcomes",
    name="reportOutcomes",
    summary="Report what became of actions",
    text=f"""
At most {OUTCOMES_AT_ONCE_MAX:,} outcomes of one partition, and up to where all have one (`position`), in one commit: the
messages are settled with it. `sequence_number` is that of the change that brought the action. An action that has its
outcome keeps it, so the same report again is harmless; but what is done happened, even if it expired or was withdrawn
meanwhile. Another generation than the one in force changes nothing. `release` is as for a checkpoint.

`under_way` is not final: it says how attempts go, and is kept in memory. A `result` of more than {RESULT_BYTES_MAX:,} bytes
makes the action poison; a problem has at most {PROBLEM_BYTES_MAX:,} bytes. A `location` is a path, or an https address without
credentials.
""",
    parameters=(GROUP, PARTITION),
    bodies=_sent("OutcomesBody"),
    answers=(_json(200, "Taken.", "OutcomesTaken", "Cache-Control"),),
    problems=("group_unknown", "partition_unknown", "generation_stale", "position_ahead", *_BODY, *WRITING),
)
REPORT_EACH = Operation(
    method="POST",
    path="/v1/groups/{group}/outcomes",
    name="reportOutcomesOfEach",
    summary="Report what became of actions of several partitions",
    text=f"""
What a member has to report of all its partitions, at most {OUTCOMES_AT_ONCE_MAX:,} outcomes of up to {GROUP_PARTITIONS_AT_ONCE_MAX}
partitions, in one request and one commit. Each partition is named once, and its report is taken or refused by itself, as if
it had come alone: the answer has `report` of each that was taken, and `problem`, with its code, of each that was not. The
request itself is refused only if it cannot be read, or if nothing was taken for a reason that is no partition's own, as when the
hub is busy.
""",
    parameters=(GROUP,),
    bodies=_sent("JointOutcomesBody"),
    answers=(_json(200, "What became of each.", "OutcomesReported", "Cache-Control"),),
    problems=("group_unknown", *_BODY, *WRITING),
)
POISON = Operation(
    method="GET",
    path=_POISON,
    name="listPoison",
    summary="List what a group could not do",
    text=f"""
Each with why, how often it was tried, and all that is needed to do it again. An action during which {ACTION_DEATHS_MAX} workers
died is poison, too (`worker_died`). Poison stays, whatever its age, until an operator decides.
""",
    parameters=(GROUP, *query(ListPoison, limit=LIMIT, after=after_text("0-17"))),
    answers=(_json(200, "A page.", "PoisonPage", "Cache-Control"),),
    problems=("group_unknown", *READING),
)
AGAIN = Operation(
    method="POST",
    path=_POISON + "/{id}/again",
    name="repeatPoison",
    summary="Have poison done again",
    text="At the end, with a fresh count. If its time is over, it gets as much as an action that says nothing of it.",
    parameters=(GROUP, _POISON_ID, *query(RepeatPoison, concerns=_CONCERNS)),
    answers=(_json(202, "Accepted once more.", "ActionStatus", "Location", "Retry-After?", "Cache-Control"),),
    problems=("group_unknown", "action_unknown", *WRITING),
)
GIVE_UP = Operation(
    method="DELETE",
    path=_POISON + "/{id}",
    name="giveUpPoison",
    summary="Give poison up",
    text="It will not be done: its message is withdrawn, and the action has failed with `given_up`.",
    parameters=(GROUP, _POISON_ID, *query(GiveUpPoison, concerns=_CONCERNS)),
    answers=(Answer(status=204, text="Given up."),),
    problems=("group_unknown", "action_unknown", *WRITING),
)
SUBJECT = Subject(
    name="Actions",
    text="""
Something to be done, addressed by name, accepted at once and answered later. An action is a message of the kind
`action` whose recipient is the thing that it concerns. It is in history, and never in a bundle.
""",
    operations=(SEND, SEND_MANY, SHOW, REPORT, REPORT_EACH, POISON, AGAIN, GIVE_UP),
)
