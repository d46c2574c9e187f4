"""Stored levels of identities against plain sorted arrays: a filter never denies what is there."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from restante.errors import DataDamaged, FormatUnsupported
from restante.model.storage import identity_level
from restante.model.storage.identity import Fingerprints, Known, known
from restante.model.storage.identity_level import (
    BLOCK_ENTRIES,
    EncodedPart,
    LevelRow,
    PartRow,
    StoredLevel,
    assemble,
    bits_for,
    candidates,
    decode_blocks,
    decode_front,
    decode_level,
    encode_level,
    encode_part,
    may_have,
    part_bits_for,
    rank_bounds,
    stretches,
)

Prints = NDArray[np.uint64]

alike = st.integers(0, 12) | st.integers(2**64 - 3, 2**64 - 1) | st.integers(2**63 - 2, 2**63 + 2)
few = st.lists(alike | st.integers(0, 2**64 - 1), max_size=60)
counts = st.sampled_from([0, 1, 15, 16, 17, 33, BLOCK_ENTRIES - 1, BLOCK_ENTRIES, BLOCK_ENTRIES + 1, 3_000])


def encoded(prints: Prints, offsets: NDArray[np.uint32], *, part_bits: int | None = None) -> list[EncodedPart]:
    bits = bits_for(len(prints))
    part_bits = part_bits_for(len(prints)) if part_bits is None else min(part_bits, bits)
    owner = prints >> np.uint64(64 - part_bits) if part_bits else np.zeros(len(prints), np.uint64)
    return [
        encode_part(prints[owner == part], offsets[owner == part], bits=bits, part_bits=part_bits, part=part)
        for part in range(1 << part_bits)
    ]


def stored(parts: list[EncodedPart], *, base: int = 100, first: int = 1, last: int = 2**40) -> StoredLevel:
    places = tuple(
        PartRow(number, part.length, len(part.front), part.size) for number, part in enumerate(parts, start=1)
    )
    bits = bits_for(sum(part.size for part in parts))
    row = decode_level(encode_level(LevelRow(1, first, last, base, bits, places)))
    return assemble(row, [decode_front(part.front, place) for part, place in zip(parts, places, strict=True)])


def blob_of(part: EncodedPart) -> bytes:
    return part.front + part.entries


def all_pairs(level: StoredLevel, parts: list[EncodedPart], gap: int, blocks_max: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for first, last in rank_bounds(level):
        for stretch in stretches(level, np.arange(first, last), gap=gap, blocks_max=blocks_max) if first < last else ():
            content = blob_of(parts[stretch.part])[stretch.offset : stretch.offset + stretch.length]
            prints, offsets = decode_blocks(level, stretch, content)
            pairs += zip(prints.tolist(), offsets.tolist(), strict=True)
    return pairs


@given(few, few, counts, st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_a_level_finds_what_a_sorted_array_finds(
    given_prints: list[int], asked: list[int], more: int, seed: int, part_bits: int
) -> None:
    random = np.random.default_rng(seed)
    values = [np.array(given_prints, np.uint64), random.integers(0, 2**64, more, np.uint64, endpoint=False)]
    prints = np.sort(np.concatenate(values))
    offsets = random.integers(0, 2**32, len(prints), np.uint32)
    parts = encoded(prints, offsets, part_bits=part_bits)
    level = stored(parts)
    assert len(level) == len(prints)
    assert all_pairs(level, parts, 0, 2) == list(zip(prints.tolist(), offsets.tolist(), strict=True))
    wanted = np.concatenate([np.array(asked, np.uint64), prints])
    index, low, high = candidates(level, wanted)
    spans = dict(zip(index.tolist(), zip(low.tolist(), high.tolist(), strict=True), strict=True))
    begin, end = np.searchsorted(prints, wanted, "left"), np.searchsorted(prints, wanted, "right")
    for number, value in enumerate(wanted.tolist()):
        span = spans.get(number)
        assert may_have(level, value) == (span is not None)
        if begin[number] < end[number]:
            assert span is not None, "a filter that says no is right"
            assert span[0] <= begin[number] < end[number] <= span[1]


def test_a_filter_says_maybe_to_few_that_are_unknown() -> None:
    random = np.random.default_rng(7)
    prints = np.sort(random.integers(0, 2**64, 100_000, np.uint64, endpoint=False))
    level = stored(encoded(prints, np.arange(len(prints), dtype=np.uint32)))
    asked = random.integers(0, 2**64, 1_000_000, np.uint64, endpoint=False)
    assert len(candidates(level, asked)[0]) < 400
    assert level.shorts.nbytes + level.starts.nbytes < 2.6 * len(prints)


@given(st.integers(0, 2**32 - 1), st.data())
def test_a_flipped_bit_is_noticed(seed: int, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)
    prints = np.sort(random.integers(0, 2**64, 1_300, np.uint64, endpoint=False))
    parts = encoded(prints, np.arange(len(prints), dtype=np.uint32))
    content = bytearray(blob_of(parts[0]))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    front = len(parts[0].front)
    damaged = [EncodedPart(bytes(content[:front]), bytes(content[front:]), parts[0].size)]
    with pytest.raises((DataDamaged, FormatUnsupported)):
        all_pairs(stored(damaged), damaged, 0, 2)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_front_are_refused(content: bytes) -> None:
    with pytest.raises(DataDamaged):
        decode_front(content, PartRow(1, len(content), len(content), 0))


@given(st.binary(max_size=80))
def test_bytes_that_are_no_row_are_refused(content: bytes) -> None:
    with pytest.raises(DataDamaged):
        decode_level(content)


def test_parts_of_another_level_are_refused() -> None:
    prints = np.sort(np.random.default_rng(1).integers(0, 2**64, 100, np.uint64, endpoint=False))
    one, other = encoded(prints, np.arange(100, dtype=np.uint32), part_bits=1)
    for wrong in ([other, one], [one], [one, one], [one, other, other]):
        places = tuple(PartRow(1, part.length, len(part.front), part.size) for part in wrong)
        fronts = [decode_front(part.front, place) for part, place in zip(wrong, places, strict=True)]
        row = msgspec.structs.replace(stored([one, other]).row, parts=places)
        with pytest.raises(DataDamaged):
            assemble(row, fronts)


def test_a_large_level_has_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity_level, "PART_ENTRIES_MAX", 100)
    assert [part_bits_for(entries) for entries in (0, 1, 100, 101, 200, 201, 1_000)] == [0, 0, 0, 1, 1, 2, 4]
    assert [bits_for(entries) for entries in (0, 1, 16, 17, 33, 1_000)] == [1, 1, 1, 1, 2, 6]


# --- Among the others of a partition ----------------------------------------------------------------------------------


def level_of(first: int, last: int, entries: int) -> StoredLevel:
    """A level that covers some numbers."""
    prints = np.arange(entries, dtype=np.uint64)
    return stored(encoded(prints, np.arange(entries, dtype=np.uint32)), base=first, first=first, last=last)


def known_of(*numbers: int) -> Known:
    return known(np.array(numbers, np.uint64), np.array(numbers, np.int64))


def test_what_is_in_memory_covers_all_between_the_stored_levels() -> None:
    both = Fingerprints((known_of(2, 3), level_of(5, 9, 2), known_of(12), known_of(13, 17), level_of(20, 22, 1)))
    found = [(len(stretch.levels), stretch.first, stretch.last, stretch.newest) for stretch in both.in_memory()]
    assert found == [(1, 1, 4, False), (2, 10, 19, False)]
    newest = both.with_level(known_of(25, 30))
    assert [(one.first, one.last, one.newest) for one in newest.in_memory()][-1] == (23, 30, True)
    assert newest.covered == 22
    assert Fingerprints().covered == 0


def test_what_is_too_far_apart_is_stored_apart() -> None:
    far = Fingerprints((known_of(1), known_of(2**33), known_of(2**33 + 1)))
    assert [(one.first, one.last) for one in far.in_memory()] == [(1, 1), (2, 2**33 + 1)]


def test_a_stored_level_takes_the_place_of_what_it_covers_and_of_nothing_else() -> None:
    levels = Fingerprints((known_of(1, 2), known_of(3, 6, 7)))
    after = levels.with_stored(level_of(1, 6, 4))
    kinds = [type(level) for level in after.levels]
    assert kinds == [StoredLevel, Known]
    (left,) = [level for level in after.levels if isinstance(level, Known)]
    assert (left.fingerprint.tolist(), left.base, left.last) == ([7], 7, 7)
    merged = after.with_stored(level_of(1, 7, 5))
    assert [(type(level), len(level)) for level in merged.levels] == [(StoredLevel, 5)]


def test_levels_of_like_size_are_merged() -> None:
    alike_ones = Fingerprints((level_of(1, 100, 90), level_of(101, 110, 10), level_of(111, 120, 9)))
    assert [len(level) for level in alike_ones.mergeable_stored()] == [10, 9]
    assert Fingerprints((level_of(1, 100, 90), level_of(101, 140, 40))).mergeable_stored() == ()
    assert [
        len(level)
        for level in Fingerprints((level_of(1, 9, 9), level_of(10, 12, 3), level_of(13, 16, 4))).mergeable_stored()
    ] == [9, 3, 4]
    apart = Fingerprints((level_of(1, 9, 9), known_of(12), level_of(13, 21, 9)))
    assert apart.mergeable_stored() == ()


def test_numbers_too_far_apart_for_one_level_stay_in_two() -> None:
    assert Fingerprints((level_of(1, 9, 9), level_of(2**33, 2**33 + 9, 9))).mergeable_stored() == ()
