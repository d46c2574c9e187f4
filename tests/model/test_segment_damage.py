"""Damaged segments: whatever the bytes are, the answer is the one error, and only who lies in them is harmed."""

from __future__ import annotations

import contextlib
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from restante.errors import DataDamaged, FormatUnsupported
from restante.hub.engine.row_reads import read_piece
from restante.hub.mailboxes.message_columns import message_columns
from restante.limits import BLOCK_BYTES
from restante.model.columns.hashing import text_hash
from restante.model.columns.texts import Texts
from restante.model.mailboxes.message_tables import to_messages, to_table
from restante.model.publishing.message import NEVER, Message
from restante.model.storage.catalog import mailbox
from restante.model.storage.changes import BlobKey
from restante.model.storage.keys import Cabinet
from restante.model.storage.piece import span
from restante.model.storage.row_formats import DRAWER, RECORD
from restante.model.storage.run import Run, RunRow, RunState, SegmentRow, StoredSegment
from restante.model.storage.segment import Segment, block_checks, decode
from restante.model.storage.segment_frame import EncodedSegment
from restante.ports.store import Store
from restante.stores.memory import MemoryStore
from tests.model.strategies import listed, unhurried
from tests.model.test_segment import KEY, laid, letter
from tests.profiles import by_profile

BLOB = BlobKey(0, 1)
FRAME_NUMBERS = struct.Struct("<8I")
FRAME_NUMBERS_AT, FRAME_CHECK_AT = 16, 8
RECIPIENTS = 700


def blob_of(encoded: EncodedSegment) -> bytes:
    return b"".join(bytes(part) for part in encoded.parts)


def small() -> EncodedSegment:
    """A segment of a few rows with everything in it."""
    sent = [
        Message(recipient=name, kind=kind, data=f"{name} {number}".encode(), properties={"n": str(number)})
        for number, (name, kind) in enumerate(
            [("ada", "k"), ("ben", "k"), ("ada", "ö"), ("ben", "k"), ("cleo", "k")] * 3
        )
    ]
    return laid(sent).segments[0][0]


def large() -> EncodedSegment:
    """A segment whose directory, records, properties and data each fill several blocks."""
    sent = [
        msgspec.structs.replace(letter(f"recipient {number % RECIPIENTS}", size=60), properties={"p": f"{number:040d}"})
        for number in range(2 * RECIPIENTS)
    ]
    return laid(sent).segments[0][0]


BESIDE_EVERY = by_profile(dev=10, ci=1)
"""Of the recipients beside a damaged block, one in so many is asked."""
SMALL, LARGE = small(), large()
SMALL_BLOB, LARGE_BLOB = blob_of(SMALL), blob_of(LARGE)


class Kept:
    """A blob in a store, as the run row knows it."""

    def __init__(self, blob: bytes, encoded: EncodedSegment) -> None:
        self.store = MemoryStore()
        self.store.put_blob(BLOB, [blob], fence=self.store.raise_fences(1))
        self.row = SegmentRow(BLOB.number, encoded.length, len(encoded.front), encoded.rows)

    def stored(self) -> StoredSegment:
        return StoredSegment(BLOB, 1, decode(bytes(self.store.read_blob(BLOB, 0, self.row.front))))

    def run(self) -> Run:
        row = RunRow(1, 1, self.row.rows, (self.row,), RunState.VISIBLE, 0, mailbag=True)
        return Run.of(row, 0, [self.stored().segment])


def read_drawer(store: MemoryStore, stored: StoredSegment, drawer: int) -> tuple[Message, ...]:
    line = stored.segment.drawers[drawer]
    row, count = int(line["row"]), int(line["count"])
    piece = read_piece(store, stored, row, row + count)
    columns = message_columns([piece], Cabinet(*stored.segment.cabinet(drawer)))
    times = np.full(len(columns), NEVER)
    table = to_table(
        columns,
        sequence_number=piece.numbers,
        published_at=times,
        collected_at=times,
        state=Texts.constant("waiting", len(columns)),
    )
    return to_messages(table)


def read_everything(blob: bytes, encoded: EncodedSegment) -> None:
    """Whatever can be read of a blob, all the way to messages."""
    kept = Kept(blob, encoded)
    stored = kept.stored()
    for drawer in range(len(stored.segment.drawers)):
        read_drawer(kept.store, stored, drawer)


def survives_decoding(blob: bytes, encoded: EncodedSegment) -> None:
    """Reading all columns of a blob raises the one error or none."""
    try:
        kept = Kept(blob, encoded)
        stored = kept.stored()
        for drawer, line in enumerate(stored.segment.drawers):
            piece = read_piece(kept.store, stored, int(line["row"]), int(line["row"]) + int(line["count"]))
            listed(message_columns([piece], Cabinet(*stored.segment.cabinet(drawer))))
    except (DataDamaged, FormatUnsupported):
        pass


def survives(blob: bytes, encoded: EncodedSegment) -> None:
    with contextlib.suppress(DataDamaged, FormatUnsupported):
        read_everything(blob, encoded)


def resealed(blob: bytes, *, blocks: bool) -> bytes:
    """The blob with its frame's checksum computed anew, and with `blocks` those of all blocks."""
    if len(blob) < FRAME_NUMBERS_AT + FRAME_NUMBERS.size:
        return blob
    numbers = FRAME_NUMBERS.unpack_from(blob, FRAME_NUMBERS_AT)
    _, _, names, _, _, ledger, data, frame = numbers
    sealed = bytearray(blob)
    checks_at = FRAME_NUMBERS_AT + FRAME_NUMBERS.size + names
    if blocks and checks_at < frame <= len(blob):
        areas = blob[frame : frame + ledger], blob[frame + ledger : frame + ledger + data]
        checks = b"".join(block_checks(area).tobytes() for area in areas)
        sealed[checks_at : checks_at + len(checks)] = checks[: max(0, frame - checks_at)]
    tail = FRAME_NUMBERS.pack(*numbers) + sealed[FRAME_NUMBERS_AT + FRAME_NUMBERS.size : frame]
    struct.pack_into("<Q", sealed, FRAME_CHECK_AT, xxhash.xxh3_64_intdigest(tail))
    return bytes(sealed)


def test_resealing_a_sound_blob_changes_nothing() -> None:
    for blob in (SMALL_BLOB, LARGE_BLOB):
        assert resealed(blob, blocks=False) == blob
        assert resealed(blob, blocks=True) == blob


@given(st.binary(max_size=400), st.booleans())
def test_random_bytes_are_no_segment(content: bytes, begins_well: bool) -> None:
    with pytest.raises((DataDamaged, FormatUnsupported)):
        decode(SMALL_BLOB[:6] + content if begins_well else content)


@given(st.integers(0, len(SMALL.front) - 1))
def test_a_front_cut_short_is_damaged(length: int) -> None:
    with pytest.raises(DataDamaged):
        decode(SMALL.front[:length])


@given(st.integers(0, len(SMALL_BLOB) - 1))
def test_a_blob_cut_short_is_damaged_or_read_as_far_as_it_goes(length: int) -> None:
    with pytest.raises(DataDamaged):
        read_everything(SMALL_BLOB[:length], SMALL)


changes = st.lists(st.tuples(st.integers(0, len(SMALL_BLOB) - 1), st.integers(1, 255)), min_size=1, max_size=4)


def changed(blob: bytes, flips: list[tuple[int, int]]) -> bytes:
    spoilt = bytearray(blob)
    for at, bits in flips:
        spoilt[at] ^= bits
    return bytes(spoilt)


@given(changes)
@example([(6, 1)])
@unhurried
def test_changed_bytes_are_always_noticed(flips: list[tuple[int, int]]) -> None:
    spoilt = changed(SMALL_BLOB, flips)
    if spoilt != SMALL_BLOB:
        with pytest.raises((DataDamaged, FormatUnsupported)):
            read_all_of_everybody(spoilt)


def read_all_of_everybody(blob: bytes) -> None:
    """As the hub reads: by recipient, so that a recipient whose line is damaged is asked for too."""
    kept = Kept(blob, SMALL)
    run = kept.run()
    for name in ("ada", "ben", "cleo"):
        found = mailbox([run], name, text_hash(name, KEY))
        assert found
        for places in found.values():
            for place in places:
                read_drawer(kept.store, place.stored, place.drawer)


@given(changes)
@unhurried
def test_changed_bytes_under_a_right_frame_checksum_never_crash_the_decoder(flips: list[tuple[int, int]]) -> None:
    survives(resealed(changed(SMALL_BLOB, flips), blocks=False), SMALL)


def test_changed_bytes_under_right_checksums_never_crash_the_decoder() -> None:
    """In a process of its own: what goes wrong here may take the interpreter with it."""
    command = [sys.executable, "-X", "faulthandler", "-c", FUZZ.replace("EVERY", str(by_profile(dev=5, ci=1)))]
    child = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout) == (0, "done\n"), child.stderr[-2_000:]


FUZZ = """
from tests.model.test_segment_damage import SMALL, SMALL_BLOB, changed, resealed, survives_decoding
for place in range(0, len(SMALL_BLOB), EVERY):
    survives_decoding(resealed(changed(SMALL_BLOB, [(place, 1 << place % 8)]), blocks=True), SMALL)
print("done")
"""


@given(st.integers(0, 7), st.integers(0, 2**32 - 1) | st.integers(0, 300), st.booleans())
def test_any_number_in_the_header_is_noticed(which: int, value: int, blocks: bool) -> None:
    numbers = list(FRAME_NUMBERS.unpack_from(SMALL_BLOB, FRAME_NUMBERS_AT))
    changes_something = numbers[which] != value
    numbers[which] = value
    spoilt = bytearray(SMALL_BLOB)
    FRAME_NUMBERS.pack_into(spoilt, FRAME_NUMBERS_AT, *numbers)
    blob = resealed(bytes(spoilt), blocks=blocks and numbers[7] <= len(SMALL_BLOB))
    if changes_something:
        with pytest.raises(DataDamaged):
            read_everything(blob, SMALL)


# --- One block --------------------------------------------------------------------------------------------------------

AREAS: dict[str, Callable[[Segment], tuple[int, int]]] = {
    "directory": lambda s: (s.frame_length, s.frame_length + s.texts_at),
    "texts": lambda s: (s.frame_length + s.texts_at, s.frame_length + s.records_at),
    "records": lambda s: (s.frame_length + s.records_at, s.frame_length + s.properties_at),
    "properties": lambda s: (s.frame_length + s.properties_at, s.frame_length + s.ledger_length),
    "data": lambda s: (s.frame_length + s.ledger_length, s.frame_length + s.ledger_length + s.data_length),
}


def read_mailbox(kept: Kept, run: Run, recipient: str) -> tuple[Message, ...]:
    found = mailbox([run], recipient, text_hash(recipient, KEY))
    return tuple(
        message
        for places in found.values()
        for place in places
        for message in read_drawer(kept.store, place.stored, place.drawer)
    )


def outcome(kept: Kept, run: Run, recipient: str) -> tuple[Message, ...] | DataDamaged:
    try:
        return read_mailbox(kept, run, recipient)
    except DataDamaged as error:
        return error


class Extent(NamedTuple):
    """Where a drawer's bytes lie: in the ledger and in the data."""

    ledger: tuple[tuple[int, int], ...]
    data: tuple[int, int]


def extents(stored: StoredSegment, store: Store) -> list[Extent]:
    segment, found, text = stored.segment, list[Extent](), 0
    records = read_piece(store, stored, 0, segment.rows).records
    for drawer, line in enumerate(segment.drawers):
        row, end = int(line["row"]), int(line["recipient_end"])
        own = records[row : row + int(line["count"])]
        properties, data = span(own, "properties"), span(own, "data")
        ledger = (
            (drawer * DRAWER.itemsize, (drawer + 1) * DRAWER.itemsize),
            (segment.texts_at + text, segment.texts_at + end),
            (segment.records_at + row * RECORD.itemsize, segment.records_at + (row + len(own)) * RECORD.itemsize),
            (segment.properties_at + properties[0], segment.properties_at + properties[1]),
        )
        found.append(Extent(ledger, data))
        text = end
    return found


def in_block_of(at: int, stored: StoredSegment, store: Store) -> set[str]:
    """Who lies in the block that has this byte of the blob; neighbours count, for a damaged line hides its borders."""
    segment = stored.segment
    place = at - segment.frame_length
    in_data = place >= segment.ledger_length
    block = (place - segment.ledger_length if in_data else place) // BLOCK_BYTES
    begin, end = block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES
    touched = [
        drawer
        for drawer, extent in enumerate(extents(stored, store))
        if any(first < end and last > begin for first, last in ([extent.data] if in_data else extent.ledger))
    ]
    near = {drawer + step for drawer in touched for step in (-1, 0, 1, 2)} & set(range(len(segment.drawers)))
    return {segment.cabinet(drawer)[0] for drawer in near}


@cache
def sound() -> tuple[Kept, Run]:
    kept = Kept(LARGE_BLOB, LARGE)
    return kept, kept.run()


@cache
def sound_mailbox(recipient: str) -> tuple[Message, ...]:
    return read_mailbox(*sound(), recipient)


@pytest.mark.parametrize("area", AREAS)
def test_a_flipped_bit_harms_only_who_lies_in_its_block(area: str) -> None:
    start, stop = AREAS[area](decode(LARGE.front))
    whole, _ = sound()
    names = [f"recipient {number}" for number in range(RECIPIENTS)]
    generator = random.Random(5)
    for at in [start, stop - 1, *(generator.randrange(start, stop) for _ in range(by_profile(dev=0, ci=2)))]:
        kept = Kept(changed(LARGE_BLOB, [(at, 1 << generator.randrange(8))]), LARGE)
        run, in_block = kept.run(), in_block_of(at, whole.stored(), whole.store)
        asked = sorted(in_block.union(names[::BESIDE_EVERY]))
        found = {name: outcome(kept, run, name) for name in asked}
        expected = {name: sound_mailbox(name) for name in asked}
        assert all(len(own) == 2 for own in expected.values())
        harmed = {name for name in asked if isinstance(found[name], DataDamaged)}
        assert harmed, f"byte {at} of the {area} was not noticed"
        assert all(found[name] == expected[name] for name in asked if name not in harmed)
        assert harmed <= in_block


@pytest.mark.parametrize("area", ["records", "properties", "data"])
def test_the_error_names_the_drawers_in_the_damaged_block(area: str) -> None:
    start, stop = AREAS[area](decode(LARGE.front))
    middle, (whole, _) = (start + stop) // 2, sound()
    kept = Kept(changed(LARGE_BLOB, [(middle, 4)]), LARGE)
    run = kept.run()
    names = in_block_of(middle, whole.stored(), whole.store)
    errors = {name: error for name in names if isinstance(error := outcome(kept, run, name), DataDamaged)}
    assert errors
    for error in errors.values():
        drawers = error.details["drawers"]
        assert isinstance(drawers, tuple)
        assert drawers
        assert {drawer.split("/")[0] for drawer in drawers} <= errors.keys()
        assert (error.details["run"], "block" in error.details) == (BLOB.number, True)
        assert str(drawers[0]) in error.message
