"""`restante jobs runs` and `forget`: what a hub was told of jobs, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from restante import JobReport, JobRunState, RunTable
from tests.cli.places import Place

BEGAN = datetime(2030, 1, 31, 2, 0, tzinfo=UTC)


@pytest.fixture
def filled(place: Place) -> Place:
    """A hub with a job that is done, and one that failed."""
    table = RunTable(columns=("recipient", "published_at"), rows=(("ada", 3), ("bob", 4)), rows_in_all=9)
    over = BEGAN + timedelta(seconds=42)
    with place.opened() as hub:
        done = JobReport(run=7, state=JobRunState.DONE, began_at=BEGAN, ended_at=over, figures={"rows": 9}, table=table)
        hub.jobs.report("night", done, schedule="at 02:00 UTC", next_at=BEGAN + timedelta(days=1))
        failed = JobReport(run=8, state=JobRunState.FAILED, began_at=BEGAN, ended_at=over, text="unavailable: no disk")
        hub.jobs.report("copy", failed)
    return place


def test_jobs_their_runs_and_a_run_are_shown(filled: Place) -> None:
    assert [one["job"] for one in filled.answer("jobs runs")["jobs"]] == ["copy", "night"]
    shown = filled.run("jobs runs").stdout
    assert "42.00 s" in shown
    assert "2030-02-01" in shown
    assert "unavailable: no disk" in filled.run("jobs runs", "copy").stdout
    assert filled.answer("jobs runs", "night")["runs"][0]["run"] == 7
    run = filled.run("jobs runs", "night", "--run", "7").stdout
    assert "published at" in run
    assert "and 7 rows more" in run
    assert filled.answer("jobs runs", "night", "--run", "7")["table"]["rows"] == [["ada", 3], ["bob", 4]]


def test_what_is_not_there_is_said(filled: Place) -> None:
    assert filled.run("jobs runs", "nothing").exit_code == 1
    assert filled.run("jobs runs", "--run", "7").exit_code == 2


def test_a_job_is_forgotten(filled: Place) -> None:
    assert "Would forget copy and its 1 run" in filled.run("jobs forget", "copy", "--dry-run").stdout
    assert filled.answer("jobs forget", "copy", "--yes")["forgotten"]
    assert [one["job"] for one in filled.answer("jobs runs")["jobs"]] == ["night"]


def test_a_hub_without_jobs_says_so(place: Place) -> None:
    with place.opened() as hub:
        hub.send(recipient="ada", data=1)
    assert "No job has reported" in place.run("jobs runs").stdout
