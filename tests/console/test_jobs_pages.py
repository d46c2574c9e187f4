"""Jobs in the console: left out while there are none; last runs, durations, next turns, reports and their plots."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import restante
from restante import JobReport, JobRunState, RunTable
from restante.client.surface import Hub
from restante.console.view.figures import duration
from restante.console.view.run_tables import aligned, numeric_columns, shown
from restante.server.serve import ServedHub
from tests.console.conftest import Guarded
from tests.console.visiting import Browsing, served

NOW = datetime.now(UTC)
TABLE = RunTable(
    columns=("recipient", "published", "collect_seconds_p50", "late"),
    rows=(("ada", 3, 0.25, True), ("bob", 5, None, False)),
    rows_in_all=12_000,
    title="collection-report",
)


def ended(number: int, state: JobRunState = JobRunState.DONE, **more: object) -> JobReport:
    began = NOW - timedelta(minutes=10 - number)
    over = began + timedelta(seconds=2 + number)
    return JobReport(run=number, state=state, began_at=began, ended_at=over, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    """A hub to which jobs have reported."""
    with served(tmp_path_factory.mktemp("working")) as running:
        with restante.connect(running.url) as hub:
            _report(hub)
        yield running


def _report(hub: Hub) -> None:
    for number in range(5):
        figures = {"rows": 100 + number, "report": "collection-report"}
        hub.jobs.report("collection-report", ended(number, figures=figures, table=TABLE), schedule="every 2 minutes")
    hub.jobs.report("collection-report", schedule="every 2 minutes", next_at=NOW + timedelta(hours=5))
    hub.jobs.report("copy", ended(1, JobRunState.FAILED, text="unavailable: <b>no disk</b>"))
    hub.jobs.report("stream", JobReport(run=1, state=JobRunState.RUNNING, began_at=NOW), schedule="always")
    hub.jobs.report("<script>alert(1)</script>", ended(1, text="<img src=x onerror=alert(1)>"))
    hub.jobs.report("waits", schedule="at 02:00 UTC", next_at=NOW + timedelta(hours=3))


@pytest.fixture
def visitor(working: ServedHub) -> Browsing:
    return Browsing(working.url)


def test_a_hub_without_jobs_does_not_speak_of_them(hub: ServedHub, browser: Browsing) -> None:
    assert "/console/jobs" not in browser.get("").page.links
    assert "No job has reported a run" in browser.get("/jobs").page.text


def test_jobs_show_their_last_run_how_long_it_took_and_their_next_turn(visitor: Browsing) -> None:
    assert "/console/jobs" in visitor.get("").page.links
    text = visitor.get("/jobs").page.text
    for said in ("collection-report", "done", "6.0 s", "every 2 minutes", "in 5 h", "rows 104", "after this run"):
        assert said in text, said
    assert "unavailable: <b>no disk</b>" in text
    assert "waiting" in text


def test_a_job_shows_its_runs_and_its_report_with_plots(visitor: Browsing) -> None:
    page = visitor.get("/jobs/collection-report").page
    plots = [str(one["aria-label"]) for one in page.of("svg") if "columns" in str(one.get("class"))]
    assert any(label.startswith("How long the last 5 runs took, 0 of them failed") for label in plots)
    assert "rows of the last 5 runs, the newest at the right" in plots
    assert {"published of each row", "collect seconds p50 of each row"} <= set(plots)
    assert "2 of 12,000 rows" in page.text
    assert "Report collection-report" in page.text
    assert sum("/runs/" in link for link in page.links) == 5
    assert page.of("body")[0]["data-stream"] == "/console/stream?page=jobs%2Fcollection-report"


def test_the_numbers_of_a_column_have_as_many_places() -> None:
    assert aligned([0.4, 1, 12.25, None]) == ["0.40", "1.00", "12.25", "–"]
    assert aligned([1, 20_000, None]) == ["1", "20,000", "–"]
    assert aligned(["a", "b"]) == ["a", "b"]
    assert aligned([float("nan"), 0.5, 1e-9]) == ["nan", "0.5", "1e-09"]


def test_a_run_shows_how_it_went(visitor: Browsing) -> None:
    page = visitor.get("/jobs/collection-report/runs/3").page
    for said in ("5.0 s", "103", "ada", "0.25", "yes"):
        assert said in page.text, said
    failed = visitor.get("/jobs/copy/runs/1").page
    assert "What went wrong unavailable: <b>no disk</b>" in failed.text
    assert visitor.get("/jobs/copy/runs/99").status == 404
    assert visitor.get("/jobs/nothing").status == 404
    assert visitor.get("/jobs/copy/runs/x").status == 400


def test_a_job_that_failed_is_among_what_is_wrong(visitor: Browsing) -> None:
    text = visitor.get("").page.text
    assert text.index("Jobs that need a look") < text.index("Messages in")
    assert "failed: unavailable" in text


def test_a_run_that_is_silent_is_said_to_be(
    working: ServedHub, visitor: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "silent" not in visitor.get("/jobs/stream").page.text
    monkeypatch.setattr("restante.console.pages.jobs.JOB_SILENT_SECONDS", -1.0)
    assert "Nothing is heard of this run" in visitor.get("/jobs/stream").page.text
    assert "nothing was heard of it for long" in visitor.get("").page.text


def test_runs_are_paged(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("many-runs")) as running:
        with restante.connect(running.url) as hub:
            for number in range(60):
                hub.jobs.report("often", ended(number))
        browser = Browsing(running.url)
        first = browser.get("/jobs/often").page
        following = next(link for link in first.links if "after=" in link)
        assert sum("/runs/" in link for link in first.links) == 50
        assert sum("/runs/" in link for link in browser.get(following).page.links) == 10


def test_a_job_is_forgotten_when_its_name_was_typed(visitor: Browsing, working: ServedHub) -> None:
    name = "<script>alert(1)</script>"
    assert "1 run" in visitor.get(f"/do/forget-job?job={name}").page.text
    assert visitor.confirm("forget-job", {"job": name}, "wrong").status == 422
    done = visitor.confirm("forget-job", {"job": name}, name)
    assert (done.status, done.headers["location"]) == (303, "/console/jobs?done=forget-job")
    with restante.connect(working.url) as hub:
        assert name not in {one.job for one in hub.jobs.list()}


def test_who_may_see_jobs_and_who_may_forget_them(guarded: Guarded) -> None:
    with restante.connect(guarded.running.url, token=guarded.secrets["publisher"]) as hub:
        hub.jobs.report("export", ended(1))
    assert "/console/jobs/export" in guarded.browser("reader").get("/jobs").page.links
    assert "/console/jobs" not in guarded.browser("recipient").get("").page.links
    assert guarded.browser("recipient").get("/jobs").status == 403
    assert not any("/do/" in link for link in guarded.browser("reader").get("/jobs/export").page.links)
    assert guarded.browser("reader").get("/do/forget-job?job=export").status == 404
    assert any("/do/forget-job" in link for link in guarded.browser("operator").get("/jobs/export").page.links)


def test_columns_of_numbers_are_found_and_values_shown() -> None:
    assert numeric_columns(TABLE) == [1, 2]
    assert numeric_columns(RunTable(columns=("a",), rows=())) == []
    assert [shown(value) for value in (None, True, 12_345, 0.25, 12_345.6, "x")] == [
        "–",
        "yes",
        "12,345",
        "0.25",
        "12,346",
        "x",
    ]
    assert [duration(seconds) for seconds in (0.2, 4.25, 65, 4_000)] == ["200 ms", "4.2 s", "1 min 5 s", "1 h 6 min"]
