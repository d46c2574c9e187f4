"""What a group is when it is defined again, and what a checkpoint changes."""

from __future__ import annotations

from typing import Any

import pytest

from restante.errors import (
    ActionTaken,
    ActionUnknown,
    GenerationStale,
    GroupConflict,
    InvalidRequest,
    PositionAhead,
)
from restante.limits import GROUPS_MAX, GROUPS_OF_OWNER_MAX
from restante.model.groups.group import (
    Gone,
    GroupRow,
    GroupWish,
    check_room,
    checked_wish,
    decode_group,
    defined,
    encode_group,
    without_action,
)
from restante.model.groups.group_position import (
    PositionRow,
    begun,
    checkpointed,
    decode_position,
    encode_position,
    ended,
    freed,
    given,
    reset,
)
from restante.model.groups.membership import lapsed, overdue, seconds_left

SECOND = 1_000_000


def wish(name: str = "billing", **given: Any) -> GroupWish:
    return checked_wish(
        name,
        origins=given.get("origins", ()),
        kinds=given.get("kinds", ()),
        gone=given.get("gone", Gone.REFUSE),
        actions=given.get("actions", ()),
    )


def made(**given: Any) -> GroupRow:
    return defined(None, wish(**given), taken={}, now=5)


def test_the_same_definition_again_changes_nothing() -> None:
    before = made(origins=("b", "a"), kinds=("k",))
    assert defined(before, wish(origins=("a", "b", "a"), kinds=("k",)), taken={}, now=9) == before


@pytest.mark.parametrize("other", [{"origins": ("a",)}, {"kinds": ("a",)}, {"gone": Gone.SKIP}])
def test_another_filter_is_a_conflict_unless_it_is_to_be_changed(other: dict[str, Any]) -> None:
    before = made()
    with pytest.raises(GroupConflict) as refused:
        defined(before, wish(**other), taken={}, now=9)
    assert refused.value.details["gone"] == "refuse"
    changed = defined(before, wish(**other), taken={}, now=9, change=True)
    assert changed.filter == wish(**other).filter
    assert changed.made_at == before.made_at


def test_actions_are_added_to_those_known() -> None:
    before = made(actions=("pay",))
    after = defined(before, wish(actions=("bill",)), taken={"pay": "billing"}, now=9)
    assert after.actions == ("bill", "pay")
    assert defined(after, wish(), taken={}, now=9) == after
    assert without_action(after, "pay").actions == ("bill",)
    with pytest.raises(ActionUnknown):
        without_action(after, "unknown")


def test_an_action_belongs_to_one_group() -> None:
    with pytest.raises(ActionTaken) as refused:
        defined(None, wish(actions=("pay",)), taken={"pay": "shop"}, now=9)
    assert refused.value.details == {"action": "pay", "group": "shop"}


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a\nb", "x" * 65, "\ud800", 7])
def test_a_name_that_no_group_may_have(name: object) -> None:
    with pytest.raises(InvalidRequest):
        checked_wish(name, origins=(), kinds=(), gone=Gone.REFUSE, actions=())


def test_there_are_only_so_many_groups() -> None:
    check_room(GROUPS_MAX - 1, 0)
    with pytest.raises(InvalidRequest):
        check_room(GROUPS_MAX, 0)
    with pytest.raises(InvalidRequest):
        check_room(GROUPS_OF_OWNER_MAX, GROUPS_OF_OWNER_MAX)


def test_rows_are_read_as_they_were_written() -> None:
    row = made(origins=("a",), kinds=("k",), gone=Gone.SKIP, actions=("pay",))
    assert decode_group(encode_group(row)) == row
    position = PositionRow(3, 4, 5, b"m" * 16)
    assert decode_position(encode_position(position)) == position


def test_a_checkpoint_moves_forward_only() -> None:
    row = given(begun(None, 10, 1), b"m", now=0)
    later = checkpointed(row, 20, row.generation, end=30, now=7)
    assert (later.position, later.checkpoint_at) == (20, 7)
    assert checkpointed(later, 15, row.generation, end=30, now=8) == later


def test_a_checkpoint_beyond_the_end_is_refused() -> None:
    row = given(begun(None, 10, 1), b"m", now=0)
    with pytest.raises(PositionAhead) as refused:
        checkpointed(row, 31, row.generation, end=30, now=7)
    assert refused.value.details["end"] == 30


def test_a_stale_generation_writes_nothing() -> None:
    first = given(begun(None, 0, 1), b"m", now=0)
    second = given(first, b"n", now=0)
    for stale in (first.generation, second.generation + 1):
        with pytest.raises(GenerationStale) as refused:
            checkpointed(second, 1, stale, end=9, now=7)
        assert refused.value.details["generation"] == second.generation


def test_a_lease_that_ended_writes_nothing_though_nobody_took_over() -> None:
    row = freed(given(begun(None, 0, 1), b"m", now=0))
    with pytest.raises(GenerationStale):
        checkpointed(row, 1, row.generation, end=9, now=7)


def test_generations_go_on_after_deletion_and_reset() -> None:
    row = given(begun(None, 0, 1), b"m", now=0)
    again = given(begun(ended(row), 0, 2), b"m", now=0)
    assert again.generation > row.generation
    moved = reset(again, 3, now=7)
    assert (moved.position, moved.holder) == (3, b"m")
    assert moved.generation > again.generation


def test_generations_ascend_over_the_restoring_of_a_backup() -> None:
    backed_up = given(begun(None, 0, 1), b"m", now=100 * SECOND)
    lost = given(backed_up, b"n", now=200 * SECOND)
    restored = given(backed_up, b"o", now=300 * SECOND)
    assert restored.generation > lost.generation


def test_a_lease_ends_after_three_missed_heartbeats() -> None:
    heard = {b"a": 10.0, b"b": 12.0}
    assert lapsed(heard, 18.9, 3.0) == frozenset()
    assert lapsed(heard, 19.0, 3.0) == {b"a"}


def test_a_partition_goes_on_some_time_after_its_holder_was_told() -> None:
    assert overdue({1: 10.0, 2: 11.0}, 40.0, 30.0) == {1}


def test_what_ends_next_is_known() -> None:
    assert seconds_left([10.0], [5.0], 12.0, heartbeat_seconds=3.0, handover_seconds=30.0) == 7.0
    assert seconds_left([10.0], [5.0], 50.0, heartbeat_seconds=3.0, handover_seconds=30.0) == 0.0
    assert seconds_left([], [], 12.0, heartbeat_seconds=3.0, handover_seconds=30.0) is None
