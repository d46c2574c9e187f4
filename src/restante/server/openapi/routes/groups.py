"""Groups, described."""

from __future__ import annotations

from dataclasses import replace

from restante.calls.groups import ListGroups
from restante.limits import (
    ANSWER_BYTES_MAX,
    FEED_CHANGES_DEFAULT,
    FEED_CHANGES_MAX,
    GROUP_PARTITIONS_AT_ONCE_MAX,
    MIB,
    WAIT_SECONDS_MAX,
)
from restante.server.openapi.headers import PACKED
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject, json_answer, json_body
from restante.server.openapi.places import ACTION, GROUP, LIMIT, MEMBER, PARTITION, READING, WRITING, after_text, query
from restante.server.openapi.schemas import BINARY
from restante.wire import media

_BODY = ("body_too_large", "unsupported_media_type")
_ARROW = {
    **BINARY,
    "description": (
        "An Arrow stream (IPC): the changes of all pages, one page after another. The schema's metadata has, under "
        '`restante-next`, the JSON `{"pages": [{"partition", "generation", "next", "end", "rows"}], "now"}`.'
    ),
}


_PLACES = {"group": GROUP, "member": MEMBER, "partition": PARTITION, "action": ACTION}
_UNKNOWN = ("group", "member", "partition")
"""Problems of a path whose name no group has."""
_STATUS = json_answer(200, "The group.", "GroupStatus", "Cache-Control")
_WHERE = json_answer(200, "Where the group is.", "Checkpointed", "Cache-Control")
_DONE = Answer(status=204, text="Done.")


_CHANGE = Parameter(
    name="change",
    text="Whether another filter takes the place of the one it has. For operators.",
    schema={"type": "boolean", "default": False},
    example=False,
)


def _operation(
    route: str,
    name: str,
    summary: str,
    text: str,
    *,
    answer: Answer = _DONE,
    body: str = "",
    problems: tuple[str, ...] = (),
    ways: tuple[str, ...] = WRITING,
) -> Operation:
    """A route of a group. Its parameters, and the codes for things that are unknown, are read from its path.

    A body whose name ends in `?` may be left out.
    """
    method, path = route.split()
    places = [place for place in _PLACES if f"{{{place}}}" in path]
    unknown = [f"{place}_unknown" for place in places if place in _UNKNOWN]
    return Operation(
        method=method,
        path=path,
        name=name,
        summary=summary,
        text=text,
        parameters=tuple(_PLACES[place] for place in places),
        bodies=(json_body(body.removesuffix("?")),) if body else (),
        body_required=not body.endswith("?"),
        answers=(answer,),
        problems=(*unknown, *problems, *(_BODY if body else ()), *ways),
    )


_DEFINE = _operation(
    "PUT /v1/groups/{group}",
    "defineGroup",
    "Make a group, or say again what it is",
    """
`origins`, `kinds` and `gone` are its filter; left out, it reads all origins and kinds. A new group begins at the
`beginning` of what the feed has, or at its `end` (`start`). If it is there with the same filter, nothing changes; with
another one it is `group_conflict`, unless an operator says `change=true`: then positions stay. A new group without
`actions` reads the feed, so a token that is only a worker's may not make it.

`actions` are added to those that the group has; a group that reads the feed gets its first ones by `change=true` only. An
action belongs to one group. A group with actions holds the feed back
for what it has not done with, for as long as the setting `groups.hold_seconds` says. Any other may be overtaken by
retention: then `gone` says whether that is an error (`refuse`) or the group goes on with what there is (`skip`).
""",
    body="DefineGroupBody?",
    answer=_STATUS,
    problems=("group_conflict", "action_taken"),
)
DEFINE = replace(
    _DEFINE,
    parameters=(*_DEFINE.parameters, _CHANGE),
    problems=tuple(code for code in _DEFINE.problems if code != "group_unknown"),
)
GROUPS = Operation(
    method="GET",
    path="/v1/groups",
    name="listGroups",
    summary="List groups",
    text="By name. A token of the role worker sees the groups that it is for.",
    parameters=query(ListGroups, limit=LIMIT, after=after_text("billing")),
    answers=(json_answer(200, "A page.", "GroupPage"),),
    problems=READING,
)
SHOW = _operation(
    "GET /v1/groups/{group}",
    "showGroup",
    "Show a group",
    """
With its lag: how many numbers lie after its positions. A position also moves over what the filter leaves out, as soon as
a member has looked there. `oldest_unread_at` is left out (null) if the next change of the filter is far away.
""",
    answer=_STATUS,
    ways=READING,
)
DELETE = _operation(
    "DELETE /v1/groups/{group}",
    "deleteGroup",
    "Delete a group",
    "With its positions, members and actions. Its generations are not used again if it is made once more.",
)
JOIN = _operation(
    "POST /v1/groups/{group}/members",
    "joinGroup",
    "Become a member",
    """
The answer says what the member has already; the rest of its share comes with its heartbeats, as others release it.
Shares differ by one at most, and as few partitions move as must. Under the name of a member whose lease lasts, the
caller takes its place and its partitions, under new generations: a restart moves nothing.
""",
    body="JoinBody",
    answer=json_answer(201, "A member.", "Joined", "Cache-Control"),
)
LEAVE = _operation(
    "DELETE /v1/groups/{group}/members/{member}",
    "leaveGroup",
    "Leave a group",
    "What the member has goes to others at once. Write the last checkpoints before.",
)
HEARTBEAT = _operation(
    "POST /v1/groups/{group}/members/{member}/heartbeat",
    "sendHeartbeat",
    "Say that a member is there",
    """
Every `heartbeat_seconds`; a member that misses three loses what it has. The answer lists all that it has from now on. A
partition that is missing there is to be given up: start nothing more of it, let what runs end, and write one last
checkpoint with its old generation, which releases it. If that does not come, the partition goes on after
`groups.handover_seconds`. A partition with another generation than before begins at its `position`.

`running` may say which changes the member works on. `revision` numbers what it says, with heartbeats and with `next`: what
arrives after a higher number is passed over.
""",
    body="HeartbeatBody?",
    answer=json_answer(200, "What the member has.", "HeartbeatAnswer", "Cache-Control"),
    ways=READING,
)
NEXT = _operation(
    "POST /v1/groups/{group}/members/{member}/next",
    "readNext",
    "Read what is next for a member",
    f"""
The changes of the group's filter after the given positions, in the order in which the partitions are named, at most
{GROUP_PARTITIONS_AT_ONCE_MAX} of them. `limit` counts changes over all pages, {FEED_CHANGES_DEFAULT:,} if left out and
{FEED_CHANGES_MAX:,} at most; an answer ends at {ANSWER_BYTES_MAX // MIB} MiB. A page without changes leads on all the
same: `next` is the position after it. Nothing at or below a checkpoint is handed out. If there is nothing, the hub waits
up to `wait` seconds, {WAIT_SECONDS_MAX:g} at most, for something in any of the partitions. A paused group gets nothing.

An action with the property `HEALTHCHECK` and the value `TRUE` is a check of the hub's: report it as done, and do not do it.
One whose name no group has declared comes without data, and with its name as the only property: report it as failed.

`running` may say which changes the member works on, as in a heartbeat; it keeps no lease. To who accepts both Arrow and JSON
a few actions come as JSON, and all else as Arrow.
""",
    body="NextBody",
    answer=Answer(
        status=200,
        text="Pages, or none.",
        contents=(
            json_body("NextAnswer"),
            BodyContent(media_type=media.ARROW, schema=_ARROW),
        ),
        headers=("Cache-Control", *PACKED),
    ),
    problems=("partition_unknown", "generation_stale", "position_gone", "position_ahead", "not_acceptable"),
    ways=READING,
)
CHECKPOINT = _operation(
    "PUT /v1/groups/{group}/positions/{partition}",
    "writeCheckpoint",
    "Write a checkpoint",
    """
All of the partition up to `position` is done with. A lower one changes nothing; the answer says where the group is. A
generation that is not in force any more is refused and changes nothing.

If the member was told to give the partition up, this is the release, unless `release` is false. With true, it is one
only if the partition is to be given up.
""",
    body="CheckpointBody",
    answer=_WHERE,
    problems=("generation_stale", "position_ahead"),
)
RESET = _operation(
    "POST /v1/groups/{group}/positions/{partition}/reset",
    "resetPosition",
    "Reset a position",
    """
The group goes on elsewhere in the partition: after a number, at the `beginning` of what there is, at the `end`, or with
the first change from a time on. Who has the partition keeps it, under a new generation.
""",
    body="ResetBody",
    answer=_WHERE,
    problems=("position_gone", "position_ahead"),
)
PAUSE = _operation(
    "POST /v1/groups/{group}/pause",
    "pauseGroup",
    "Pause a group",
    "Its members keep what they have and get nothing, until it is resumed.",
)
RESUME = _operation(
    "POST /v1/groups/{group}/resume",
    "resumeGroup",
    "Resume a group",
    "Its members get changes again, from where they were.",
)
DROP_ACTION = _operation(
    "DELETE /v1/groups/{group}/actions/{action}",
    "dropAction",
    "Take an action back",
    "The action no longer belongs to the group, and another one may have it.",
    problems=("action_unknown",),
)
SUBJECT = Subject(
    name="Groups",
    text="""
Consumer groups: readers that share the feed under one name. The hub gives each partition to one member at a time, by a
lease with a generation that fences the members before it, and keeps the group's position in it.
""",
    operations=(
        DEFINE,
        GROUPS,
        SHOW,
        DELETE,
        JOIN,
        LEAVE,
        HEARTBEAT,
        NEXT,
        CHECKPOINT,
        RESET,
        PAUSE,
        RESUME,
        DROP_ACTION,
    ),
)
