"""A flipped bit in a stored blob: a clear error for those who lie there, and nothing for anybody else."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import restante
from restante.client.surface.surface import Hub
from restante.errors import DataDamaged, MessageConflict
from restante.limits import MIB
from restante.model.publishing.message import Message, State
from restante.model.storage.run import StoredSegment
from restante.model.storage.segment import Segment
from restante.settings import Settings
from tests.crash.seen import inside
from tests.hub.engines import START, FakeClock
from tests.model.test_segment_damage import AREAS, in_block_of
from tests.profiles import by_profile, some

SETTINGS = Settings(partition_count=1, housekeeping_seconds=0, filing=False)
RECIPIENTS = 500
NAMES = tuple(f"recipient {number:03d} in a long street".ljust(50, "-") for number in range(RECIPIENTS))
"""So long that the texts of a directory fill several blocks, and nobody's block is everybody's."""
ASKED = NAMES[:: by_profile(dev=10, ci=4)]
"""Enough to find those outside a damaged block; those in it are asked too."""
BEFORE, AFTER = 3, 3
"""Small mailbags before and after the one that will be damaged."""
EXPIRES_SECONDS = 100


def id_of(kind: int, number: int) -> str:
    return str(uuid.UUID(int=(kind << 64) | number))


def message(name: str, kind: int, *, size: int = 60, expires: bool = False) -> Message:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=START, seconds=EXPIRES_SECONDS)
    return Message(
        recipient=name,
        id=id_of(kind, NAMES.index(name)),
        data=f"{name[:13]} {kind} ".encode().ljust(size, b"."),
        properties={"kind": f"{kind:030d}"},
        expires_at=at if expires else None,
    )


class Damaged(NamedTuple):
    """A folder with one flipped bit, and who may be harmed by it."""

    folder: Path
    run: int
    in_block: frozenset[str]


Place = Callable[[Segment], int]


def middle_of(area: str) -> Place:
    def place(segment: Segment) -> int:
        start, stop = AREAS[area](segment)
        return (start + stop) // 2

    return place


PLACES: dict[str, Place] = {area: middle_of(area) for area in AREAS}


def furnish(hub: Hub, *, size: int) -> StoredSegment:
    """Small mailbags, a large one with two messages for everybody, small mailbags; the large one's segment."""
    for number in range(BEFORE):
        hub.producer.send([message(name, 10 + number) for name in NAMES[:50]])
    both = [message(name, kind, size=size, expires=kind == 2) for kind in (1, 2) for name in NAMES]
    hub.producer.send(both)
    for number in range(AFTER):
        hub.producer.send([message(name, 20 + number) for name in NAMES[:50]])
    run = inside(hub).core.partitions[0].runs[BEFORE]
    assert len(run.segments) == 1
    return run.segments[0]


class Sound(NamedTuple):
    """A folder before anything happens to it, and the segment to which it will."""

    folder: Path
    stored: StoredSegment
    in_block: dict[str, frozenset[str]]


def make_sound(folder: Path, size: int) -> Sound:
    with restante.open(folder, settings=SETTINGS, clock=FakeClock()) as hub:
        stored = furnish(hub, size=size)
        store = inside(hub).core.store
        in_block = {
            area: frozenset(in_block_of(place(stored.segment), stored, store)) for area, place in PLACES.items()
        }
    return Sound(folder, stored, in_block)


def flip(folder: Path, blob: int, at: int) -> None:
    """Change one bit of a blob where it lies: in its file, or in its row of the database."""
    with sqlite3.connect(folder / "restante.db") as database:
        ((file, start, data),) = database.execute("SELECT file, start, data FROM blobs WHERE id = ?", (blob,))
        if file is None:
            database.execute("UPDATE blobs SET data = ? WHERE id = ?", (flipped(data, at), blob))
        else:
            path = folder / "blobs" / f"{file:012d}"
            path.write_bytes(flipped(path.read_bytes(), start + at))
    database.close()


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


pytestmark = pytest.mark.xdist_group("damage")
"""In one process: the sound folders are made there once."""
SIZES = {"in the database": 60, "in a file": 400}


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Sound]:
    return {size: make_sound(tmp_path_factory.mktemp("sound") / "data", size) for size in SIZES.values()}


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> int:
    return SIZES[request.param]


@pytest.fixture
def sound(size: int, sounds: dict[int, Sound], tmp_path: Path) -> Sound:
    """A copy that a test may spoil."""
    shutil.copytree(sounds[size].folder, tmp_path / "data")
    assert bool(list((tmp_path / "data" / "blobs").iterdir())) == (size == SIZES["in a file"])
    return sounds[size]._replace(folder=tmp_path / "data")


@pytest.fixture(params=some(PLACES, most=3))
def damaged(request: pytest.FixtureRequest, sound: Sound) -> Damaged:
    run = sound.stored.blob.number
    flip(sound.folder, run, PLACES[request.param](sound.stored.segment))
    return Damaged(sound.folder, run, sound.in_block[request.param])


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hub(damaged: Damaged, clock: FakeClock) -> Iterator[Hub]:
    with restante.open(damaged.folder, settings=SETTINGS, clock=clock) as opened:
        yield opened


def expected(name: str, size: int) -> list[bytes]:
    kinds = [*range(10, 10 + BEFORE), 1, 2, *range(20, 20 + AFTER)] if name in NAMES[:50] else [1, 2]
    return [message(name, kind, size=size if kind in (1, 2) else 60).data for kind in kinds]


def asked(in_block: frozenset[str]) -> list[str]:
    return sorted({*ASKED, *in_block})


def outcomes(act: Callable[[str], object], names: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in names:
        try:
            found[name] = act(name)
        except DataDamaged as error:
            found[name] = error
    return found


def check_outcomes(found: dict[str, object], damaged: Damaged, right: Callable[[str, object], bool]) -> set[str]:
    """Nobody outside the block is harmed, and what is answered is right; gives the harmed."""
    harmed = {name for name, answer in found.items() if isinstance(answer, DataDamaged)}
    assert harmed <= damaged.in_block
    assert all(right(name, answer) for name, answer in found.items() if name not in harmed)
    return harmed


def peek(hub: Hub) -> Callable[[str], object]:
    def act(name: str) -> list[bytes]:
        bundle = hub.recipient(name).peek()
        return [] if bundle is None else [each.data for each in bundle.messages]

    return act


def history(hub: Hub) -> Callable[[str], object]:
    return lambda name: [each.data for each in hub.recipient(name).history().messages]


def test_peek_and_history_fail_for_those_in_the_block_only(hub: Hub, damaged: Damaged, size: int) -> None:
    for look in (peek(hub), history(hub), peek(hub)):
        assert check_outcomes(
            outcomes(look, asked(damaged.in_block)), damaged, lambda name, found: found == expected(name, size)
        )


def test_the_error_names_run_block_and_drawers(hub: Hub, damaged: Damaged) -> None:
    errors = [
        error for error in outcomes(peek(hub), asked(damaged.in_block)).values() if isinstance(error, DataDamaged)
    ]
    assert errors
    for error in errors:
        assert {"run", "block", "drawers"} <= error.details.keys(), error.message
        assert error.details["run"] == damaged.run
        drawers = error.details["drawers"]
        assert isinstance(drawers, tuple)
        assert {str(drawer).split("/")[0] for drawer in drawers} <= damaged.in_block
        assert str(error.details["block"]) in error.message


def test_everybody_else_can_be_sent_to_and_their_duplicates_are_known(hub: Hub, damaged: Damaged, size: int) -> None:
    others = [name for name in NAMES if name not in damaged.in_block]
    assert others
    assert hub.producer.send([message(name, 30) for name in others]).accepted == len(others)
    again = hub.producer.send([message(name, kind, size=size) for name in others[:20] for kind in (1, 2)])
    assert (again.accepted, again.duplicates) == (0, 40)
    again = hub.producer.send([message(name, kind, size=size) for name in others for kind in (1, 2)])
    assert (again.accepted, again.duplicates) == (0, 2 * len(others))
    for name in others[::20]:
        assert hub.recipient(name).find(id_of(30, NAMES.index(name))).data == message(name, 30).data


def test_a_publish_that_meets_the_damage_fails_nobody_else_in_its_commit(hub: Hub, damaged: Damaged, size: int) -> None:
    """Whether the harmed one is refused or not: the others of the same commit are stored."""
    others = [name for name in NAMES if name not in damaged.in_block][:4]
    sends = [message(name, 1, size=size) for name in sorted(damaged.in_block)[:40]] + [
        message(name, 32) for name in others
    ]
    barrier = threading.Barrier(len(sends))

    def send(one: Message) -> object:
        barrier.wait(60)
        try:
            return hub.producer.send(one)
        except DataDamaged as error:
            return error

    with ThreadPoolExecutor(len(sends)) as pool:
        answers = list(pool.map(send, sends))
    assert not any(isinstance(answer, DataDamaged) for answer in answers[-4:])


def test_what_cannot_be_compared_is_refused_and_nothing_is_stored_for_it(sound: Sound) -> None:
    run, segment = sound.stored.blob.number, sound.stored.segment
    flip(sound.folder, run, PLACES["data"](segment))
    answers: dict[str, object] = {}
    names = asked(sound.in_block["data"])
    with restante.open(sound.folder, settings=SETTINGS, clock=FakeClock()) as hub:
        before = inside(hub).core.partitions[0].counters.visible
        for name in names:
            # The same but for its data: a conflict, if what is stored can be read.
            try:
                hub.producer.send(msgspec.structs.replace(message(name, 1), data=b"something else"))
            except (DataDamaged, MessageConflict) as error:
                answers[name] = error
        assert len(answers) == len(names)
        assert inside(hub).core.partitions[0].counters.visible == before
    harmed = {name for name, error in answers.items() if isinstance(error, DataDamaged)}
    assert harmed
    assert harmed <= sound.in_block["data"]


def test_everybody_else_can_collect_everything(hub: Hub, damaged: Damaged, size: int) -> None:
    for name in [each for each in NAMES if each not in damaged.in_block][::10]:
        bundle = hub.recipient(name).peek()
        assert bundle is not None
        assert [each.data for each in bundle.messages] == expected(name, size)
        bundle.dequeue()
        assert hub.recipient(name).peek() is None


def test_filing_leaves_the_damaged_run_alone_and_goes_on_with_others(hub: Hub, damaged: Damaged, size: int) -> None:
    hub.file()
    runs = inside(hub).core.partitions[0].runs
    assert damaged.run in {stored.blob.number for run in runs for stored in run.segments}
    assert len(runs) <= 3, "those before it and those after it are filed"
    assert check_outcomes(
        outcomes(peek(hub), asked(damaged.in_block)), damaged, lambda name, found: found == expected(name, size)
    )
    kept = {stored.blob for run in runs for stored in run.segments}
    assert set(inside(hub).core.store.blobs(0)) == kept, "what was written for nothing is dropped"
    hub.producer.send([message(name, 31) for name in NAMES[:50] if name not in damaged.in_block])
    hub.file()
    assert len(inside(hub).core.partitions[0].runs) <= 3


def test_retention_goes_on_beside_the_damaged_run(hub: Hub, damaged: Damaged, clock: FakeClock, size: int) -> None:
    others = [name for name in NAMES if name not in damaged.in_block]
    for name in others:
        bundle = hub.recipient(name).peek()
        assert bundle is not None
        bundle.dequeue()
    clock.advance(SETTINGS.collected_retention_seconds + 1)
    assert hub.retain() == sum(len(expected(name, size)) for name in others)
    runs = inside(hub).core.partitions[0].runs
    assert damaged.run in {stored.blob.number for run in runs for stored in run.segments}
    assert all(hub.recipient(name).peek() is None for name in others[::20])
    assert hub.producer.send(message(others[0], 1, size=size)).accepted == 1, "its identity is forgotten"


def test_recipients_are_listed_and_expiry_goes_on(hub: Hub, damaged: Damaged, clock: FakeClock, size: int) -> None:
    others = set(NAMES) - damaged.in_block
    listed = {each.recipient: each.waiting for each in hub.recipients(limit=1_000).recipients}
    assert {name: listed.get(name) for name in others} == {name: len(expected(name, size)) for name in others}
    clock.advance(EXPIRES_SECONDS + 1)
    hub.expire()
    for name in sorted(others)[::20]:
        states = [each.state for each in hub.recipient(name).history().messages]
        assert states.count(State.EXPIRED) == 1
        waiting = sum(each.messages for each in hub.recipient(name).explain().waiting)
        assert waiting == len(expected(name, size)) - 1


def test_a_damaged_frame_harms_only_its_own_segment(sound: Sound) -> None:
    """All of a segment hangs on its frame; the other runs do not."""
    run = sound.stored.blob.number
    flip(sound.folder, run, sound.stored.segment.frame_length - 20)
    with restante.open(sound.folder, settings=SETTINGS, clock=FakeClock()) as hub:
        with pytest.raises(DataDamaged) as caught:
            hub.recipient(NAMES[-1]).peek()
        assert caught.value.details["run"] == run
        assert hub.producer.send(Message(recipient=NAMES[-1], data=b"mail")).accepted == 1
        hub.file()


def test_a_damaged_directory_hides_nobody_in_the_other_segments_of_its_run(tmp_path: Path) -> None:
    """The first line of a later segment is damaged: bisection must not be led astray by it."""
    folder, names = tmp_path / "data", [f"recipient {number:03d}" for number in range(400)]
    big = [Message(recipient=name, data=name.encode() * 6_000, weight=80) for name in names]
    with restante.open(folder, settings=SETTINGS, clock=FakeClock()) as hub:
        hub.producer.send(big)
        segments = inside(hub).core.partitions[0].runs[0].segments
        assert len(segments) >= 4
        victim = segments[1]
        theirs = {each or "" for each in victim.segment.recipients.to_pylist()}
    flip(folder, victim.blob.number, victim.segment.frame_length + 2)
    with restante.open(folder, settings=SETTINGS, clock=FakeClock()) as hub:
        found = outcomes(peek(hub), names)
    harmed = {name for name, answer in found.items() if isinstance(answer, DataDamaged)}
    assert theirs <= harmed
    assert len(harmed - theirs) <= 2, "but for the neighbours, whose mail may begin or end there"
    assert all(found[name] == [name.encode() * 6_000] for name in names if name not in harmed)


def test_a_missing_blob_file_is_damage_and_hides_nobody_in_other_partitions(tmp_path: Path) -> None:
    """Nobody knows what was in it: whoever may lie there gets the error, and never a false nothing."""
    folder, settings = tmp_path / "data", msgspec.structs.replace(SETTINGS, partition_count=2)
    with restante.open(folder, settings=settings, clock=FakeClock()) as hub:
        inside_it, elsewhere = (next(name for name in NAMES if hub.partition_of(name) == number) for number in (0, 1))
        hub.producer.send(Message(recipient=elsewhere, data=b"mail"))
        hub.producer.send(Message(recipient=inside_it, data=bytes(MIB), weight=1_024))
    (lost,) = (folder / "blobs").iterdir()
    lost.unlink()
    with restante.open(folder, settings=settings, clock=FakeClock()) as hub:
        assert hub.recipient(elsewhere).peek() is not None
        with pytest.raises(DataDamaged):
            hub.recipient(inside_it).peek()
        assert (
            hub.producer.send([Message(recipient=name, data=b"more") for name in (inside_it, elsewhere)]).accepted == 2
        )
        hub.file()
