"""Segments: what is encoded comes back, drawer by drawer, and stays within its bounds."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.errors import DataDamaged, FormatUnsupported
from restante.hub.engine.row_reads import read_piece
from restante.hub.mailboxes.message_columns import message_columns
from restante.model.publishing.arrival import arrive, mailbags, places
from restante.model.publishing.intake import RANDOM_BYTES_PER_ID, fill_made_ids, from_messages
from restante.model.publishing.message import Message
from restante.model.storage.changes import BlobKey
from restante.model.storage.keys import Cabinet
from restante.model.storage.run import Run, RunRow, RunState, SegmentRow, StoredSegment
from restante.model.storage.segment import decode
from restante.model.storage.segment_frame import EncodedSegment, front_length
from restante.stores.memory import MemoryStore
from tests.model.strategies import listed, messages, names, unhurried

KEY = 77
PUBLISHED = 1_900_000_000_000_000


class Letter(NamedTuple):
    """A stored message as plain values: its place, and everything that its sender said."""

    cabinet: Cabinet
    place: int
    content: tuple[object, ...]


class Mailbags(NamedTuple):
    """Some messages as mailbags, and as plain values by partition."""

    segments: dict[int, list[EncodedSegment]]
    letters: dict[int, list[Letter]]


def laid(sent: Sequence[Message], *, partition_count: int = 1, start: int = 0) -> Mailbags:
    """Messages as one commit would lay them out; made ids are numbered from `start`."""
    columns, faults = from_messages(sent, claim_check_origins=None)
    assert not faults
    made = int(columns.made_id.sum())
    random = b"".join((start + number).to_bytes(RANDOM_BYTES_PER_ID, "big") for number in range(made))
    columns = fill_made_ids(columns, now_ms=1, random=random)
    arrivals = arrive(columns, key=KEY, partition_count=partition_count)
    place, _ = places(arrivals.partition, partition_count)
    segments: dict[int, list[EncodedSegment]] = {}
    for encoded in mailbags(arrivals, place, published_at=PUBLISHED, key=KEY):
        segments.setdefault(encoded.group, []).append(encoded)
    letters: dict[int, list[Letter]] = {}
    for row, (message, content) in enumerate(zip(sent, listed(columns), strict=True)):
        cabinet = Cabinet(message.recipient, message.origin, message.kind)
        letters.setdefault(int(arrivals.partition[row]), []).append(Letter(cabinet, int(place[row]), content))
    return Mailbags(segments, letters)


class Shelf:
    """Segments in a store of their own, as a run that begins with number `first`."""

    def __init__(
        self, segments: Sequence[EncodedSegment], *, first: int = 1, count: int = 1, identity: int = 1
    ) -> None:
        self.store = MemoryStore()
        self.rows = []
        for number, encoded in enumerate(segments, identity):
            self.store.put_blob(BlobKey(0, number), encoded.parts, fence=self.store.raise_fences(1))
            self.rows.append(SegmentRow(number, encoded.length, len(encoded.front), encoded.rows))
        row = RunRow(identity, first, first + count - 1, tuple(self.rows), RunState.VISIBLE, 0, mailbag=True)
        fronts = [bytes(self.store.read_blob(BlobKey(0, each.blob), 0, each.front)) for each in self.rows]
        self.run = Run.of(row, 0, [decode(front) for front in fronts])

    def letters(self) -> list[Letter]:
        """Everything that is stored, in the order in which it lies."""
        return [letter for stored in self.run.segments for letter in self.of_segment(stored)]

    def of_segment(self, stored: StoredSegment) -> list[Letter]:
        found = []
        for drawer, line in enumerate(stored.segment.drawers):
            row, count = int(line["row"]), int(line["count"])
            cabinet = Cabinet(*stored.segment.cabinet(drawer))
            piece = read_piece(self.store, stored, row, row + count)
            numbers = piece.records["place"].tolist()
            rows = listed(message_columns([piece], cabinet))
            found += [Letter(cabinet, place, content) for place, content in zip(numbers, rows, strict=True)]
        return found


def by_cabinet(letters: Iterable[Letter]) -> dict[Cabinet, list[Letter]]:
    grouped: dict[Cabinet, list[Letter]] = {}
    for letter in letters:
        grouped.setdefault(letter.cabinet, []).append(letter)
    return grouped


def letter(recipient: str = "r", *, size: int = 10, kind: str = "k") -> Message:
    return Message(recipient=recipient, kind=kind, data=b"x" * size, weight=1 + size // 1024)


few_texts = st.sampled_from(["a", "b", "ä", "a ", "aa"]) | names
cabinets_meet = st.lists(
    st.builds(
        lambda message, recipient, origin, kind: msgspec.structs.replace(
            message, recipient=recipient, origin=origin, kind=kind
        ),
        messages(),
        few_texts,
        st.sampled_from(["o", "p"]) | names,
        st.sampled_from(["k", "l"]) | names,
    ),
    min_size=1,
    max_size=25,
)


@given(cabinets_meet, st.sampled_from([1, 3]))
@unhurried
def test_every_message_comes_back_in_its_cabinet_and_in_order(sent: list[Message], partition_count: int) -> None:
    bags = laid(sent, partition_count=partition_count)
    assert bags.segments.keys() == bags.letters.keys()
    for partition, segments in bags.segments.items():
        assert by_cabinet(Shelf(segments).letters()) == by_cabinet(bags.letters[partition])


@given(cabinets_meet)
@unhurried
def test_a_directory_says_what_its_drawers_hold(sent: list[Message]) -> None:
    shelf = Shelf(laid(sent).segments[0])
    for stored in shelf.run.segments:
        lines = stored.segment.drawers
        records = read_piece(shelf.store, stored, 0, stored.segment.rows).records
        assert lines["row"].tolist() == (np.cumsum(lines["count"]) - lines["count"]).tolist()
        for line in lines:
            own = records[int(line["row"]) : int(line["row"]) + int(line["count"])]
            assert (int(line["first_place"]), int(line["last_place"])) == (int(own["place"][0]), int(own["place"][-1]))
            assert int(line["earliest_expiry"]) == int(own["expires_at"].min())


@given(cabinets_meet)
@unhurried
def test_drawers_lie_in_the_order_of_their_recipients_hashes(sent: list[Message]) -> None:
    for stored in Shelf(laid(sent).segments[0]).run.segments:
        lines = stored.segment.drawers
        pairs = list(zip(lines["recipient_hash"].tolist(), lines["cabinet_hash"].tolist(), strict=True))
        assert pairs == sorted(pairs)


@given(cabinets_meet, st.data())
@unhurried
def test_any_neighbouring_rows_can_be_read_alone(sent: list[Message], data: st.DataObject) -> None:
    shelf = Shelf(laid(sent).segments[0])
    stored = shelf.run.segments[0]
    first = data.draw(st.integers(0, stored.segment.rows))
    last = data.draw(st.integers(first, stored.segment.rows))
    whole, part = (read_piece(shelf.store, stored, *rows) for rows in ((0, stored.segment.rows), (first, last)))
    assert (part.records == whole.records[first:last]).all()
    assert part.data_column().to_pylist() == whole.data_column().to_pylist()[first:last]
    if part.records["properties_length"].any():
        assert part.properties_column().to_pylist() == whole.properties_column().to_pylist()[first:last]


@pytest.mark.parametrize(
    ("count", "drawers"),
    [(1, [1]), (9_999, [9_999]), (10_000, [10_000]), (10_001, [10_000, 1]), (25_000, [10_000, 10_000, 5_000])],
)
def test_a_full_drawer_is_followed_by_a_new_one(count: int, drawers: list[int]) -> None:
    bags = laid([letter()] * count)
    shelf = Shelf(bags.segments[0])
    assert [int(each) for stored in shelf.run.segments for each in stored.segment.drawers["count"]] == drawers
    assert [each.place for each in shelf.letters()] == list(range(count))


def test_a_cabinet_that_fills_a_drawer_leaves_its_neighbours_theirs() -> None:
    sent = [letter("full")] * 10_000 + [letter("one")] + [letter("over")] * 10_001
    found = by_cabinet(Shelf(laid(sent).segments[0]).letters())
    assert {cabinet.recipient: len(own) for cabinet, own in found.items()} == {"full": 10_000, "one": 1, "over": 10_001}


@pytest.mark.parametrize(
    "sizes",
    [[1024 * 1024] * 20, [200_000, 1024 * 1024, 10] * 15, [limits.DATA_BYTES_MAX], [60] * 60_000],
    ids=["largest", "mixed", "one", "small"],
)
def test_no_segment_is_larger_than_a_blob_may_be(sizes: list[int]) -> None:
    sent = [letter(f"r{number % 7}", size=size) for number, size in enumerate(sizes)]
    segments = laid(sent).segments[0]
    assert all(encoded.length <= limits.BLOB_BYTES_MAX for encoded in segments)
    assert (
        len(segments) <= 1 + sum(sizes) // (limits.SEGMENT_BYTES_TARGET - limits.DATA_BYTES_MAX) + len(sizes) // 30_000
    )
    assert sum(encoded.rows for encoded in segments) == len(sizes)
    assert len(Shelf(segments).letters()) == len(sizes)


LONG: dict[str, dict[str, Any]] = {
    "recipient": {"recipient": "\U0001f4ee" * 252},
    "origin": {"origin": "\U0001f4ee" * 60},
    "kind": {"kind": "\U0001f4ee" * 252},
    "document type": {"document_type": "\U0001f4ee" * 252},
    "properties": {"properties": {"n": "v" * (limits.PROPERTIES_BYTES_MAX - 100)}},
}


@pytest.mark.parametrize("field", LONG)
def test_the_longest_texts_and_properties_leave_a_segment_a_blob(field: str) -> None:
    count = 1_000 if field == "properties" else 10_000
    sent = []
    for number in range(count):
        named = {
            name: f"{number:04d}{value}" if isinstance(value, str) else value for name, value in LONG[field].items()
        }
        sent.append(msgspec.structs.replace(letter("r"), **named))
    segments = laid(sent).segments[0]
    assert sum(encoded.rows for encoded in segments) == len(sent)
    assert max(encoded.length for encoded in segments) <= limits.BLOB_BYTES_MAX


def test_many_names_are_renumbered_for_each_segment() -> None:
    sent = [letter(f"r{number % 50}", size=100_000, kind=f"kind {number}") for number in range(200)]
    bags = laid(sent)
    assert len(bags.segments[0]) > 1
    assert by_cabinet(Shelf(bags.segments[0]).letters()) == by_cabinet(bags.letters[0])


def test_the_front_holds_the_directory_and_ends_with_a_block() -> None:
    assert front_length(1, 100) == 100
    assert front_length(1, 1_000_000) == limits.BLOCK_BYTES
    assert front_length(limits.BLOCK_BYTES, 1_000_000) == limits.BLOCK_BYTES
    assert front_length(limits.BLOCK_BYTES + 1, 1_000_000) == 2 * limits.BLOCK_BYTES


def test_what_this_process_encoded_decodes_alike_trusted_or_not() -> None:
    encoded = laid([letter(str(uuid.UUID(int=number))) for number in range(500)]).segments[0][0]
    trusted, checked = decode(encoded.front, trusted=True), decode(encoded.front)
    assert (trusted.drawers == checked.drawers).all()
    assert trusted.recipients.equals(checked.recipients)
    assert checked.damaged is None


def test_a_segment_of_another_version_is_refused_as_such() -> None:
    front = bytearray(laid([letter()]).segments[0][0].front)
    front[4] += 1
    with pytest.raises(FormatUnsupported, match="version 2"):
        decode(bytes(front))


@pytest.mark.parametrize("content", [b"", b"RSTN", bytes(100), b"RSTN" + bytes(60)])
def test_what_is_no_segment_is_damaged(content: bytes) -> None:
    with pytest.raises((DataDamaged, FormatUnsupported)):
        decode(content)
