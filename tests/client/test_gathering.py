"""What is to be acknowledged is cut into calls: short lists as they are, much of it gathered."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches.acknowledgement_calls import Each, Sum, calls_of, plain_call
from restante.client.batches.batch_items import Items
from restante.errors import InvalidRequest
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch, ItemGroup, ItemRange

BATCH = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
GROUP = f"{BATCH}:0"


def ids(indices: Iterable[int], group: str = GROUP) -> list[str]:
    return [f"{group}:{index}" for index in indices]


def span(start: int, upto: int, group: str = GROUP) -> ItemRange:
    return ItemRange(group=group, start=start, upto=upto)


def named(calls: Iterable[AcknowledgeItems]) -> list[str]:
    """All ids that calls name, ranges spelled out."""
    found: list[str] = []
    for call in calls:
        found += call.items
        for each in call.ranges:
            found += ids(range(each.start, each.upto), each.group)
    return found


def within_bounds(call: AcknowledgeItems) -> bool:
    batches = {item[:36] for item in call.items} | {each.group[:36] for each in call.ranges}
    return (
        len(call.items) + len(call.ranges) > 0
        and len(call.items) <= limits.ACKNOWLEDGE_ITEMS_TARGET
        and len(call.ranges) <= limits.ACKNOWLEDGE_RANGES_TARGET
        and len(batches) <= limits.BATCHES_AT_ONCE_MAX
    )


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_short_list_is_one_call_and_the_very_same_list(kind: type) -> None:
    given_ids = kind(ids(range(1_000)))
    call = plain_call(given_ids)
    assert call is not None
    assert call.items is given_ids
    assert call.ranges == ()


def test_one_id_or_one_range_is_a_call() -> None:
    assert plain_call(f"{GROUP}:1") == AcknowledgeItems((f"{GROUP}:1",))
    assert plain_call(span(0, 5)) == AcknowledgeItems((), (span(0, 5),))


@pytest.mark.parametrize(
    "given_items",
    [
        [],
        ids(range(limits.ACKNOWLEDGE_ITEMS_TARGET + 1)),
        [f"{GROUP}:1", span(0, 5)],
        {f"{GROUP}:1"},
        Items.of(BATCH, [ItemGroup(id="0", upto=5)]),
        [f"{number:036}:0:0" for number in range(limits.BATCHES_AT_ONCE_MAX + 1)],
    ],
    ids=["nothing", "many", "mixed", "a set", "items", "many batches"],
)
def test_anything_else_is_gathered(given_items: Iterable[str | ItemRange]) -> None:
    assert plain_call(given_items) is None


def test_nothing_makes_no_call() -> None:
    assert list(calls_of([])) == []
    assert list(calls_of(iter(()))) == []
    assert list(calls_of([Items.of(BATCH, [])])) == []


def test_neighbours_become_a_range() -> None:
    assert list(calls_of(iter(ids(range(50_000))))) == [AcknowledgeItems([], [span(0, 50_000)])]


def test_a_few_neighbours_stay_ids() -> None:
    (call,) = calls_of(iter(ids([*range(9), *range(100, 110), 5, 200])))
    assert call == AcknowledgeItems(ids([*range(9), 5, 200]), [span(100, 110)])


def test_neighbours_of_two_groups_are_two_ranges() -> None:
    other = f"{BATCH}:1"
    assert list(calls_of(iter(ids(range(20)) + ids(range(20, 40), other)))) == [
        AcknowledgeItems([], [span(0, 20), span(20, 40, other)])
    ]


def test_items_and_ranges_go_as_ranges() -> None:
    items = Items.of(BATCH, [ItemGroup(id="0", upto=10**12)])
    assert list(calls_of(items)) == [AcknowledgeItems([], [span(0, 10**12)])]
    assert list(calls_of([items[5:7], span(8, 9), f"{GROUP}:11"])) == [
        AcknowledgeItems([f"{GROUP}:11"], [span(5, 7), span(8, 9)])
    ]


def test_ids_in_no_order_go_as_they_are() -> None:
    shuffled = ids(range(0, 50_000, 2))
    random.Random(7).shuffle(shuffled)
    calls = list(calls_of(shuffled))
    assert [len(call.items) for call in calls] == [10_000, 10_000, 5_000]
    assert named(calls) == shuffled


def test_an_endless_iterator_is_acknowledged_as_it_goes() -> None:
    def endless() -> Iterator[str]:
        index = 0
        while True:
            yield f"{GROUP}:{index}"
            index += 1

    calls = list(islice(calls_of(endless()), 3))
    step = limits.ACKNOWLEDGE_GATHERED_TARGET
    assert calls == [AcknowledgeItems([], [span(place * step, (place + 1) * step)]) for place in range(3)]


def test_a_call_never_names_too_many_batches() -> None:
    scattered = [f"{number:036}:0:{number}" for number in range(2_500)]
    calls = list(calls_of(scattered))
    assert all(map(within_bounds, calls))
    assert sorted(named(calls)) == sorted(scattered)
    many = [span(0, 5, f"{number:036}:0") for number in range(1_500)]
    calls = list(calls_of([*many, *scattered[:50]]))
    assert all(map(within_bounds, calls))
    assert sum(len(call.ranges) for call in calls) == 1_500


@pytest.mark.parametrize("odd", ["007", "+1", " 1", "1_0", "", "-1", "²", "9" * 5_000])
def test_an_odd_id_is_sent_as_it_is_so_that_the_hub_can_tell(odd: str) -> None:
    given_ids = [*ids(range(20)), f"{GROUP}:{odd}", *ids(range(20, 40))]
    (call,) = calls_of(iter(given_ids))
    assert call.items == [f"{GROUP}:{odd}"]
    assert call.ranges == [span(0, 20), span(20, 40)]


def test_a_text_without_a_group_is_sent_as_it_is() -> None:
    given_ids = [str(number) for number in range(30)]
    assert list(calls_of(iter(given_ids))) == [AcknowledgeItems(given_ids, [])]


@pytest.mark.parametrize("wrong", [[1], [None], [b"x"], b"xy", [["nested"]]])
def test_what_is_no_item_is_refused(wrong: Iterable[str]) -> None:
    with pytest.raises(InvalidRequest, match="Acknowledge ids of items"):
        list(calls_of(wrong))


@pytest.mark.parametrize("wrong", [None, 5])
def test_what_cannot_be_walked_over_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidRequest, match="Acknowledge ids of items"):
        list(calls_of(wrong))  # type: ignore[arg-type]


stretches = st.lists(
    st.tuples(st.sampled_from([GROUP, f"{BATCH}:1", f"{BATCH[:-1]}1:0"]), st.integers(0, 40), st.integers(1, 30)),
    max_size=30,
)


@given(stretches)
def test_every_id_is_in_some_call_exactly_as_often_as_it_was_given(runs: list[tuple[str, int, int]]) -> None:
    given_ids = [item for group, start, count in runs for item in ids(range(start, start + count), group)]
    calls = list(calls_of(iter(given_ids)))
    assert all(map(within_bounds, calls))
    assert sorted(named(calls)) == sorted(given_ids)


def test_answers_are_summed_and_each_complete_batch_is_told_once() -> None:
    total = Sum()
    done = CompleteBatch(id=BATCH, key="night")
    total.add(Acknowledged(acknowledged=3, complete=(), unknown=("x",)))
    total.add(Acknowledged(acknowledged=4, complete=(done,), unknown=()))
    total.add(Acknowledged(acknowledged=0, complete=(done,), unknown=(span(0, 2),)))
    assert total.answer() == Acknowledged(acknowledged=7, complete=(done,), unknown=("x", span(0, 2)))


def answered(each: Each) -> list[list[AcknowledgeItems]]:
    """The requests, each call in them answered with the number of items that it names one by one."""
    requests = []
    for request in each.requests():
        requests.append([AcknowledgeItems(list(call.items), list(call.ranges)) for call in request])
        each.answered([Acknowledged(acknowledged=len(call.items), complete=(), unknown=()) for call in request])
    return requests


def test_calls_with_an_answer_each_go_out_in_one_request() -> None:
    each = Each([ids(range(3)), tuple(ids(range(2))), f"{GROUP}:7", span(0, 5)])
    assert answered(each) == [
        [
            AcknowledgeItems(ids(range(3)), []),
            AcknowledgeItems(ids(range(2)), []),
            AcknowledgeItems([f"{GROUP}:7"], []),
            AcknowledgeItems([], [span(0, 5)]),
        ]
    ]
    assert [answer.acknowledged for answer in each.answers()] == [3, 2, 1, 0]


def test_a_call_of_nothing_is_not_sent_and_is_answered_all_the_same() -> None:
    each = Each([[], ids(range(2)), iter(())])
    assert answered(each) == [[AcknowledgeItems(ids(range(2)), [])]]
    assert [answer.acknowledged for answer in each.answers()] == [0, 2, 0]
    assert answered(Each([])) == []


def test_a_request_holds_so_many_calls_and_so_many_items() -> None:
    each = Each([ids(range(4_000))] * 5)
    assert [len(request) for request in answered(each)] == [2, 2, 1]
    assert [answer.acknowledged for answer in each.answers()] == [4_000] * 5
    each = Each(ids(range(limits.ACKNOWLEDGED_CALLS_MAX + 1)))
    assert [len(request) for request in answered(each)] == [limits.ACKNOWLEDGED_CALLS_MAX, 1]
    assert len(each.answers()) == limits.ACKNOWLEDGED_CALLS_MAX + 1


def test_a_call_too_large_for_one_has_the_sum_of_several() -> None:
    each = Each([ids(range(2)), ids(range(0, 50_000, 2)), ids(range(3))])
    assert len(answered(each)) == 4
    assert [answer.acknowledged for answer in each.answers()] == [2, 25_000, 3]


@pytest.mark.parametrize("wrong", ["an id", None, 5, span(0, 5), Items.of(BATCH, [ItemGroup(id="0", upto=5)])])
def test_what_is_no_list_of_calls_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="Give a list of calls"):
        Each(wrong)
