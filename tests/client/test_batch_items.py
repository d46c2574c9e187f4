"""Items are a sequence of ids that takes no room."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.client.batches.batch_items import Items
from restante.errors import InvalidRequest
from restante.model.batches.batch_answers import ItemGroup, ItemRange

BATCH = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def items_of(*sizes: int) -> Items:
    return Items.of(BATCH, [ItemGroup(id=str(place), upto=size) for place, size in enumerate(sizes)])


def ids_of(*sizes: int) -> list[str]:
    return [f"{BATCH}:{place}:{index}" for place, size in enumerate(sizes) for index in range(size)]


def test_the_ids_are_those_of_the_groups_in_their_order() -> None:
    assert list(items_of(3, 2)) == ids_of(3, 2)
    assert list(reversed(items_of(3, 2))) == ids_of(3, 2)[::-1]


def test_a_billion_items_are_counted_looked_at_and_cut_at_once() -> None:
    items = items_of(10**9, 10**12)
    assert len(items) == 10**9 + 10**12
    assert items[10**9 - 1] == f"{BATCH}:0:{10**9 - 1}"
    assert items[-1] == f"{BATCH}:1:{10**12 - 1}"
    stretch = items[10**9 - 2 : 10**9 + 3]
    assert list(stretch) == [f"{BATCH}:0:999999998", f"{BATCH}:0:999999999", *(f"{BATCH}:1:{i}" for i in range(3))]
    assert f"{BATCH}:1:{10**11}" in items
    assert sys.getsizeof(items) < 200


def test_a_stretch_gives_its_ranges() -> None:
    items = items_of(5_000, 5_000)
    assert items[1_000:2_000].ranges() == (ItemRange(group=f"{BATCH}:0", start=1_000, upto=2_000),)
    assert items[4_000:6_000].ranges() == (
        ItemRange(group=f"{BATCH}:0", start=4_000, upto=5_000),
        ItemRange(group=f"{BATCH}:1", start=0, upto=1_000),
    )
    assert items[4_000:6_000][500:1_500].ranges()[0] == ItemRange(group=f"{BATCH}:0", start=4_500, upto=5_000)


def test_groups_are_told_as_the_hub_told_them() -> None:
    groups = (ItemGroup(id="0", upto=5), ItemGroup(id="1", upto=7))
    items = Items.of(BATCH, groups)
    assert items.groups == groups
    assert items[6:8].groups == (groups[1],)
    assert items[3:3].groups == ()


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(-12, 12), st.integers(-12, 12))
def test_a_stretch_is_what_a_list_would_give(sizes: list[int], start: int, stop: int) -> None:
    assert list(items_of(*sizes)[start:stop]) == ids_of(*sizes)[start:stop]
    assert len(items_of(*sizes)[start:stop]) == len(ids_of(*sizes)[start:stop])


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(-25, 25))
def test_a_place_is_what_a_list_would_give(sizes: list[int], place: int) -> None:
    items, ids = items_of(*sizes), ids_of(*sizes)
    if -len(ids) <= place < len(ids):
        assert items[place] == ids[place]
    else:
        with pytest.raises(IndexError, match=f"there are {len(ids)} items"):
            items[place]


@pytest.mark.parametrize(
    "other", [f"{BATCH}:0:5", f"{BATCH}:0:01", f"{BATCH}:1:0", f"{BATCH}:0:", "", "x:0:1", 1, None]
)
def test_what_is_no_item_of_it_is_not_in_it(other: object) -> None:
    assert other not in items_of(5)


def test_equal_items_are_equal_and_hash_alike() -> None:
    assert items_of(10)[2:4] == items_of(20)[2:4]
    assert hash(items_of(10)[2:4]) == hash(items_of(20)[2:4])
    assert items_of(10)[2:4] != items_of(10)[2:5]
    assert items_of(2) != ids_of(2)


def test_items_are_not_cut_with_a_step() -> None:
    with pytest.raises(InvalidRequest, match="without a step"):
        items_of(5)[::2]


def test_items_say_how_many_they_are() -> None:
    assert repr(items_of(5)) == f"<Items: 5 of {BATCH}:0>"
    assert not items_of()
