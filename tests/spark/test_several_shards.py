"""Spark with a hub of 4 shards behind 2 doors: what holds of one process holds there too."""

from __future__ import annotations

import inspect
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.places import run
from tests.spark import (
    test_analytical_store_stream,
    test_capture,
    test_faults_reading,
    test_faults_writing,
    test_group_positions,
    test_nightly_run,
    test_reading,
    test_replay,
    test_streaming,
    test_writing,
)
from tests.spark.driving import Drivers
from tests.spark.gate import Gate, Passing
from tests.spark.served import HubHere, HubProcess, SparkHub

SEVERAL = ("--shards", "4", "--doors", "2")
Rule = Callable[..., None]
WITH_SESSION: list[Rule] = [
    test_writing.test_each_row_becomes_a_message_in_the_order_of_the_column_asked_for,
    test_writing.test_the_same_key_again_sends_nothing,
    test_writing.test_a_batch_is_complete_when_all_have_collected,
    test_writing.test_a_stream_leaves_each_micro_batch_once_and_in_order,
    test_reading.test_all_that_is_stored_is_read_as_the_hub_has_it,
    test_streaming.test_a_stream_begins_with_what_is_stored_and_goes_on_with_every_change,
    test_analytical_store_stream.test_a_run_takes_in_what_is_stored_and_the_next_one_goes_on_after_it,
    test_group_positions.test_a_stream_goes_on_where_a_group_is_and_a_program_where_the_stream_ended,
]
"""Rules of a hub that Spark writes into and reads from: one of each kind of write, read and stream."""
WITH_SESSION_LONG: list[Rule] = [
    test_writing.test_a_row_that_is_no_message_is_named_and_nothing_is_delivered,
    test_reading.test_a_bootstrap_is_as_of_the_positions_that_come_with_it,
    test_streaming.test_a_micro_batch_has_no_more_than_it_may_and_the_restart_keeps_the_place,
    test_group_positions.test_a_stream_and_other_members_do_not_share_a_group,
    test_capture.test_a_capture_goes_on_where_it_ended,
    test_replay.test_a_hub_that_was_lost_is_filled_again_from_its_capture,
    test_nightly_run.test_the_night_is_delivered_once_in_order_and_bound_to_a_batch,
]
WITH_DRIVER: list[Rule] = [
    test_faults_writing.test_a_hub_that_is_killed_beside_the_commit_has_all_of_it_or_nothing_until_it_is_asked_again,
]
"""Rules of programs that fail, or whose hub does."""
WITH_DRIVER_LONG: list[Rule] = [
    test_faults_writing.test_an_answer_that_is_lost_is_asked_for_again,
    test_faults_writing.test_a_micro_batch_that_was_committed_but_not_noted_is_not_sent_again,
    test_faults_writing.test_a_job_that_was_killed_goes_on_under_its_key,
    test_faults_reading.test_a_worker_that_is_killed_or_cut_off_while_it_reads_is_tried_again,
    test_faults_reading.test_a_batch_read_whose_worker_is_killed_shows_one_moment,
    test_faults_reading.test_a_bootstrap_whose_driver_is_killed_goes_on_as_of_the_same_moment,
]


def named(rule: Rule) -> str:
    return rule.__name__.removeprefix("test_")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[SparkHub]:
    """In place of the hub of one shard."""
    with HubHere(tmp_path / "hub", several=True) as served:
        yield served


@pytest.fixture
def hub_process(tmp_path: Path) -> Iterator[HubProcess]:
    """In place of the hub of one process."""
    with HubProcess(tmp_path / "hub", *SEVERAL) as served:
        yield served


@pytest.fixture
def stream(spark: SparkSession, hub: SparkHub, tmp_path: Path) -> test_streaming.Stream:
    return test_streaming.Stream(spark, hub, tmp_path)


def each_of(rules: list[Rule], long: list[Rule]) -> list[object]:
    return [
        *(pytest.param(rule, id=named(rule)) for rule in rules),
        *(pytest.param(rule, id=named(rule), marks=pytest.mark.long) for rule in long),
    ]


def given_to(rule: Rule, request: pytest.FixtureRequest) -> dict[str, object]:
    return {name: request.getfixturevalue(name) for name in inspect.signature(rule).parameters}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("rule", each_of(WITH_SESSION, WITH_SESSION_LONG))
def test_what_holds_of_one_shard_holds_of_several(rule: Rule, request: pytest.FixtureRequest) -> None:
    rule(**given_to(rule, request))


@pytest.mark.usefixtures("drivers")
@pytest.mark.parametrize("rule", each_of(WITH_DRIVER, WITH_DRIVER_LONG))
def test_everything_is_there_once_whoever_fails(rule: Rule, request: pytest.FixtureRequest) -> None:
    rule(**given_to(rule, request))


@pytest.mark.parametrize("fault", [pytest.param("before", marks=pytest.mark.long), "middle"])
def test_a_task_that_fails_leaves_nothing_twice(drivers: Drivers, hub: SparkHub, tmp_path: Path, fault: str) -> None:
    staged_by = {"before": 1, "middle": 2}[fault]
    test_faults_writing.test_a_task_that_fails_is_tried_again_and_leaves_nothing_twice(
        drivers, hub, tmp_path, fault, staged_by
    )


def kill_shard(hub: HubProcess, number: int) -> None:
    """Only this one of its processes; the supervisor starts it again."""
    children = Path(f"/proc/{hub.process.pid}/task/{hub.process.pid}/children").read_text().split()
    names = {child: Path(f"/proc/{child}/cmdline").read_text().rstrip("\0").rpartition("\0")[2] for child in children}
    (killed,) = (int(child) for child, name in names.items() if name == f"shard {number}")
    os.kill(killed, signal.SIGKILL)


def test_a_shard_that_is_killed_while_spark_writes_and_reads_loses_and_repeats_nothing(
    drivers: Drivers, hub_process: HubProcess
) -> None:
    count = test_faults_writing.COUNT
    numbers = iter(range(4))

    def kill(_: Passing) -> bool:
        kill_shard(hub_process, next(numbers))
        return True

    with Gate(hub_process.url) as gate:
        patterns = (test_faults_writing.STAGE_OF_FAULTY, test_faults_writing.COMMIT)
        rules = [gate.when(pattern, before=kill) for pattern in patterns]
        drivers().ask("write", options=test_faults_writing.options(gate.url), count=count, parts=4)
        kill_shard(hub_process, next(numbers))
        assert test_faults_writing.arrived(hub_process) == test_faults_writing.expected(count)
        rules.append(gate.when(test_faults_reading.SNAPSHOT, before=kill, passes=1))
        rows = drivers().ask("batch_rows", options={"url": gate.url})
        assert len(rows) == len({(row[0], row[1]) for row in rows}) == count
        assert all(rule.acted() for rule in rules)


@pytest.mark.long
def test_a_night_of_the_tour_goes_over_several_processes(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    size = ("--readings", "400", "--recipients", "10")
    result = run("tour", "--once", "--spark", *SEVERAL, *size, "--json", "--data", str(data))
    assert result.exit_code == 0, result.output
    night = json.loads(result.stdout)
    assert night["wrong"] == []
    assert (night["batch"]["state"], night["batch"]["collected"]) == ("complete", night["messages"])
    assert night["report"][0]["waiting"] == 0
    assert spark.read.format("delta").load(str(data / "tables" / "messages")).count() == night["messages"]
