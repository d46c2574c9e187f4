"""Groups: defined, joined, kept alive, read, checkpointed, looked at, paused, reset, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from restante.calls.call import Call, Count, Home, Number, Seconds
from restante.limits import GROUP_ACTIONS_MAX, GROUP_PARTITIONS_AT_ONCE_MAX, GROUP_RUNNING_MAX, MEMBER_CHARACTERS_MAX
from restante.model.groups.group import Gone, Start
from restante.model.groups.group_answers import (
    Checkpointed,
    GroupPage,
    GroupStatus,
    HeartbeatAnswer,
    Joined,
    NextAnswer,
    ReadAfter,
    Running,
)

RunningWork = Annotated[Sequence[Running], Meta(max_length=GROUP_RUNNING_MAX)]


class DefineGroup(Call[GroupStatus], frozen=True):
    """Make a group, or say once more what it is. Actions are added to those known."""

    group: str
    origins: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    start: Start = Start.BEGINNING
    actions: Annotated[tuple[str, ...], Meta(max_length=GROUP_ACTIONS_MAX)] = ()
    gone: Gone = Gone.REFUSE
    change: bool = False
    """Whether another filter takes the place of the one it has."""


class ReadGroup(Call[GroupStatus], frozen=True):
    """Read the status of a group: its partitions, its members, and how far it has come."""

    home = Home.ALL

    group: str


class ListGroups(Call[GroupPage], frozen=True, kw_only=True):
    """The groups by name."""

    home = Home.ALL

    limit: Count | None = None
    after: str | None = None


class DeleteGroup(Call[None], frozen=True):
    """Delete a group with its positions. Its generations are never used again."""

    group: str


class JoinGroup(Call[Joined], frozen=True):
    """Become a member. Under the name of another one, take its place."""

    group: str
    member: Annotated[str, Meta(min_length=1, max_length=MEMBER_CHARACTERS_MAX)]


class LeaveGroup(Call[None], frozen=True):
    """A member leaves, and its partitions go to others."""

    group: str
    member_id: str


class SendHeartbeat(Call[HeartbeatAnswer], frozen=True):
    """A member is there; the answer says what it has."""

    group: str
    member_id: str
    running: RunningWork = ()
    """The actions that it works on."""
    revision: Number = 0
    """The number of what a member says of its work: the higher one is newer, whatever arrives first. 0: it does not number."""


class ReadNext(Call[NextAnswer], frozen=True):
    """The changes of the group's filter in partitions that a member has; if there are none, `wait` seconds for one."""

    home = Home.ALL

    group: str
    member_id: str
    after: Annotated[Sequence[ReadAfter], Meta(max_length=GROUP_PARTITIONS_AT_ONCE_MAX)]
    limit: Count | None = None
    wait: Seconds = 0
    few: bool = False
    """Whether a few actions may come as values."""
    running: RunningWork | None = None
    """The actions that the member works on, if it says so: like that of a heartbeat."""
    revision: Number = 0
    """As in a heartbeat. A member that numbers names an action that workers died of before it begins it."""


class WriteCheckpoint(Call[Checkpointed], frozen=True):
    """A member is done with all changes of a partition up to the position."""

    group: str
    partition: int
    position: Number
    generation: Number
    release: bool | None = None
    """Whether this gives up a partition that is to go to another member; None: only if its holder was told to give it up."""


class ResetPosition(Call[Checkpointed], frozen=True):
    """Go on elsewhere in a partition: at a number, at the first change from a time on, or at a `Start`."""

    group: str
    partition: int
    to: int | datetime | Start


class PauseGroup(Call[None], frozen=True):
    """Members keep what they have and get nothing."""

    group: str


class ResumeGroup(Call[None], frozen=True):
    """Members get changes again."""

    group: str


class DropAction(Call[None], frozen=True):
    """An action no longer belongs to a group."""

    group: str
    action: str
