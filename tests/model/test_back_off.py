"""Pauses after failures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restante.model.back_off import back_off


def test_the_pause_doubles_with_each_failure_up_to_its_bound() -> None:
    pauses = [back_off(failures, first=0.5, longest=60) for failures in range(1, 10)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_without_a_failure_the_pause_is_the_first() -> None:
    assert back_off(0, first=0.5, longest=60) == back_off(1, first=0.5, longest=60) == 0.5


@given(st.integers(1, 10**6), st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1))
def test_chance_takes_at_most_half_and_nothing_is_longer_than_the_bound(
    failures: int, first: float, longest: float, chance: float
) -> None:
    whole = back_off(failures, first=first, longest=longest)
    assert min(first, longest) <= whole <= longest
    assert whole / 2 <= back_off(failures, first=first, longest=longest, chance=chance) <= whole
