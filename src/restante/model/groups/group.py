"""A group: a name, a filter and its actions, and the changes when it is defined once more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from urllib.parse import quote

import msgspec

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import ActionTaken, ActionUnknown, GroupConflict, InvalidRequest
from restante.model.access.access import NO_OWNER
from restante.model.feed.feed_answers import FeedWish
from restante.model.groups.group_names import check_actions, check_group
from restante.model.mailboxes.filters import check_filters
from restante.model.publishing.message import ACTION_KIND

GROUPS_HOME = 0
"""The partition in which all groups are defined and joined: the name of an action belongs to one of them."""


class Gone(Enum):
    """The choice when the feed no longer has what a group has not read. The texts are part of the stored format."""

    REFUSE = "refuse"
    SKIP = "skip"


class Start(Enum):
    """The place where a new group begins. The texts are part of the stored format."""

    BEGINNING = "beginning"
    END = "end"


def reset_place(to: object) -> int | datetime | Start:
    """A number, a time, or `beginning` or `end`."""
    if isinstance(to, Start | datetime) or (isinstance(to, int) and not isinstance(to, bool)):
        return to
    if to in ("beginning", "end"):
        return Start(to)
    raise InvalidRequest(f'to must be a number, a time, "beginning" or "end", not {to!r}.')


class GroupFilter(msgspec.Struct, frozen=True, array_like=True):
    """The part of the feed that a group reads. Empty: all origins, all kinds."""

    origins: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    gone: Gone = Gone.REFUSE

    @property
    def wish(self) -> FeedWish:
        return FeedWish(origins=self.origins, kinds=self.kinds)


class GroupRow(msgspec.Struct, frozen=True, array_like=True):
    """A group as it is stored."""

    name: str
    filter: GroupFilter
    made_at: int
    actions: tuple[str, ...] = ()
    paused: bool = False
    start: Start = Start.BEGINNING
    """Where the group began: a shard that hears of it late begins there too."""
    version: int = 0
    """Higher with each change, also after the group was deleted and made again: shards tell an old word from a new one by it."""
    had_actions: bool = False
    """Whether an action was taken from it: a group of actions stays one, also with none left, until an operator changes it."""

    owner: bytes = NO_OWNER
    """The owner of the token that made it, of which only so many may be made; none of an operator's."""

    @property
    def is_of_actions(self) -> bool:
        return self.had_actions or bool(self.actions)

    @property
    def wish(self) -> FeedWish:
        """The part of the feed that it reads: a group of actions reads these alone."""
        wish = self.filter.wish
        return msgspec.structs.replace(wish, kinds=(ACTION_KIND,)) if self.is_of_actions else wish


class GroupWish(msgspec.Struct, frozen=True, kw_only=True):
    """A group as a caller defines it."""

    name: str
    filter: GroupFilter = GroupFilter()
    actions: tuple[str, ...] = ()
    start: Start = Start.BEGINNING


def checked_wish(
    name: object,
    *,
    origins: tuple[str, ...],
    kinds: tuple[str, ...],
    gone: Gone,
    actions: tuple[str, ...],
    start: Start = Start.BEGINNING,
) -> GroupWish:
    """A wish in its one form, whatever order the caller listed names in."""
    check_filters("origin", origins)
    check_filters("kind", kinds)
    own = GroupFilter(tuple(sorted(set(origins))), tuple(sorted(set(kinds))), gone)
    return GroupWish(name=check_group(name), filter=own, actions=check_actions(actions), start=start)


def defined(
    before: GroupRow | None,
    wish: GroupWish,
    *,
    taken: Mapping[str, str],
    now: int,
    change: bool = False,
    owner: bytes = NO_OWNER,
) -> GroupRow:
    """The row of a group after a caller has defined it. `taken` says which group has which action.

    `GroupConflict` if it reads something else and that is not to be changed; `ActionTaken` if another group has an action.
    """
    for action in wish.actions:
        if taken.get(action, wish.name) != wish.name:
            raise ActionTaken(
                f"The action {action!r} belongs to the group {taken[action]!r}. Name another one, or let an operator take "
                f"it from that group with DELETE /v1/groups/{taken[action]}/actions/{action}.",
                action=action,
                group=taken[action],
            )
    if before is None:
        return GroupRow(wish.name, wish.filter, now, wish.actions, start=wish.start, owner=owner)
    actions = check_actions((*before.actions, *wish.actions))
    if change:
        had_actions = before.had_actions and bool(actions)
        return msgspec.structs.replace(before, filter=wish.filter, actions=actions, had_actions=had_actions)
    if before.filter != wish.filter:
        own = before.filter
        raise _conflict(
            before,
            f"The group {before.name!r} has another filter: origins {_shown(own.origins)}, kinds {_shown(own.kinds)}, "
            f"gone {own.gone.value}. Use that one",
        )
    if actions and not before.is_of_actions:
        raise _conflict(
            before, f"The group {before.name!r} reads the feed, and with actions it would read these alone. Name none"
        )
    return msgspec.structs.replace(before, actions=actions)


def _conflict(before: GroupRow, why: str) -> GroupConflict:
    own = before.filter
    return GroupConflict(
        f"{why}, take another name, or let an operator change it with ?change=true.",
        group=before.name,
        origins=list(own.origins),
        kinds=list(own.kinds),
        gone=own.gone.value,
    )


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "all"


def without_action(row: GroupRow, action: str) -> GroupRow:
    """The row without one of its actions; `ActionUnknown` if it has no such action."""
    if action not in row.actions:
        raise ActionUnknown(
            f"The group {row.name!r} has no action {action!r}; GET /v1/groups/{quote(row.name, safe='')} lists those that it has.",
            group=row.name,
            action=action,
        )
    left = tuple(name for name in row.actions if name != action)
    return msgspec.structs.replace(row, actions=left, had_actions=True)


def next_version(row: GroupRow, newest: int, now: int) -> int:
    """Higher than every version before, whatever the clock says, and than the one as of which there was no such group."""
    return max(row.version + 1, whole_version(newest) + 1, now)


def whole_version(newest: int) -> int:
    """The version as of which there are no other groups, where the newest has this one."""
    return newest + 1


def check_room(groups: int, of_owner: int) -> None:
    """`InvalidRequest` if there are so many groups, or so many of one owner, that one more is too many."""
    if of_owner >= limits.GROUPS_OF_OWNER_MAX:
        raise InvalidRequest(
            f"This token has made {of_owner:,} groups, the most that one may make. Join one of those, or let an operator make "
            "this one, or delete some."
        )
    if groups >= limits.GROUPS_MAX:
        raise InvalidRequest(f"There are {groups:,} groups already, the most there may be. Delete some.")


def check_names(names: int) -> None:
    """`InvalidRequest` if the groups of one owner have too many actions."""
    if names > limits.ACTIONS_OF_OWNER_MAX:
        raise InvalidRequest(
            f"The groups made with one token would have {names:,} actions; at most {limits.ACTIONS_OF_OWNER_MAX:,} are allowed. "
            "Let an operator make the group, or take names back."
        )


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(GroupRow)


def encode_group(row: GroupRow) -> bytes:
    return _encoder.encode(row)


def decode_group(value: bytes) -> GroupRow:
    return _decoder.decode(value)


def group_key(name: str) -> bytes:
    return name.encode()
