"""The doctor on groups: sound ones are, and rows that make no sense are found."""

from __future__ import annotations

import pytest

from restante.calls.groups import DeleteGroup
from restante.hub.doctor.doctor import examine
from restante.model.groups.group import GroupFilter, GroupRow, encode_group
from restante.model.groups.group_position import PositionRow, encode_position
from restante.model.groups.membership import GroupMember, encode_member
from restante.model.shards.group_parts import GroupCopy, encode_copy
from restante.model.storage.changes import Changes, Space
from restante.stores.memory import MemoryStore
from tests.groups.group_world import GroupWorld

POSITIONS, MEMBERS, GROUPS = Space.GROUP_POSITION, Space.GROUP_MEMBER, Space.GROUP
COPIES = Space.GROUP_COPY


@pytest.fixture
def store() -> MemoryStore:
    world = GroupWorld()
    world.publish(20)
    for name in ("g", "gone"):
        world.define(name, actions=(name,))
        own = world.join("a", name).partitions[0]
        world.checkpoint(own, 2, name)
    world.hub.call(DeleteGroup("gone"))
    world.hub.close()
    assert isinstance(world.store, MemoryStore)
    return world.store.survivor()


def test_groups_that_were_used_are_sound(store: MemoryStore) -> None:
    assert examine(store).sound


@pytest.mark.parametrize(
    ("space", "key", "value"),
    [
        (POSITIONS, b"g", encode_position(PositionRow(1, 10_000))),
        (POSITIONS, b"g", encode_position(PositionRow(1, 1, 0, b"short"))),
        (POSITIONS, b"g", encode_position(PositionRow(-1, 1))),
        (POSITIONS, b"g", b"\xff"),
        (GROUPS, b"other", encode_group(GroupRow("g", GroupFilter(), 1))),
        (GROUPS, b".", encode_group(GroupRow(".", GroupFilter(), 1))),
        (COPIES, b"other", encode_copy(GroupCopy(1, GroupRow("g", GroupFilter(), 1)))),
        (COPIES, b"g", b"\xff"),
        (MEMBERS, b"g\x00" + b"m" * 16, encode_member(GroupMember(b"n" * 16, "a", 1))),
        (MEMBERS, b"\x00" + b"m" * 16, encode_member(GroupMember(b"m" * 16, "a", 1))),
    ],
)
def test_a_row_that_makes_no_sense_is_found(store: MemoryStore, space: Space, key: bytes, value: bytes) -> None:
    fence = store.raise_fences(4)
    store.commit(Changes(entries={}, fences={0: fence}))
    changes = Changes(fences={0: fence})
    changes.put(0, space, key, value)
    store.commit(changes)
    assert not examine(store).sound
