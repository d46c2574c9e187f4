"""The parts that both surfaces of a group share: what is asked for, and pages as a program sees them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from restante import limits
from restante.calls.groups import DefineGroup
from restante.client.groups.holdings import TakenPage
from restante.client.groups.member import new_member_name
from restante.client.surface.arguments import whole
from restante.errors import InvalidRequest
from restante.model.groups.group_names import check_actions, check_group, check_member


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    """The choice of a member, checked."""

    group: str
    member: str
    limit: int
    definition: DefineGroup
    is_defined: bool
    """Whether the caller says what the group is; otherwise it is only made if it is not there."""


def group_reading(definition: DefineGroup, *, member: object, limit: object) -> GroupReading:
    name, asked = check_group(definition.group), whole("limit", limit)
    if asked is not None and asked < 1:
        raise InvalidRequest(f"limit must be at least 1, not {asked}.")
    definition = msgspec.structs.replace(definition, actions=check_actions(definition.actions))
    return GroupReading(
        group=name,
        member=new_member_name() if member is None else check_member(member),
        limit=limits.FEED_CHANGES_MAX if asked is None else min(asked, limits.FEED_CHANGES_MAX),
        definition=definition,
        is_defined=definition != DefineGroup(name, start=definition.start),
    )


class PageView:
    """Changes of one partition, in order, that this member works on."""

    def __init__(self, taken: TakenPage) -> None:
        self._taken = taken

    @property
    def table(self) -> pa.Table:
        """The changes, as columns."""
        return self._taken.table

    @property
    def partition(self) -> int:
        return self._taken.holding.partition

    @property
    def generation(self) -> int:
        """Under which the member has the partition. It fences the members before."""
        return self._taken.holding.generation

    @property
    def position(self) -> int:
        """The position after it."""
        return self._taken.position

    @property
    def end(self) -> int:
        """The last number that there was when it was read."""
        return self._taken.end

    @property
    def lag(self) -> int:
        """How many numbers lay after this page."""
        return max(self.end - self.position, 0)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of partition {self.partition}: {self.table.num_rows} changes up to {self.position}>"
