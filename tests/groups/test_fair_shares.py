"""Fair shares: they differ by one at most, and nothing moves that need not."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from restante.model.groups.fair_shares import NOBODY, fair_shares

MEMBERS = [b"a", b"b", b"c", b"d", b"e"]


def _moves(holders: tuple[bytes, ...], targets: tuple[bytes, ...], members: list[bytes]) -> int:
    """How many partitions leave a member that is still there."""
    return sum(holder in members and holder != target for holder, target in zip(holders, targets, strict=True))


def _fair(targets: tuple[bytes, ...], members: list[bytes]) -> bool:
    shares = [Counter(targets)[member] for member in members]
    return max(shares) - min(shares) <= 1 and sum(shares) == len(targets)


@given(
    holders=st.lists(st.sampled_from([NOBODY, *MEMBERS]), max_size=40),
    members=st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True),
    loose=st.sets(st.integers(0, 39)),
)
def test_shares_differ_by_one_at_most(holders: list[bytes], members: list[bytes], loose: set[int]) -> None:
    assert _fair(fair_shares(holders, members, loose), members)


@given(
    holders=st.lists(st.sampled_from([NOBODY, *MEMBERS[:3]]), max_size=5),
    members=st.lists(st.sampled_from(MEMBERS[:3]), min_size=1, unique=True),
    loose=st.sets(st.integers(0, 4)),
)
def test_no_fair_way_moves_fewer(holders: list[bytes], members: list[bytes], loose: set[int]) -> None:
    own = tuple(holders)
    ways = [way for way in product(members, repeat=len(own)) if _fair(way, members)]
    fewest = min(_moves(own, way, members) for way in ways)
    assert _moves(own, fair_shares(own, members, loose), members) == fewest


def test_fair_shares_stay_as_they_are() -> None:
    holders = fair_shares([NOBODY] * 16, MEMBERS)
    assert fair_shares(holders, MEMBERS) == holders


def test_what_is_being_given_up_is_given_up_first() -> None:
    assert fair_shares([b"a"] * 4, [b"a", b"b"], loose={0, 1}) == (b"b", b"b", b"a", b"a")


def test_nobody_there_has_nothing() -> None:
    assert fair_shares([b"a", NOBODY], []) == (NOBODY, NOBODY)
