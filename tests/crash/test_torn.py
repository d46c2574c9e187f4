"""A log torn or spoilt anywhere: the hub shows a whole prefix of what was acknowledged, and nothing half, or refuses."""

from __future__ import annotations

import itertools
import random
import shutil
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.errors import DataDamaged
from restante.model.publishing.message import Message
from restante.settings import Settings
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.record import FILE_HEAD_BYTES, MARK_BYTES
from tests.crash.seen import Seen, check_counters, inside, seen
from tests.hub.engines import START, FakeClock
from tests.profiles import places

NAMES = ("ada", "ben", "cleo")
SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
CUTS_BYTES = 4_000
"""About how far apart a log is cut or spoilt, beside the ends of its acts."""
LOG_NAME = "log-0"
LATER_SECONDS = 60.0


def id_of(number: int) -> str:
    return str(uuid.UUID(int=number))


def message(number: int, name: str, *, size: int = 10, expires_in: float | None = None) -> Message:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=START)
    expires_at = None if expires_in is None else at + timedelta(seconds=expires_in)
    return Message(recipient=name, id=id_of(number), data=bytes([number % 256]) * size, expires_at=expires_at)


def send(*messages: Message) -> Callable[[Hub], object]:
    return lambda hub: hub.producer.send(list(messages))


def peek(name: str, bundle: int, most: int) -> Callable[[Hub], object]:
    return lambda hub: hub.recipient(name).peek(bundle_id=id_of(bundle), max_messages=most)


def dequeue(name: str, bundle: int) -> Callable[[Hub], object]:
    return lambda hub: hub.recipient(name).dequeue(id_of(bundle))


ACTS: list[Callable[[Hub], object]] = [
    send(*(message(number, name) for number in range(4) for name in NAMES)),
    send(*(message(10 + number, "ada", expires_in=30) for number in range(2)), message(20, "ben")),
    send(*(message(2_000 + number, "cleo", size=3_000) for number in range(150))),
    peek("ada", 901, 2),
    dequeue("ada", 901),
    lambda hub: hub.recipient("ben").withdraw(id_of(1)),
    lambda hub: hub.recipient("ada").set_aside(id_of(3)),
    send(*(message(200 + number, name) for number in range(3) for name in NAMES)),
    lambda hub: hub.file(),
    lambda hub: hub.expire(),
    peek("ada", 902, 1),
    lambda hub: hub.recipient("ada").release(id_of(3)),
    dequeue("ada", 902),
    lambda hub: hub.recipient("ben").erase(),
    send(message(300, "ben"), message(301, "ada")),
    peek("cleo", 903, 50),
    lambda hub: hub.file(),
]
"""Each acknowledged. Expiry finds something: all this happens `LATER_SECONDS` after the clock's beginning but the sends."""


class Stage(NamedTuple):
    """What was seen after an act, and how long the log was then."""

    seen: Seen
    log_bytes: int


class Recorded(NamedTuple):
    folder: Path
    log: bytes
    stages: list[Stage]


def now() -> FakeClock:
    clock = FakeClock()
    clock.advance(LATER_SECONDS)
    return clock


def look(hub: Hub) -> Seen:
    return seen(hub, NAMES)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A folder as it lies on the disk after all acts, none of its log transferred."""
    folder = tmp_path_factory.mktemp("torn")
    clock = now()
    with restante.open(folder / "live", settings=SETTINGS, clock=clock) as hub:
        store = inside(hub).core.store
        assert isinstance(store, SqliteStore)
        store.checkpoint()
        before, stages = store._log.written_bytes, []
        for act in [lambda _: None, *ACTS]:
            act(hub)
            clock.advance(10)
            stages.append(Stage(look(hub), store._log.written_bytes - before))
        shutil.copytree(folder / "live", folder / "crashed", ignore=shutil.ignore_patterns("*-shm", "lock"))
    log = (folder / "crashed" / LOG_NAME).read_bytes()
    return Recorded(folder / "crashed", log[: stages[-1].log_bytes], stages)


def stage_after(recorded: Recorded, folder: Path, log: bytes) -> int:
    """Which stage a hub shows whose log is this; it can also go on from there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(recorded.folder, folder)
    (folder / LOG_NAME).write_bytes(log)
    clock = now()
    clock.advance(10 * len(recorded.stages))
    with restante.open(folder, settings=SETTINGS, clock=clock) as hub:
        found = look(hub)
        stages = [stage.seen.mailboxes for stage in recorded.stages]
        assert found.mailboxes in stages, "something half"
        assert hub.producer.send(message(999, "ada")).accepted == 1
        hub.expire()
        clock.advance(10)
        check_counters(look(hub))
    return len(stages) - 1 - stages[::-1].index(found.mailboxes)


def acknowledged(recorded: Recorded, length: int) -> int:
    """The last act that lies wholly in so much of the log."""
    return max((number for number, stage in enumerate(recorded.stages) if stage.log_bytes <= length), default=0)


def test_the_acts_each_write_something_and_are_told_apart(recorded: Recorded) -> None:
    lengths = [stage.log_bytes for stage in recorded.stages]
    assert lengths[0] == 0
    assert all(one < other for one, other in itertools.pairwise(lengths))
    assert len(list((recorded.folder / "blobs").iterdir())) == 1, "one of them is large"


def test_a_log_cut_anywhere_shows_a_whole_prefix_of_what_was_acknowledged(recorded: Recorded, tmp_path: Path) -> None:
    generator, length = random.Random(1), len(recorded.log)
    ends = {stage.log_bytes for stage in recorded.stages}
    near = {end + more for end in ends for more in (-1, 1, generator.randrange(2, 200)) if 0 <= end + more <= length}
    cuts = sorted(
        ends | near | {at + generator.randrange(CUTS_BYTES) for at in range(0, length - CUTS_BYTES, CUTS_BYTES)}
    )
    cuts = [cuts[place] for place in places(len(cuts))]
    found = [stage_after(recorded, tmp_path / "cut", recorded.log[:cut]) for cut in cuts]
    assert found == sorted(found)
    for cut, stage in zip(cuts, found, strict=True):
        assert stage >= acknowledged(recorded, cut), f"acknowledged and lost, cut at {cut}"
    assert found[-1] == len(recorded.stages) - 1


def test_a_log_spoilt_anywhere_shows_what_came_before_its_last_record_or_is_refused(
    recorded: Recorded, tmp_path: Path
) -> None:
    generator, length = random.Random(2), len(recorded.log)
    last = recorded.log.rindex(recorded.log[FILE_HEAD_BYTES:][:MARK_BYTES])
    spots = [*range(0, last, CUTS_BYTES // 2), *(generator.randrange(last, length) for _ in range(5))]
    for at in (spots[place] for place in places(len(spots))):
        spoilt = bytearray(recorded.log)
        spoilt[at] ^= 1 << generator.randrange(8)
        if at < last:
            with pytest.raises(DataDamaged):
                stage_after(recorded, tmp_path / "spoilt", bytes(spoilt))
        else:
            stage = stage_after(recorded, tmp_path / "spoilt", bytes(spoilt))
            assert acknowledged(recorded, last) <= stage < len(recorded.stages)
