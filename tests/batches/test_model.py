"""The model of the rules is held against sets of Python, where these are small enough."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from restante.model.batches.batch_answers import Counting, ItemRange
from tests.batches.model import Model
from tests.batches.spans import gaps, merged, minus, size

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def numbers(spans: list[tuple[int, int]]) -> set[int]:
    return {number for start, end in spans for number in range(start, end)}


@given(SPANS)
def test_spans_are_a_set_of_numbers(spans: list[tuple[int, int]]) -> None:
    tidy = merged(spans)
    assert numbers(tidy) == numbers(spans)
    assert size(tidy) == len(numbers(spans))
    assert all(one[1] < other[0] for one, other in pairwise(tidy))
    assert numbers(list(gaps(tidy, 50))) == set(range(50)) - numbers(spans)


@given(SPANS, SPANS)
def test_spans_without_others_are_the_difference_of_the_sets(
    spans: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    assert numbers(minus(spans, others)) == numbers(spans) - numbers(others)


@given(SPANS, st.integers(1, 40))
def test_an_exact_batch_of_the_model_is_a_set_of_items(spans: list[tuple[int, int]], count: int) -> None:
    model, pending = Model(open_for=1, sealed_for=1), set(range(count))
    batch = model.opened("00000000-0000-0000-0000-000000000001", key="k", unique=False, counting=Counting.EXACT)
    model.added(batch.id, "0", count, None)
    for start, end in spans:
        if start < end:
            answer = model.acknowledge([], [ItemRange(group=f"{batch.id}:0", start=start, upto=end)])
            assert answer.acknowledged == len(pending & set(range(start, end)))
            assert bool(answer.unknown) == (end > count)
            pending -= set(range(start, end))
            assert answer.complete == ()
    assert model.pending_items(batch.id, 100) == [f"{batch.id}:0:{index}" for index in sorted(pending)]
    assert model.seal(batch.id) == (not pending)
