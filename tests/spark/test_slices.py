"""When the slices of a partitioned store are merged, and into how many files rows go."""

from __future__ import annotations

from restante.limits import STORE_SLICES_MAX
from restante.spark.tables.slices import files_for, to_merge


def test_few_slices_stay_as_they_are() -> None:
    assert to_merge(dict.fromkeys(range(STORE_SLICES_MAX - 1), 10), arriving_rows=10) == []


def test_small_slices_are_merged_and_a_large_one_is_left() -> None:
    sizes = {0: 10_000, **dict.fromkeys(range(1, STORE_SLICES_MAX), 10)}
    assert to_merge(sizes, arriving_rows=10) == list(range(1, STORE_SLICES_MAX))


def test_a_large_slice_is_merged_once_the_others_are_half_its_size() -> None:
    others = dict.fromkeys(range(1, STORE_SLICES_MAX), 200)
    gathered = 10 + sum(others.values())
    assert to_merge({0: 2 * gathered, **others}, arriving_rows=10) == [0, *others]
    assert to_merge({0: 2 * gathered + 1, **others}, arriving_rows=10) == [*others]


def test_slices_of_geometric_sizes_give_up_the_smallest_for_room() -> None:
    sizes = {number: 10**number for number in range(1, STORE_SLICES_MAX + 1)}
    assert to_merge(sizes, arriving_rows=1) == [1]


def test_there_are_never_too_many_slices_and_rows_are_seldom_rewritten() -> None:
    sizes: dict[int, int] = {}
    rewritten = 0
    for run in range(10_000):
        merged = to_merge(sizes, arriving_rows=1)
        rewritten += sum(sizes[number] for number in merged)
        sizes[run] = 1 + sum(sizes.pop(number) for number in merged)
        assert len(sizes) <= STORE_SLICES_MAX
    assert sum(sizes.values()) == 10_000
    assert rewritten / 10_000 < 10, "how often a row is rewritten, on average"


def test_rows_go_into_about_as_many_files_as_they_fill() -> None:
    filled = [files_for(rows, records_per_file=100) for rows in (0, 1, 149, 151, 1_000, 1_049)]
    assert filled == [1, 1, 1, 2, 10, 10]
