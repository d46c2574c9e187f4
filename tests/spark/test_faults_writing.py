"""The sink when something goes wrong: each message is there once and in order, or none is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from restante import ConsignmentState
from tests.spark.driver import RECIPIENTS
from tests.spark.driving import DriverError, DriverGone, Drivers
from tests.spark.gate import Gate, Passing, cut, kill_caller
from tests.spark.served import HubProcess, SparkHub

COUNT = 3_000
PARTS = 4
OPEN = r"^POST /v1/consignments$"
STAGE = r"^POST /v1/consignments/[^/]+/parcels"
STAGE_OF_FAULTY = STAGE + r".*writer=000001"
COMMIT = r"^POST /v1/consignments/[^/]+/commit"
FILES, FILE_ROWS = 3, 140


def options(url: str, **more: str) -> dict[str, str]:
    return {"url": url, "origin": "grid", "mediaType": "application/json", **more}


def arrived(hub: SparkHub) -> list[list[int]]:
    """Of each recipient the numbers of its messages, in order."""
    rows = []
    with hub.connect() as connected:
        for page in connected.snapshot(columns=["sequence_number", "recipient", "data"]):
            rows += page.table.to_pylist()
    rows.sort(key=lambda row: int(row["sequence_number"]))
    own: dict[str, list[int]] = {f"r{place}": [] for place in range(RECIPIENTS)}
    for row in rows:
        own[row["recipient"]].append(json.loads(row["data"])["n"])
    return list(own.values())


def expected(count: int) -> list[list[int]]:
    return [list(range(own, count, RECIPIENTS)) for own in range(RECIPIENTS)]


def states(hub: SparkHub) -> list[ConsignmentState]:
    with hub.connect() as connected:
        return [own.state for own in connected.consignments()]


def attempts(gate: Gate) -> int:
    """How many attempts have staged something of the faulty part."""
    return len({r.partition("attempt=")[2].partition("&")[0] for r in gate.requests if "writer=000001" in r})


@pytest.mark.parametrize(("fault", "staged_by"), [pytest.param("before", 1, marks=pytest.mark.long), ("middle", 2)])
def test_a_task_that_fails_is_tried_again_and_leaves_nothing_twice(
    drivers: Drivers, hub: SparkHub, tmp_path: Path, fault: str, staged_by: int
) -> None:
    marker = tmp_path / "staged"

    def mark(_: Passing) -> bool:
        marker.touch()
        return True

    with Gate(hub.url) as gate:
        gate.when(STAGE_OF_FAULTY, after=mark)
        given = options(gate.url, key="night", parcelBytes="65536")
        drivers().ask("write", options=given, count=COUNT, parts=PARTS, fault=fault, marker=str(marker))
        assert attempts(gate) == staged_by
    assert arrived(hub) == expected(COUNT)
    assert states(hub) == [ConsignmentState.COMMITTED]


def test_a_committed_key_that_meets_another_frame_is_told_and_the_same_frame_is_not(
    drivers: Drivers, hub: SparkHub
) -> None:
    given = options(hub.url, key="told night")
    for parts in (2, 3):
        drivers().ask("write", options=given, count=COUNT, parts=parts)
    assert "CommittedBefore" not in drivers.errors()
    drivers().ask("write", options=given, count=COUNT + 1, parts=2)
    said = drivers.errors().partition("CommittedBefore: ")[2]
    assert re.match(r"Nothing was sent: the key 'told night' was committed on .* UTC with 3,000 messages", said)
    assert "and this frame has 3,001." in said
    assert arrived(hub) == expected(COUNT)


def test_a_worker_that_is_killed_when_it_has_staged_all_leaves_nothing_twice(drivers: Drivers, hub: SparkHub) -> None:
    with Gate(hub.url) as gate:
        rule = gate.when(STAGE_OF_FAULTY, after=kill_caller)
        drivers().ask("write", options=options(gate.url), count=COUNT, parts=PARTS)
        assert rule.acted()
        assert attempts(gate) == 2
    assert arrived(hub) == expected(COUNT)
    assert states(hub) == [ConsignmentState.COMMITTED]


def test_an_answer_that_is_lost_is_asked_for_again(drivers: Drivers, hub: SparkHub) -> None:
    with Gate(hub.url) as gate:
        rules = [gate.when(pattern, after=cut) for pattern in (OPEN, STAGE_OF_FAULTY, COMMIT)]
        rules += [gate.when(pattern, before=cut) for pattern in (OPEN, STAGE, COMMIT)]
        drivers().ask("write", options=options(gate.url), count=COUNT, parts=PARTS)
        assert all(rule.acted() for rule in rules)
        assert attempts(gate) == 1
    assert arrived(hub) == expected(COUNT)


def test_a_hub_that_is_killed_beside_the_commit_has_all_of_it_or_nothing_until_it_is_asked_again(
    drivers: Drivers, hub_process: HubProcess
) -> None:
    def restart(_: Passing) -> bool:
        hub_process.kill()
        hub_process.start()
        return False

    with Gate(hub_process.url) as gate:
        rules = [gate.when(STAGE_OF_FAULTY, after=restart), gate.when(COMMIT, before=restart)]
        drivers().ask("write", options=options(gate.url), count=COUNT, parts=PARTS)
        assert all(rule.acted() for rule in rules)
    assert arrived(hub_process) == expected(COUNT)


def test_a_function_that_raises_every_time_is_told_with_its_row_and_nothing_is_delivered(
    drivers: Drivers, hub: SparkHub
) -> None:
    with pytest.raises(DriverError, match=r"row 17 of part 1, \{'id': 67\}: ValueError: no tariff for 67"):
        drivers().ask("write_composed", options=options(hub.url, key="night"), count=200, parts=4, bad=67)
    # A task that Spark has not stopped yet may open the key again after the driver discarded it: that is left to its age.
    assert ConsignmentState.COMMITTED not in states(hub)
    assert arrived(hub) == [[]] * RECIPIENTS


def files_of(folder: Path) -> str:
    """Files that come one after the other, with messages that go on from file to file."""
    folder.mkdir()
    for file in range(FILES):
        numbers = range(file * FILE_ROWS, (file + 1) * FILE_ROWS)
        columns: dict[str, Sequence[object]] = {
            "recipient": [f"r{n % RECIPIENTS}" for n in numbers],
            "data": [f'{{"n":{n}}}' for n in numbers],
            "n": list(numbers),
        }
        path = folder / f"{file}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))
    return str(folder)


def kill_program(drivers: Drivers, passing: Passing) -> None:
    """The driver, and that process of it which asks: left alone, it might ask again before it notices."""
    drivers.kill()
    passing.kill_caller()


def stream_in(drivers: Drivers, url: str, files: str, tmp_path: Path) -> None:
    drivers().ask("stream_in", options=options(url), files=files, checkpoint=str(tmp_path / "checkpoint"))


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("before", marks=pytest.mark.long),
        "held",
        pytest.param("after", marks=pytest.mark.long),
    ],
)
def test_a_driver_that_is_killed_beside_the_commit_goes_on_when_it_is_started_again(
    drivers: Drivers, hub: SparkHub, tmp_path: Path, moment: str
) -> None:
    """Before the commit reached the hub; while the hub was at it; when it was done, and the answer under way."""
    files = files_of(tmp_path / "files")

    def kill(passing: Passing) -> bool:
        kill_program(drivers, passing)
        return moment == "held"

    with Gate(hub.url) as gate:
        before, after = (None, kill) if moment == "after" else (kill, None)
        rule = gate.when(COMMIT, before=before, after=after, passes=1)
        with pytest.raises(DriverGone):
            stream_in(drivers, gate.url, files, tmp_path)
        assert rule.acted()
        if moment == "before":
            assert arrived(hub) == expected(FILE_ROWS)
        stream_in(drivers, gate.url, files, tmp_path)
    assert arrived(hub) == expected(FILES * FILE_ROWS)
    assert states(hub) == [ConsignmentState.COMMITTED] * FILES


def test_a_micro_batch_that_was_committed_but_not_noted_is_not_sent_again(
    drivers: Drivers, hub: SparkHub, tmp_path: Path
) -> None:
    files = files_of(tmp_path / "files")
    stream_in(drivers, hub.url, files, tmp_path)
    for lost in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        lost.unlink()
    with Gate(hub.url) as gate:
        stream_in(drivers, gate.url, files, tmp_path)
        assert gate.count(OPEN) > 0, "it was run again"
        assert gate.count(STAGE) == 0
    assert arrived(hub) == expected(FILES * FILE_ROWS)
    assert len(states(hub)) == FILES


@pytest.mark.long
def test_a_job_that_was_killed_goes_on_under_its_key(drivers: Drivers, hub: SparkHub) -> None:
    def kill(passing: Passing) -> bool:
        kill_program(drivers, passing)
        return False

    with Gate(hub.url) as gate:
        given = options(gate.url, key="night", parcelBytes="65536")
        for before, after in ((kill, None), (None, kill)):
            gate.when(COMMIT, before=before, after=after)
            with pytest.raises(DriverGone):
                drivers().ask("write", options=given, count=COUNT, parts=PARTS)
        drivers().ask("write", options=given, count=COUNT, parts=PARTS)
    assert arrived(hub) == expected(COUNT)
    assert states(hub) == [ConsignmentState.COMMITTED]
