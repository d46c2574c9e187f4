"""Groups, described."""

from __future__ import annotations

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
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject, of_schema
from restante.server.openapi.places import ACTION, GROUP, LIMIT, MEMBER, PARTITION, READING, WRITING, after_text
from restante.server.openapi.query import query
from restante.server.openapi.schemas import BINARY
from restante.wire import media

_BODY = ("body_too_large", "unsupported_media_type")
_GROUP = "/v1/groups/{group}"
_MEMBER = "/v1/groups/{group}/members/{member}"
_POSITION = "/v1/groups/{group}/positions/{partition}"
_ARROW = {
    **BINARY,
    "description": (
        "An Arrow stream (IPC): the changes of all pages, one page after another. The schema's metadata has, under "
        '`restante-next`, the JSON `{"pages": [{"partition", "generation", "next", "end", "rows"}], "now"}`.'
    ),
}


def _json(status: int, description: str, schema: str, *headers: str) -> Answer:
    contents = (BodyContent(media_type=media.JSON, schema=of_schema(schema)),)
    return Answer(status=status, text=description, contents=contents, headers=headers)


def _sent(schema: str) -> tuple[BodyContent, ...]:
    return (BodyContent(media_type=media.JSON, schema=of_schema(schema)),)


_DONE = (Answer(status=204, text="Done."),)

DEFINE = Operation(
    method="PUT",
    path=_GROUP,
    name="defineGroup",
    summary="Make a group, or say again what it is",
    text="""
`origins`, `kinds` and `gone` are its filter; left out, it reads all origins and kinds. A new group begins at the
`beginning` of what the feed has, or at its `end` (`start`). If it is there with the same filter, nothing changes; with
another one it is `group_conflict`, unless an operator says `change=true`: then positions stay.

`actions` are added to those that the group has. An action belongs to one group. A group with actions holds the feed back
for what it has not done with, for as long as the setting `groups.hold_seconds` says. Any other may be overtaken by
retention: then `gone` says whether that is an error (`refuse`) or the group goes on with what there is (`skip`).
""",
    parameters=(
        GROUP,
        Parameter(
            name="change",
            text="Whether another filter takes the place of the one it has. For operators.",
            schema={"type": "boolean", "default": False},
            example=False,
        ),
    ),
    bodies=_sent("DefineGroupBody"),
    body_required=False,
    answers=(_json(200, "The group.", "GroupStatus", "Cache-Control"),),
    problems=("group_conflict", "action_taken", *_BODY, *WRITING),
)
GROUPS = Operation(
    method="GET",
    path="/v1/groups",
    name="listGroups",
    summary="List groups",
    text="By name. A token of the role worker sees the groups that it is for.",
    parameters=query(ListGroups, limit=LIMIT, after=after_text("billing")),
    answers=(_json(200, "A page.", "GroupPage"),),
    problems=READING,
)
SHOW = Operation(
    method="GET",
    path=_GROUP,
    name="showGroup",
    summary="Show a group",
    text="""
With its lag: how many numbers lie after its positions. A position also moves over what the filter leaves out, as soon as
a member has looked there. `oldest_unread_at` is left out (null) if the next change of the filter is far away.
""",
    parameters=(GROUP,),
    answers=(_json(200, "The group.", "GroupStatus", "Cache-Control"),),
    problems=("group_unknown", *READING),
)
DELETE = Operation(
    method="DELETE",
    path=_GROUP,
    name="deleteGroup",
    summary="Delete a group",
    text="With its positions, members and actions. Its generations are not used again if it is made once more.",
    parameters=(GROUP,),
    answers=_DONE,
    problems=("group_unknown", *WRITING),
)
JOIN = Operation(
    method="POST",
    path=_GROUP + "/members",
    name="joinGroup",
    summary="Become a member",
    text="""
The answer says what the member has already; the rest of its share comes with its heartbeats, as others release it.
Shares differ by one at most, and as few partitions move as must. Under the name of a member whose lease lasts, the
caller takes its place and its partitions, under new generations: a restart moves nothing.
""",
    parameters=(GROUP,),
    bodies=_sent("JoinBody"),
    answers=(_json(201, "A member.", "Joined", "Cache-Control"),),
    problems=("group_unknown", *_BODY, *WRITING),
)
LEAVE = Operation(
    method="DELETE",
    path=_MEMBER,
    name="leaveGroup",
    summary="Leave a group",
    text="What the member has goes to others at once. Write the last checkpoints before.",
    parameters=(GROUP, MEMBER),
    answers=_DONE,
    problems=("group_unknown", "member_unknown", *WRITING),
)
HEARTBEAT = Operation(
    method="POST",
    path=_MEMBER + "/heartbeat",
    name="sendHeartbeat",
    summary="Say that a member is there",
    text="""
Every `heartbeat_seconds`; a member that misses three loses what it has. The answer lists all that it has from now on. A
partition that is missing there is to be given up: start nothing more of it, let what runs end, and write one last
checkpoint with its old generation, which releases it. If that does not come, the partition goes on after
`groups.handover_seconds`. A partition with another generation than before begins at its `position`.

`running` may say which changes the member works on.
""",
    parameters=(GROUP, MEMBER),
    bodies=_sent("HeartbeatBody"),
    body_required=False,
    answers=(_json(200, "What the member has.", "HeartbeatAnswer", "Cache-Control"),),
    problems=("group_unknown", "member_unknown", *_BODY, *READING),
)
NEXT = Operation(
    method="POST",
    path=_MEMBER + "/next",
    name="readNext",
    summary="Read what is next for a member",
    text=f"""
The changes of the group's filter after the given positions, in the order in which the partitions are named, at most
{GROUP_PARTITIONS_AT_ONCE_MAX} of them. `limit` counts changes over all pages, {FEED_CHANGES_DEFAULT:,} if left out and
{FEED_CHANGES_MAX:,} at most; an answer ends at {ANSWER_BYTES_MAX // MIB} MiB. A page without changes leads on all the
same: `next` is the position after it. Nothing at or below a checkpoint is handed out. If there is nothing, the hub waits
up to `wait` seconds, {WAIT_SECONDS_MAX:g} at most, for something in any of the partitions. A paused group gets nothing.
""",
    parameters=(GROUP, MEMBER),
    bodies=_sent("NextBody"),
    answers=(
        Answer(
            status=200,
            text="Pages, or none.",
            contents=(
                BodyContent(media_type=media.JSON, schema=of_schema("NextAnswer")),
                BodyContent(media_type=media.ARROW, schema=_ARROW),
            ),
            headers=("Cache-Control", *PACKED),
        ),
    ),
    problems=(
        "group_unknown",
        "member_unknown",
        "partition_unknown",
        "generation_stale",
        "position_gone",
        "position_ahead",
        "not_acceptable",
        *_BODY,
        *READING,
    ),
)
CHECKPOINT = Operation(
    method="PUT",
    path=_POSITION,
    name="writeCheckpoint",
    summary="Write a checkpoint",
    text="""
All of the partition up to `position` is done with. A lower one changes nothing; the answer says where the group is. A
generation that is not in force any more is refused and changes nothing.

If the member was told to give the partition up, this is the release, unless `release` is false. With true, it is one
only if the partition is to be given up.
""",
    parameters=(GROUP, PARTITION),
    bodies=_sent("CheckpointBody"),
    answers=(_json(200, "Where the group is.", "Checkpointed", "Cache-Control"),),
    problems=("group_unknown", "partition_unknown", "generation_stale", "position_ahead", *_BODY, *WRITING),
)
RESET = Operation(
    method="POST",
    path=_POSITION + "/reset",
    name="resetPosition",
    summary="Reset a position",
    text="""
The group goes on elsewhere in the partition: after a number, at the `beginning` of what there is, at the `end`, or with
the first change from a time on. Who has the partition keeps it, under a new generation.
""",
    parameters=(GROUP, PARTITION),
    bodies=_sent("ResetBody"),
    answers=(_json(200, "Where the group is.", "Checkpointed", "Cache-Control"),),
    problems=("group_unknown", "partition_unknown", "position_gone", "position_ahead", *_BODY, *WRITING),
)
PAUSE = Operation(
    method="POST",
    path=_GROUP + "/pause",
    name="pauseGroup",
    summary="Pause a group",
    text="Its members keep what they have and get nothing, until it is resumed.",
    parameters=(GROUP,),
    answers=_DONE,
    problems=("group_unknown", *WRITING),
)
RESUME = Operation(
    method="POST",
    path=_GROUP + "/resume",
    name="resumeGroup",
    summary="Resume a group",
    text="Its members get changes again, from where they were.",
    parameters=(GROUP,),
    answers=_DONE,
    problems=("group_unknown", *WRITING),
)
DROP_ACTION = Operation(
    method="DELETE",
    path=_GROUP + "/actions/{action}",
    name="dropAction",
    summary="Take an action back",
    text="The action no longer belongs to the group, and another one may have it. If the group has it not: the same.",
    parameters=(GROUP, ACTION),
    answers=_DONE,
    problems=("group_unknown", *WRITING),
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
