"""What filing computes may be computed by a process of its own, which may die at any time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.assembly import open_hub
from restante.calls.mailboxes import ReadHistory
from restante.calls.publishing import Publish
from restante.errors import DataDamaged
from restante.hub.door.hub import OpenHub
from restante.hub.engine.filing import file_all, file_handfuls
from restante.limits import FILING_HANDFUL
from restante.model.publishing.message import Message
from restante.outside import bulk_clerk, filing_clerk, page_clerk
from restante.outside.filing_clerk import MODULE, FilingClerk
from restante.outside.helper_frames import read_frame, write_frame
from restante.outside.helper_process import start_process
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.waiting import wait_until

SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
NAMES = [f"r{number}" for number in range(7)]


@pytest.fixture
def clerk() -> Iterator[FilingClerk]:
    clerk = FilingClerk(worth_calls=1)
    yield clerk
    clerk.close()


@pytest.fixture
def hub(clerk: FilingClerk) -> Iterator[OpenHub]:
    hub = open_hub(None, store=MemoryStore(), settings=SETTINGS, clerk=clerk)
    yield hub
    hub.close()


def send_few(hub: OpenHub, first: int, count: int) -> None:
    for number in range(first, first + count):
        hub.call(Publish.of(Message(recipient=NAMES[number % len(NAMES)], data=number)))


def send_many(hub: OpenHub, first: int, count: int) -> None:
    sent = [Message(recipient=NAMES[number % len(NAMES)], data=number) for number in range(first, first + count)]
    hub.call(Publish.of(sent))


def found(hub: OpenHub) -> set[object]:
    return {message.data for name in NAMES for message in hub.call(ReadHistory(name, limit=1_000)).messages}


def begin(clerk: FilingClerk) -> int:
    """Have the process answer; gives its number."""
    before = clerk._process.answers

    def is_there() -> bool:
        with pytest.raises(DataDamaged):
            clerk.joined([b"no segment"], [0], 0)
        return clerk._process.answers > before

    wait_until(is_there)
    assert clerk._process.process_id is not None
    return clerk._process.process_id


def test_tiny_runs_and_large_ones_are_filed_by_the_process(hub: OpenHub, clerk: FilingClerk) -> None:
    begin(clerk)
    before = clerk._process.answers
    send_few(hub, 0, 3 * FILING_HANDFUL)
    assert file_handfuls(hub.core) == 2
    assert clerk._process.answers == before + 2
    for turn in range(3):
        send_many(hub, 1_000 * (turn + 1), 800)
    file_all(hub.core)
    assert clerk._process.answers > before + 3
    assert [len(partition.runs) for partition in hub.core.partitions] == [1, 1]
    expected = {*range(3 * FILING_HANDFUL), *range(1_000, 1_800), *range(2_000, 2_800), *range(3_000, 3_800)}
    assert found(hub) == expected


def test_a_process_that_is_killed_is_missed_by_nobody(hub: OpenHub, clerk: FilingClerk) -> None:
    process = begin(clerk)
    send_few(hub, 0, 2 * FILING_HANDFUL)
    os.kill(process, signal.SIGKILL)
    send_many(hub, 1_000, 800)
    file_all(hub.core)
    assert clerk._process.process_id is None
    assert [len(partition.runs) for partition in hub.core.partitions] == [1, 1]
    assert found(hub) == {*range(2 * FILING_HANDFUL), *range(1_000, 1_800)}
    clerk._process._not_before = 0
    assert begin(clerk) != process


def test_what_is_damaged_is_found_by_whoever_joins_it(clerk: FilingClerk) -> None:
    begin(clerk)
    with pytest.raises(DataDamaged):
        clerk.joined([b"no segment at all"], [0], 0)


def test_the_process_ends_with_its_hub(hub: OpenHub, clerk: FilingClerk) -> None:
    process = begin(clerk)
    hub.close()
    assert not Path(f"/proc/{process}").exists()
    assert clerk._process.process_id is None


def test_the_process_ends_when_nobody_can_ask_it_any_more() -> None:
    process, line = start_process(MODULE)
    with line:
        assert read_frame(line.fileno()) == b""
        write_frame(line.fileno(), b"\xc1 no question")
        assert read_frame(line.fileno()) is not None
    assert process.wait() == 0


@pytest.mark.parametrize("module", [filing_clerk.MODULE, page_clerk.MODULE, bulk_clerk.MODULE])
def test_a_helper_process_does_without_pandas(module: str) -> None:
    process, line = start_process(module)
    with line:
        assert read_frame(line.fileno()) == b""
        loaded = Path(f"/proc/{process.pid}/maps").read_text()
        assert "numpy" in loaded
        assert "pandas" not in loaded
    assert process.wait() == 0
