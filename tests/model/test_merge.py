"""Merging runs is a plain sort of all that they hold, a slice at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from restante import limits
from restante.hub.engine.row_reads import read_piece
from restante.model.publishing.message import Message
from restante.model.storage.keys import Cabinet
from restante.model.storage.merge import DrawerStretch, Keep, merged, slices
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.segment_frame import EncodedSegment
from tests.model.strategies import messages, unhurried
from tests.model.test_segment import Letter, Shelf, by_cabinet, cabinets_meet, laid, letter


def keep_all(_: SegmentPiece, drawer: NDArray[np.int64]) -> None:
    return None


def shelves_of(sends: Sequence[Sequence[Message]]) -> tuple[list[Shelf], list[Letter]]:
    """Each send as a run of its own, and all letters with places counted from the first run."""
    shelves, letters, first = [], list[Letter](), 1
    for number, sent in enumerate(sends):
        bags = laid(sent, start=first)
        shelves.append(Shelf(bags.segments[0], first=first, count=len(sent), identity=1 + 100 * number))
        letters += [own._replace(place=own.place + first - 1) for own in bags.letters[0]]
        first += len(sent)
    return shelves, letters


def merge_shelves(shelves: Sequence[Shelf], keep: Keep = keep_all) -> list[list[EncodedSegment]]:
    """The segments of each slice."""
    runs = [shelf.run for shelf in shelves]
    stores = {id(stored): shelf.store for shelf in shelves for stored in shelf.run.segments}

    def read(stretch: DrawerStretch) -> SegmentPiece:
        lines, last = stretch.stored.segment.drawers, stretch.stored.segment.drawers[stretch.last - 1]
        end = int(last["row"]) + int(last["count"])
        return read_piece(stores[id(stretch.stored)], stretch.stored, int(lines["row"][stretch.first]), end)

    return [
        merged(stretches, [read(stretch) for stretch in stretches], runs[0].row.first, keep)
        for stretches in slices(runs)
    ]


def shelf_of(parts: Sequence[Sequence[EncodedSegment]], count: int) -> Shelf:
    return Shelf([encoded for segments in parts for encoded in segments], count=count)


@given(st.lists(cabinets_meet, min_size=1, max_size=4))
@unhurried
def test_a_merge_of_runs_is_a_plain_sort(sends: list[list[Message]]) -> None:
    shelves, letters = shelves_of(sends)
    found = shelf_of(merge_shelves(shelves), len(letters)).letters()
    assert by_cabinet(found) == by_cabinet(letters)
    order = [next(own) for own in map(iter, by_cabinet(found).values())]
    assert len(order) == len(by_cabinet(letters)), "a cabinet's rows lie together"
    assert _grouped(found)


def _grouped(found: list[Letter]) -> bool:
    """Whether the rows of a cabinet lie together, in the order of their places."""
    runs = [found[0].cabinet] + [
        later.cabinet for earlier, later in itertools.pairwise(found) if earlier.cabinet != later.cabinet
    ]
    return len(runs) == len(set(runs))


@given(st.lists(cabinets_meet, min_size=2, max_size=4), st.integers(1, 3))
@unhurried
def test_merging_in_two_steps_is_merging_at_once(sends: list[list[Message]], split: int) -> None:
    shelves, letters = shelves_of(sends)
    early, late = shelves[:split], shelves[split:]
    count = sum(len(sent) for sent in sends[:split])
    halfway = shelf_of(merge_shelves(early), count)
    twice = shelf_of(merge_shelves([halfway, *late]), len(letters)) if late else halfway
    assert twice.letters() == shelf_of(merge_shelves(shelves), len(letters)).letters()


@given(st.lists(cabinets_meet, min_size=1, max_size=3), st.integers(2, 4))
@unhurried
def test_a_merge_leaves_out_what_is_not_to_be_kept(sends: list[list[Message]], every: int) -> None:
    shelves, letters = shelves_of(sends)

    def keep(piece: SegmentPiece, drawer: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(piece.numbers % every == 0, np.bool_)

    kept = [own for own in letters if (own.place + 1) % every == 0]
    parts = merge_shelves(shelves, keep)
    found = [own for segments in parts if segments for own in Shelf(segments, count=len(letters)).letters()]
    assert by_cabinet(found) == by_cabinet(kept)


def test_a_merge_of_much_is_done_in_slices_of_bounded_memory() -> None:
    sends = [[letter(f"r{number % 40}", size=100_000) for number in range(part, part + 90)] for part in (0, 7, 20)]
    shelves, letters = shelves_of(sends)
    parts = slices([shelf.run for shelf in shelves])
    assert len(parts) > 2
    segments = merge_shelves(shelves)
    assert max(encoded.length for part in segments for encoded in part) <= limits.BLOB_BYTES_MAX
    assert by_cabinet(shelf_of(segments, len(letters)).letters()) == by_cabinet(letters)


@pytest.mark.parametrize("counts", [(10_000, 10_000), (9_999, 2), (4_000, 4_000), (15_000, 10_000)])
def test_a_merged_cabinet_fills_its_drawers_anew(counts: tuple[int, int]) -> None:
    shelves, letters = shelves_of([[letter("one")] * count for count in counts])
    shelf = shelf_of(merge_shelves(shelves), len(letters))
    drawers = [int(count) for stored in shelf.run.segments for count in stored.segment.drawers["count"]]
    full, rest = divmod(sum(counts), limits.DRAWER_MESSAGES_MAX)
    assert drawers == [limits.DRAWER_MESSAGES_MAX] * full + [rest] * bool(rest)
    assert [own.place for own in shelf.letters()] == list(range(sum(counts)))


@given(st.lists(st.lists(messages(), min_size=1, max_size=8), min_size=2, max_size=3))
@unhurried
def test_colliding_recipients_are_merged_each_by_itself(sends: list[list[Message]]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("restante.model.columns.hashing._hashes_of_words", _all_alike)
        patched.setattr("restante.model.columns.hashing._hash_of_words", lambda content, key: 7)
        shelves, letters = shelves_of(sends)
        found = shelf_of(merge_shelves(shelves), len(letters)).letters()
    assert by_cabinet(found) == by_cabinet(letters)
    assert _grouped(found)


def _all_alike(_: NDArray[np.uint8], lengths: NDArray[np.int64], key: int) -> NDArray[np.uint64]:
    return np.full(len(lengths), 7, np.uint64)


def test_a_merge_changes_nothing_in_what_it_reads() -> None:
    shelves, letters = shelves_of([[letter("b"), letter("a")], [letter("a"), letter("c")]])
    merge_shelves(shelves)
    again = [own._replace(place=own.place + shelf.run.row.first - 1) for shelf in shelves for own in shelf.letters()]
    key: Callable[[Letter], int] = itemgetter(1)
    assert sorted(again, key=key) == letters
    assert by_cabinet(letters).keys() == {Cabinet(name, "default", "k") for name in "abc"}


def test_a_run_of_one_is_rewritten_as_it_was() -> None:
    shelves, letters = shelves_of([[letter("b"), letter("a"), letter("b")]])
    shelf = shelf_of(merge_shelves(shelves), len(letters))
    assert shelf.letters() == shelves[0].letters()
    own, again = shelf.run.segments[0], shelves[0].run.segments[0]
    assert (own.blob, own.base) == (again.blob, again.base)
