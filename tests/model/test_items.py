"""Item ids: read many at once, refused when one of them is none."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.errors import InvalidItem, InvalidRequest
from restante.model.batches.batch_answers import ItemRange
from restante.model.batches.items import named

_BATCH = "01890a5d-ac96-774b-bcce-b302099a8057"
_batches = st.sampled_from([_BATCH, _BATCH.upper(), "00000000-0000-0000-0000-000000000000"])
_numbers = st.one_of(st.integers(0, 12), st.integers(0, 10**12))


@given(st.lists(st.tuples(_batches, _numbers, _numbers), min_size=1, max_size=40))
def test_ids_are_read_as_they_are_written(ids: list[tuple[str, int, int]]) -> None:
    found = named([f"{batch}:{group}:{index}" for batch, group, index in ids], ())
    read = {
        place: (one.batch, one.group, index)
        for one in found.groups
        for place, index in zip(one.places().tolist(), one.index.tolist(), strict=True)
    }
    assert read == {place: (uuid.UUID(batch).bytes, group, index) for place, (batch, group, index) in enumerate(ids)}


_WRONG: list[Any] = [
    "",
    "x",
    ":",
    "::",
    _BATCH,
    f"{_BATCH}:0",
    f"{_BATCH}:0:",
    f"{_BATCH}::0",
    f"{_BATCH}:0:-1",
    f"{_BATCH}:0:+1",
    f"{_BATCH}:0:01",
    f"{_BATCH}:00:1",
    f"{_BATCH}:0:1 ",
    f" {_BATCH}:0:1",
    f"{_BATCH}:0:1\n",
    f"{_BATCH}:0:1\n2",
    f"{_BATCH}:0:\u0661",
    f"{_BATCH}:0:1e3",
    f"{_BATCH}:0:\ud800",
    f"{_BATCH}:0:1,2",
    f"{_BATCH}:0:1:2",
    f"{_BATCH[:-1]}:0:1",
    f"{_BATCH}0:0:1",
    f"{{{_BATCH}}}:0:1",
    f"{_BATCH.replace('-', '')}:0:1",
    7,
    None,
]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("wrong", range(len(_WRONG)))
def test_a_text_that_is_no_item_id_refuses_the_call_and_is_named(wrong: int, place: int) -> None:
    items: list[Any] = [f"{_BATCH}:0:5", f"{_BATCH}:0:6"]
    items.insert(place, _WRONG[wrong])
    with pytest.raises(InvalidItem) as refused:
        named(items, ())
    assert refused.value.details["index"] == place


@pytest.mark.parametrize(
    ("group", "start", "upto"),
    [(f"{_BATCH}", 0, 1), (f"{_BATCH}:x", 0, 1), (f"{_BATCH}:0", 1, 1), (f"{_BATCH}:0", -1, 1), (f"{_BATCH}:0", 3, 2)],
)
def test_a_range_that_makes_no_sense_refuses_the_call(group: str, start: int, upto: int) -> None:
    with pytest.raises(InvalidItem):
        named((), [ItemRange(group=group, start=start, upto=upto)])


@pytest.mark.parametrize("digits", [14, 18, 19, 30, 5_000])
def test_a_number_too_large_for_any_item_is_well_formed_all_the_same(digits: int) -> None:
    found = named([f"{_BATCH}:0:{'9' * digits}", f"{_BATCH}:0:1"], ())
    assert found.groups[0].index[0] > limits.BATCH_ITEMS_MAX
    assert found.groups[0].index[1] == 1


def test_a_call_names_something_and_not_too_much() -> None:
    with pytest.raises(InvalidRequest):
        named((), ())
    one = f"{_BATCH}:0:1"
    with pytest.raises(InvalidRequest):
        named([one] * (limits.ACKNOWLEDGED_ITEMS_MAX + 1), ())
    own = ItemRange(group=f"{_BATCH}:0", start=0, upto=1)
    with pytest.raises(InvalidRequest):
        named((), [own] * (limits.ACKNOWLEDGED_RANGES_MAX + 1))
    with pytest.raises(InvalidRequest):
        named([f"{uuid.UUID(int=number)}:0:1" for number in range(limits.BATCHES_AT_ONCE_MAX + 1)], ())


def test_batches_are_named_once_in_the_order_of_the_call() -> None:
    other = "11111111-1111-1111-1111-111111111111"
    ranges = [ItemRange(group=f"{_BATCH}:0", start=0, upto=1)]
    found = named([f"{other}:0:1", f"{_BATCH}:0:1", f"{other}:5:1"], ranges)
    assert found.batches() == [uuid.UUID(other).bytes, uuid.UUID(_BATCH).bytes]
