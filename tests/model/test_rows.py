"""The order of rows: by hash, and where hashes collide, by the full texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from restante import limits
from restante.model.columns.texts import Texts
from restante.model.storage.row_formats import RECORD
from restante.model.storage.rows import (
    Cabinets,
    Drawers,
    StoredRows,
    cabinet_ranks,
    lay_out,
    row_bytes,
    sort_rows,
    take_rows,
)
from tests.model.strategies import unhurried


class Box(NamedTuple):
    """A cabinet with hashes of our choice: they collide whenever we want them to."""

    recipient_hash: int
    cabinet_hash: int
    recipient: str
    origin: str
    kind: str


few = st.integers(0, 2) | st.integers(2**64 - 2, 2**64 - 1)
names = st.sampled_from(["a", "b", "ä", "\U0001f4ee", "aa"])
boxes = st.builds(Box, few, few, names, names, names)


def table_of(listed: list[Box]) -> Cabinets:
    return Cabinets(
        np.array([box.recipient_hash for box in listed], np.uint64),
        np.array([box.cabinet_hash for box in listed], np.uint64),
        pa.array([box.recipient for box in listed], pa.string()),
        Texts.encode(pa.array([box.origin for box in listed], pa.string())),
        Texts.encode(pa.array([box.kind for box in listed], pa.string())),
    )


def rows_of(listed: list[Box], cabinet: NDArray[np.int64], sizes: NDArray[np.int64] | None = None) -> StoredRows:
    """A row for each entry of `cabinet`, its place as it came; the data says whose it is."""
    records = np.zeros(len(cabinet), RECORD)
    records["place"] = np.arange(len(cabinet))
    records["data_length"] = 4 if sizes is None else sizes
    data = [number.to_bytes(4, "big") for number in cabinet.tolist()]
    nothing = pa.array([""], pa.string())
    return StoredRows(table_of(listed), cabinet, records, nothing, nothing, None, pa.array(data, pa.large_binary()))


def starts_of(laid: Drawers) -> list[tuple[int, int]]:
    """Cabinet and length of each drawer."""
    return list(zip(laid.cabinet.tolist(), np.diff(laid.start).tolist(), strict=True))


@given(st.lists(boxes, min_size=1, max_size=20))
def test_cabinets_are_ranked_by_hash_and_where_hashes_collide_by_text(listed: list[Box]) -> None:
    order = sorted(set(listed))
    assert cabinet_ranks(table_of(listed)).tolist() == [order.index(box) for box in listed]


@given(st.lists(boxes, min_size=1, max_size=20), st.data())
def test_groups_come_before_hashes(listed: list[Box], data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.integers(0, 2), min_size=len(listed), max_size=len(listed)))
    keyed = list(zip(groups, listed, strict=True))
    order = sorted(set(keyed))
    ranks = cabinet_ranks(table_of(listed), np.array(groups, np.int64))
    assert ranks.tolist() == [order.index(key) for key in keyed]


@given(st.lists(boxes, min_size=1, max_size=10, unique=True), st.data())
@unhurried
def test_sorting_rows_is_a_plain_sort_that_keeps_arrival_order(listed: list[Box], data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(0, len(listed) - 1), min_size=1, max_size=40))
    ordered, order = sort_rows(rows_of(listed, np.array(owners, np.int64)))
    plain = sorted(range(len(owners)), key=lambda row: (listed[owners[row]], row))
    assert order.tolist() == plain
    assert ordered.records["place"].tolist() == plain
    assert ordered.data.to_pylist() == [owners[row].to_bytes(4, "big") for row in plain]
    assert ordered.cabinet.tolist() == [owners[row] for row in plain]


@given(st.lists(boxes, min_size=1, max_size=10, unique=True), st.data())
@unhurried
def test_colliding_cabinets_never_share_a_drawer(listed: list[Box], data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(0, len(listed) - 1), min_size=1, max_size=40))
    laid = lay_out(sort_rows(rows_of(listed, np.array(owners, np.int64)))[0])
    expected = [(number, owners.count(number)) for number in sorted(set(owners), key=lambda number: listed[number])]
    assert starts_of(laid) == expected


@pytest.mark.parametrize("hashes", [(1, 1), (1, 2)], ids=["colliding", "apart"])
@pytest.mark.parametrize("counts", [(10_000, 10_000), (9_999, 10_001), (20_000, 1), (1, 30_001)])
def test_no_drawer_holds_more_than_it_may(hashes: tuple[int, int], counts: tuple[int, int]) -> None:
    listed = [Box(hashes[0], 5, "a", "o", "k"), Box(hashes[1], 5, "b", "o", "k")]
    laid = lay_out(sort_rows(rows_of(listed, np.repeat([0, 1], counts)))[0])
    for cabinet, count in enumerate(counts):
        own = [length for number, length in starts_of(laid) if number == cabinet]
        full, rest = divmod(count, limits.DRAWER_MESSAGES_MAX)
        assert own == [limits.DRAWER_MESSAGES_MAX] * full + [rest] * bool(rest)


@given(st.lists(st.integers(0, limits.DATA_BYTES_MAX), min_size=1, max_size=60), st.integers(1, 3))
@unhurried
def test_segments_are_cut_in_order_and_none_is_too_long(sizes: list[int], groups: int) -> None:
    listed = [Box(number, 0, str(number), "o", "k") for number in range(groups)]
    owners = np.sort(np.arange(len(sizes)) % groups)
    rows = rows_of(listed, owners, np.array(sizes, np.int64))
    laid = lay_out(rows, np.arange(groups))
    assert (np.diff(laid.segment) >= 0).all()
    assert set(laid.segment.tolist()) == set(range(int(laid.segment[-1]) + 1))
    length = np.bincount(np.repeat(laid.segment, np.diff(laid.start)), row_bytes(rows))
    assert length.max() <= limits.BLOB_BYTES_MAX
    of_group = {(int(segment), int(group)) for segment, group in zip(laid.segment, laid.group, strict=True)}
    assert len({segment for segment, _ in of_group}) == len(of_group)


@given(st.lists(boxes, min_size=1, max_size=5, unique=True), st.data())
def test_taken_rows_are_those_rows(listed: list[Box], data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(0, len(listed) - 1), min_size=1, max_size=10))
    chosen = data.draw(st.lists(st.integers(0, len(owners) - 1), max_size=10))
    taken = take_rows(rows_of(listed, np.array(owners, np.int64)), np.array(chosen, np.int64))
    assert taken.records["place"].tolist() == chosen
    assert taken.data.to_pylist() == [owners[row].to_bytes(4, "big") for row in chosen]
