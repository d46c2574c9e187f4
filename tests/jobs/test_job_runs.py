"""Runs of jobs, in memory, on SQLite and over HTTP: reported, repeated, late, too many, looked up and forgotten."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import restante
from restante import JobReport, JobRunState, RunTable, aio
from restante.client.surface.surface import Hub
from restante.errors import InvalidRequest, JobUnknown
from restante.hub.doctor.doctor import examine
from restante.limits import JOB_RUNS_KEPT, JOBS_KEPT_MAX
from restante.model.jobs.job import JobRow, encode_job, job_key, run_key
from restante.model.jobs.job_answers import RunFigure
from restante.model.storage.changes import Changes, Space
from restante.stores.sqlite import SqliteStore
from tests.jobs.conftest import SETTINGS

BEGAN = datetime(2030, 1, 31, 2, 0, tzinfo=UTC)
TABLE = RunTable(columns=("recipient", "published", "late"), rows=(("ada", 3, True), ("bob", None, False)), title="all")


def running(number: int = 1) -> JobReport:
    return JobReport(run=number, state=JobRunState.RUNNING, began_at=BEGAN)


def ended(number: int = 1, state: JobRunState = JobRunState.DONE, table: RunTable | None = None) -> JobReport:
    figures: dict[str, RunFigure] = {"messages": 51_200, "seconds": 0.5, "consignment": "k", "nothing": None}
    over = BEGAN + timedelta(seconds=42)
    return JobReport(run=number, state=state, began_at=BEGAN, ended_at=over, figures=figures, text="told", table=table)


def test_a_run_is_reported_when_it_begins_and_when_it_has_ended(hub: Hub) -> None:
    status = hub.jobs.report("night", running(), schedule="at 02:00 UTC")
    assert status.last is not None
    assert (status.job, status.schedule, status.next_at, status.runs) == ("night", "at 02:00 UTC", None, 1)
    assert (status.last.state, status.last.ended_at) == (JobRunState.RUNNING, None)
    due = BEGAN + timedelta(days=1)
    status = hub.jobs.report("night", ended(table=TABLE), next_at=due)
    assert (status.schedule, status.next_at, status.runs) == ("at 02:00 UTC", due, 1)
    assert status.last is not None
    assert (status.last.figures, status.last.text) == (ended().figures, "told")
    assert (status.last.table_rows, status.last.table) == (2, None)
    assert hub.jobs.get("night") == status
    assert hub.jobs.run("night", 1).table == TABLE
    assert [run.run for run in hub.jobs.runs("night")] == [1]


def test_a_report_that_comes_late_or_again_changes_nothing(hub: Hub) -> None:
    hub.jobs.report("late", ended(table=TABLE))
    for report in (running(), ended(table=TABLE)):
        hub.jobs.report("late", report)
        found = hub.jobs.run("late", 1)
        assert (found.state, found.table) == (JobRunState.DONE, TABLE)
    assert hub.jobs.get("late").runs == 1


def test_a_job_that_waits_for_its_turn_has_no_run(hub: Hub) -> None:
    status = hub.jobs.report("waits", schedule="every 2 minutes", next_at=BEGAN)
    assert (status.last, status.runs, status.next_at) == (None, 0, BEGAN)
    assert list(hub.jobs.runs("waits")) == []


def test_only_the_newest_runs_are_kept(hub: Hub) -> None:
    for number in range(JOB_RUNS_KEPT + 5):
        hub.jobs.report("often", ended(number, table=TABLE))
    kept = [run.run for run in hub.jobs.runs("often")]
    assert kept == list(range(JOB_RUNS_KEPT + 4, 4, -1))
    hub.jobs.report("often", ended(2))
    assert [run.run for run in hub.jobs.runs("often")] == kept
    with pytest.raises(JobUnknown):
        hub.jobs.run("often", 2)


def test_a_job_is_forgotten_with_its_runs(hub: Hub) -> None:
    hub.jobs.report("gone", ended(table=TABLE))
    hub.jobs.delete("gone")
    for ask in (hub.jobs.get, hub.jobs.delete, lambda name: list(hub.jobs.runs(name)), lambda n: hub.jobs.run(n, 1)):
        with pytest.raises(JobUnknown):
            ask("gone")
    assert "gone" not in {one.job for one in hub.jobs.list()}


def test_jobs_are_listed_by_name_page_by_page(hub: Hub) -> None:
    for name in ("list/c", "list/a", "list/b ü"):
        hub.jobs.report(name, ended())
    names = [one.job for one in hub.jobs.list()]
    assert [name for name in names if name.startswith("list/")] == ["list/a", "list/b ü", "list/c"]
    assert names == sorted(names)


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a\nb", "x" * 65, "\ud800"])
def test_a_name_that_is_none_is_refused(hub: Hub, name: str) -> None:
    with pytest.raises(InvalidRequest):
        hub.jobs.report(name, ended())


@pytest.mark.parametrize(
    "report",
    [
        JobReport(run=1, state=JobRunState.DONE, began_at=BEGAN),
        JobReport(run=1, state=JobRunState.RUNNING, began_at=BEGAN, ended_at=BEGAN),
        JobReport(run=1, state=JobRunState.DONE, began_at=BEGAN, ended_at=BEGAN - timedelta(1)),
        JobReport(run=-1, state=JobRunState.RUNNING, began_at=BEGAN),
        JobReport(run=2**60, state=JobRunState.RUNNING, began_at=BEGAN),
        JobReport(run=1, state=JobRunState.RUNNING, began_at=datetime(2030, 1, 1)),  # noqa: DTZ001 - what is refused
        msgspec.structs.replace(ended(), figures={f"f{number}": 1 for number in range(65)}),
        msgspec.structs.replace(ended(), figures={"large": 2**80}),
        msgspec.structs.replace(ended(), text="x" * 2_001),
        ended(table=RunTable(columns=("a", "b"), rows=((1,),))),
        ended(table=RunTable(columns=(), rows=())),
        ended(table=RunTable(columns=("a",), rows=((1,),) * 501)),
        ended(table=RunTable(columns=("a",), rows=(("x" * 70_000,),))),
    ],
)
def test_a_report_that_makes_no_sense_is_refused_and_leaves_nothing(hub: Hub, report: JobReport) -> None:
    with pytest.raises(InvalidRequest):
        hub.jobs.report("wrong", report)
    assert "wrong" not in {one.job for one in hub.jobs.list()}


def test_a_schedule_or_a_time_that_makes_no_sense_is_refused(hub: Hub) -> None:
    with pytest.raises(InvalidRequest):
        hub.jobs.report("wrong", schedule="x" * 65)
    with pytest.raises(InvalidRequest):
        hub.jobs.report("wrong", next_at=datetime(2030, 1, 1))  # noqa: DTZ001 - what is refused


def test_jobs_are_kept_by_a_hub_that_is_opened_again_and_found_sound(tmp_path: Path) -> None:
    with restante.open(tmp_path / "data", settings=SETTINGS) as hub:
        before = hub.jobs.report("night", ended(table=TABLE), schedule="always")
        hub.jobs.report("night", ended(2))
    with restante.open(tmp_path / "data", settings=SETTINGS) as hub:
        assert hub.jobs.run("night", 1) == msgspec.structs.replace(before.last, table=TABLE)  # type: ignore[type-var]
        assert [run.run for run in hub.jobs.runs("night")] == [2, 1]
    store = SqliteStore.open(tmp_path / "data")
    try:
        assert examine(store).sound
        store.commit(_damage(store.raise_fences(4)))
        found = examine(store)
    finally:
        store.close()
    assert {finding.what.split(" row ")[0] for finding in found.findings if finding.severity.value == "problem"} >= {
        "job",
        "run of a job",
        "table of a run",
    }


def _damage(fence: int) -> Changes:
    """A key that is none, runs that no job lists, and rows that cannot be read."""
    key = job_key("broken", b"")
    changes = Changes(fences={0: fence})
    changes.put(0, Space.JOB, b"no key", b"\xc1")
    changes.put(0, Space.JOB, key, encode_job(JobRow(1, runs=(1, 2))))
    changes.put(0, Space.JOB_RUN, run_key(key, 7), b"\xc1")
    changes.put(0, Space.JOB_TABLE, run_key(key, 9), b"\xc1")
    return changes


def test_there_is_an_end_to_how_many_jobs_are_kept() -> None:
    from restante.stores.memory import MemoryStore

    with restante.open(None, settings=SETTINGS, store=MemoryStore()) as hub:
        for number in range(JOBS_KEPT_MAX):
            hub.jobs.report(f"job {number}")
        with pytest.raises(InvalidRequest, match="Forget one"):
            hub.jobs.report("one more")
        hub.jobs.report("job 7", ended())
        assert len(list(hub.jobs.list())) == JOBS_KEPT_MAX


def test_asynchronous_programs_report_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "data", settings=SETTINGS) as hub:
            await hub.jobs.report("night", ended(table=TABLE))
            assert [one.job async for one in hub.jobs.list()] == ["night"]
            assert [one.run async for one in hub.jobs.runs("night")] == [1]
            assert (await hub.jobs.run("night", 1)).table == TABLE
            assert (await hub.jobs.get("night")).runs == 1
            await hub.jobs.delete("night")

    asyncio.run(run())
