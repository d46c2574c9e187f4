"""Small segments with the same names are joined to what a handful makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.errors import DataDamaged, FormatUnsupported
from restante.model.publishing.message import Message
from restante.model.storage.joined_segments import joined
from restante.model.storage.segment_frame import EncodedSegment
from tests.model.strategies import unhurried
from tests.model.test_handful import content, encoded_of, merged_handful
from tests.model.test_merge import shelves_of
from tests.model.test_segment import Shelf, cabinets_meet, laid, letter

sends_of_one_kind = st.lists(
    st.lists(
        st.builds(
            Message,
            recipient=st.sampled_from(["ada", "ben", "cleo", "dora"]),
            data=st.binary(max_size=20),
            properties=st.dictionaries(st.sampled_from("ab"), st.text("xy", max_size=3), max_size=2),
            weight=st.integers(1, 5),
        ),
        min_size=1,
        max_size=6,
    ),
    min_size=1,
    max_size=6,
)


def joined_shelves(shelves: Sequence[Shelf]) -> EncodedSegment | None:
    contents, shifts = list[bytes](), list[int]()
    for shelf in shelves:
        for stored, place in zip(shelf.run.segments, shelf.run.row.segments, strict=True):
            contents.append(bytes(shelf.store.read_blob(stored.blob, 0, place.length)))
            shifts.append(stored.base - shelves[0].run.row.first)
    return joined(contents, shifts, 0)


@given(sends_of_one_kind)
@unhurried
def test_segments_with_the_same_names_are_joined_to_the_bytes_of_a_handful(sends: list[list[Message]]) -> None:
    shelves, _ = shelves_of(sends)
    found, expected = joined_shelves(shelves), merged_handful(shelves)
    assert content(found) == content(expected)
    assert found is not None
    assert expected is not None
    assert (found.rows, found.front, found.recipients) == (expected.rows, expected.front, expected.recipients)


@given(st.lists(cabinets_meet, min_size=1, max_size=4))
@unhurried
def test_segments_with_any_names_are_joined_or_left_to_a_handful(sends: list[list[Message]]) -> None:
    shelves, letters = shelves_of(sends)
    found, expected = joined_shelves(shelves), merged_handful(shelves)
    if found is not None:
        assert expected is not None
        count = len(letters)
        assert Shelf([found], count=count).letters() == Shelf([expected], count=count).letters()


def test_segments_with_other_names_are_left_to_a_handful() -> None:
    shelves, _ = shelves_of([[letter("ada", kind="a")], [letter("ada", kind="b")]])
    assert joined_shelves(shelves) is None


def test_cabinets_whose_hashes_collide_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.model.columns.hashing._hash_of_words", lambda content, key: 7)
    monkeypatch.setattr(
        "restante.model.storage.handful._cabinet_hash", lambda *_: 7
    )  # what is remembered outlasts the test
    ada, ben = (encoded_of([letter(name)], partition_count=1)[0] for name in ("ada", "ben"))
    assert joined([content(ada), content(ben)], [0, 1], 0) is None
    assert joined([content(ada), content(ada)], [0, 1], 0) is not None


def test_a_damaged_segment_is_not_joined() -> None:
    (encoded,) = laid([letter("ada", size=50), letter("ben", size=20)]).segments[0]
    sound = content(encoded)
    assert joined([sound, sound], [0, 2], 0) is not None
    for at in range(len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= 0x10
        with pytest.raises((DataDamaged, FormatUnsupported)):
            joined([sound, bytes(damaged)], [0, 2], 0)
    with pytest.raises(DataDamaged):
        joined([sound, sound[:-1]], [0, 2], 0)
