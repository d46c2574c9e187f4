"""A handful is encoded and merged to what the way over columns gives."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from restante.errors import DataDamaged, FormatUnsupported
from restante.model.columns.hashing import text_hash
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import Message
from restante.model.storage.handful import Handful, NameTable
from restante.model.storage.letter import Letter
from restante.model.storage.partition import partition_of
from restante.model.storage.segment_frame import EncodedSegment
from restante.model.uuid_text import RANDOM_BYTES_PER_ID, few_uuids
from tests.model.strategies import unhurried
from tests.model.test_merge import merge_shelves, shelf_of, shelves_of
from tests.model.test_segment import KEY, PUBLISHED, Shelf, cabinets_meet, laid, letter

PARTITIONS = 3


def letters_of(sent: Sequence[Message]) -> list[tuple[Letter, bytes]]:
    """The letters with their ids."""
    letters = [own for message in sent if (own := letter_of(message, claim_check_origins=None)) is not None]
    assert len(letters) == len(sent)
    count = sum(not own.id for own in letters)
    random = b"".join(number.to_bytes(RANDOM_BYTES_PER_ID, "big") for number in range(count))
    ids = iter(few_uuids(count, now_ms=1, random=random))
    return [(own, own.id or next(ids)) for own in letters]


def encoded_of(sent: Sequence[Message], partition_count: int = PARTITIONS) -> dict[int, EncodedSegment | None]:
    names, handfuls = NameTable(KEY), dict[int, Handful]()
    for own, own_id in letters_of(sent):
        handful = handfuls.setdefault(partition_of(own.recipient, partition_count), Handful(names))
        handful.add_letter(own, own_id, text_hash(own.recipient, KEY), PUBLISHED)
    return {partition: handful.encoded(partition, names.encoded()) for partition, handful in handfuls.items()}


def content(encoded: EncodedSegment | None) -> bytes:
    assert encoded is not None
    joined = b"".join(encoded.parts)
    assert len(joined) == encoded.length
    return joined


def merged_handful(shelves: Sequence[Shelf]) -> EncodedSegment | None:
    names = NameTable(KEY)
    handful = Handful(names)
    first = shelves[0].run.row.first
    for shelf in shelves:
        for stored, place in zip(shelf.run.segments, shelf.run.row.segments, strict=True):
            handful.add_segment(bytes(shelf.store.read_blob(stored.blob, 0, place.length)), stored.base - first)
    return handful.encoded(0, names.encoded())


@given(cabinets_meet, st.booleans())
@unhurried
def test_a_handful_is_encoded_to_the_same_bytes_as_columns(sent: list[Message], typed: bool) -> None:
    # Names that only some messages give are listed in another order, which is as good.
    sent = [
        Message(
            recipient=message.recipient,
            origin=message.origin,
            kind=message.kind,
            id=message.id,
            data=message.data,
            document_type=message.kind[::-1] if typed else None,
            media_type="text/plain" if isinstance(message.data, bytes) else "application/json",
            weight=message.weight,
            bundleable=message.bundleable,
            properties=message.properties,
            expires_at=message.expires_at,
        )
        for message in sent
    ]
    sent = [message for message in sent if letter_of(message, claim_check_origins=None) is not None]
    assume(sent)
    found = encoded_of(sent)
    expected = laid(sent, partition_count=PARTITIONS).segments
    assert {partition: [content(one)] for partition, one in found.items()} == {
        partition: [content(one) for one in segments] for partition, segments in expected.items()
    }
    for partition, one in found.items():
        assert one is not None
        (same,) = expected[partition]
        assert (one.group, one.rows, one.front, one.length) == (same.group, same.rows, same.front, same.length)


@given(st.lists(cabinets_meet, min_size=1, max_size=4))
@unhurried
def test_a_merged_handful_holds_what_merged_columns_hold(sends: list[list[Message]]) -> None:
    shelves, letters = shelves_of(sends)
    encoded = merged_handful(shelves)
    assert encoded is not None
    found = Shelf([encoded], count=len(letters)).letters()
    assert found == shelf_of(merge_shelves(shelves), len(letters)).letters()


def test_a_long_handful_has_several_blocks() -> None:
    sent = [letter(f"r{number % 7}", size=3_000) for number in range(60)]
    assert {p: content(e) for p, e in encoded_of(sent).items()} == {
        p: content(e) for p, (e,) in laid(sent, partition_count=PARTITIONS).segments.items()
    }


def test_cabinets_whose_hashes_collide_are_left_to_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.model.columns.hashing._hash_of_words", lambda content, key: 7)
    monkeypatch.setattr(
        "restante.model.storage.handful._cabinet_hash", lambda *_: 7
    )  # what is remembered outlasts the test
    assert encoded_of([letter("ada"), letter("ben")], partition_count=1) == {0: None}
    alone = encoded_of([letter("ada"), letter("ada")], partition_count=1)[0]
    assert alone is not None
    assert alone.rows == 2


def test_a_damaged_segment_is_not_merged() -> None:
    (encoded,) = laid([letter("ada", size=50), letter("ben", size=20)]).segments[0]
    sound = content(encoded)
    Handful(NameTable(KEY)).add_segment(sound, 0)
    for at in range(len(sound)):
        if at in (6, 7):
            continue  # reserved
        damaged = bytearray(sound)
        damaged[at] ^= 0x10
        with pytest.raises((DataDamaged, FormatUnsupported)):
            Handful(NameTable(KEY)).add_segment(bytes(damaged), 0)
    with pytest.raises(DataDamaged):
        Handful(NameTable(KEY)).add_segment(sound[:-1], 0)
