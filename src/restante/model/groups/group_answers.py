"""Questions and answers about groups, as values: the same in process and over the network."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from restante.model.groups.group import Gone
from restante.model.groups.handed_row import HandedRow
from restante.model.uuid_text import UuidText

if TYPE_CHECKING:
    import pyarrow as pa


class Assigned(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that a member has."""

    partition: int
    generation: int
    position: int
    """Where the member goes on: all up to this position is done with."""


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    member_id: UuidText
    heartbeat_seconds: float
    """How often the member is to say that it is there."""
    partitions: tuple[Assigned, ...]


class HeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    partitions: tuple[Assigned, ...]
    """The partitions that the member has from now on. It must give up others that it had."""
    now: datetime


class Running(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change that a member works on."""

    partition: int
    sequence_number: int


class ReadAfter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Up to where a member has read a partition that it has."""

    partition: int
    generation: int
    position: int


class NextPage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Changes of one partition, in order, of the group's filter."""

    partition: int
    generation: int
    next: int
    """The position after it."""
    end: int
    """The last number that there is."""
    table: pa.Table


class FewPage(msgspec.Struct, frozen=True, kw_only=True):
    """A few actions of one partition, or none, as values."""

    partition: int
    generation: int
    next: int
    end: int
    changes: tuple[HandedRow, ...]


class FewPages(msgspec.Struct, frozen=True, kw_only=True):
    """Pages of values, as they travel."""

    pages: tuple[FewPage, ...]
    now: datetime


class NextAnswer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    pages: tuple[NextPage, ...]
    now: datetime
    few: tuple[FewPage, ...] = ()
    """Instead of the pages, where there is little and the caller takes values."""


class Checkpointed(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a group in a partition, as written by a checkpoint."""

    partition: int
    generation: int
    position: int


class GroupPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a group in a partition, and the member that has the partition."""

    partition: int
    position: int
    end: int
    lag: int
    oldest_unread_at: datetime | None
    """When the first change of the filter happened that is not done with."""
    member_id: UuidText | None
    generation: int
    checkpoint_at: datetime | None


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    member_id: UuidText
    member: str
    partitions: tuple[int, ...]
    heartbeat_at: datetime


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A group: what it reads, how far it has come, who is in it."""

    group: str
    origins: tuple[str, ...]
    kinds: tuple[str, ...]
    gone: Gone
    actions: tuple[str, ...]
    paused: bool
    lag: int
    """How many numbers lie after its positions, over all partitions."""
    partitions: tuple[GroupPartition, ...]
    members: tuple[MemberStatus, ...]


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    groups: tuple[GroupStatus, ...]
    next: str | None
