"""Jobs: their last runs, how long each took, when the next turn is, and their reports with plots."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from restante.console.pages.frame import page, pager
from restante.console.view.figures import counted, duration, relative, short, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.plots import column_plot
from restante.console.view.run_tables import is_number, report, shown, worded
from restante.console.view.tables import badge, facts, note, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import ConsoleVisitor, Visit
from restante.limits import JOB_SILENT_SECONDS
from restante.model.jobs.job_answers import JobPage, JobRun, JobRunPage, JobRunState, JobStatus

_RUNS = 50
_FIGURES_PLOTTED = 6
_FIGURES_LISTED = 4


def may_see(visitor: ConsoleVisitor) -> bool:
    return visitor.runs_jobs


async def jobs(visit: Visit) -> ConsoleReply:
    found = await visit.hub.get(JobPage, "jobs", limit=visit.rows, after=visit.asked("after"))
    rows = [_row(one) for one in found.jobs]
    heads = ("Job", "State", "Last run", "#Took", "Schedule", "Next turn", "What came of it")
    empty = "No job has reported a run to this hub. Those of restante jobs run and restante jobs serve do."
    listed = tag("div", table(heads, rows, empty=empty, caption="Jobs"), class_="panel")
    return page(
        visit, "Jobs", visit.moving("list", listed), pager(visit, found.next, first=visit.asked("after") is None)
    )


def _row(one: JobStatus) -> tuple[Child, ...]:
    return (
        link(one.job, "jobs", one.job),
        state_of(one),
        relative(None if one.last is None else one.last.began_at, missing="not yet"),
        _took(one.last),
        one.schedule or tag("span", "by hand", class_="none"),
        _next_turn(one),
        "" if one.last is None else _outcome(one.last),
    )


def state_of(one: JobStatus) -> Markup:
    if one.last is None:
        return badge("waiting")
    return badge("silent") if is_silent(one.last) else badge(one.last.state.value)


def is_silent(run: JobRun) -> bool:
    """Whether a run was not heard of for long: its process may have ended without a word."""
    heard = (datetime.now(UTC) - run.reported_at).total_seconds()
    return run.state is JobRunState.RUNNING and heard > JOB_SILENT_SECONDS


def _took(run: JobRun | None) -> Child:
    if run is None:
        return ""
    if run.ended_at is None:
        return tag("span", "–", class_="none")
    return duration(seconds_of(run))


def seconds_of(run: JobRun) -> float:
    return ((run.ended_at or datetime.now(UTC)) - run.began_at).total_seconds()


def _next_turn(one: JobStatus) -> Child:
    if one.next_at is not None:
        return relative(one.next_at)
    running = one.last is not None and one.last.state is JobRunState.RUNNING
    return tag("span", "after this run" if running and one.schedule else "–", class_="none")


def _outcome(run: JobRun) -> Child:
    if run.text:
        return tag("span", run.text[:160], class_="red" if run.state is JobRunState.FAILED else None)
    figures = list(run.figures.items())[:_FIGURES_LISTED]
    return ", ".join(f"{worded(name)} {shown(value)}" for name, value in figures)


def failing(found: Iterable[JobStatus]) -> Iterator[tuple[JobStatus, str]]:
    """The jobs whose last run failed, or that are silent, and what the page says of each."""
    for one in found:
        if one.last is None:
            continue
        if one.last.state is JobRunState.FAILED:
            yield one, f"failed: {one.last.text or 'no reason was given'}"
        elif is_silent(one.last):
            yield one, "runs, and nothing was heard of it for long: its process may have ended"


# One job


async def job(visit: Visit) -> ConsoleReply:
    name, after = visit.place["job"], visit.number("after")
    status, runs = await asyncio.gather(
        visit.hub.get(JobStatus, "jobs", name),
        visit.hub.get(JobRunPage, "jobs", name, "runs", limit=_RUNS, after=after),
    )
    last = await _last_table(visit, name, runs.runs)
    return page(
        visit,
        name,
        visit.moving("now", _silence(status), section("How it is", facts(_facts(status)))),
        visit.moving("plots", _durations(runs.runs), _figure_plots(runs.runs)),
        visit.moving("runs", _runs(name, runs.runs)),
        pager(visit, runs.next, first=after is None),
        visit.moving("report", None if last is None else report(last)),
        above=_forget(visit, status),
    )


async def _last_table(visit: Visit, name: str, runs: Sequence[JobRun]) -> JobRun | None:
    """The newest run that has a table, with it."""
    newest = next((run for run in runs if run.table_rows is not None), None)
    return None if newest is None else await visit.hub.maybe(JobRun, "jobs", name, "runs", str(newest.run))


def _silence(status: JobStatus) -> Markup | None:
    if status.last is None or not is_silent(status.last):
        return None
    said = "A running job reports twice a minute. The last report came ", relative(status.last.reported_at), "."
    return note("warn", *said, " Look whether its process still runs.", title="Nothing is heard of this run")


def _facts(status: JobStatus) -> list[tuple[str, Child]]:
    last = status.last
    return [
        ("State", state_of(status)),
        ("Last run", relative(None if last is None else last.began_at, missing="not yet")),
        ("Took", _took(last) or "–"),
        ("Schedule", status.schedule or "by hand"),
        ("Next turn", _next_turn(status)),
        ("Last heard of", relative(status.reported_at)),
        ("Runs that are kept", whole(status.runs)),
    ]


def _forget(visit: Visit, status: JobStatus) -> Child:
    if not visit.visitor.operates:
        return None
    return tag("a", "Forget…", href=at("do", "forget-job", job=status.job), class_="button danger")


def _durations(runs: Sequence[JobRun]) -> Markup | None:
    if not runs:
        return None
    ordered = list(reversed(runs))
    values = [(f"{run.began_at:%Y-%m-%d %H:%M:%S} UTC, {run.state.value}", seconds_of(run)) for run in ordered]
    tones = ["red" if run.state is JobRunState.FAILED else "" for run in ordered]
    failed = sum(run.state is JobRunState.FAILED for run in runs)
    label = f"How long the last {counted(len(runs), 'run')} took, {failed} of them failed; the newest at the right"
    return section("How long each run took", column_plot(values, label=label, tones=tones, shown=duration))


def _figure_plots(runs: Sequence[JobRun]) -> Markup | None:
    """A small plot for each figure that several runs have."""
    ended = [run for run in reversed(runs) if run.state is JobRunState.DONE]
    names = list(dict.fromkeys(name for run in ended for name in run.figures))
    plots = [plot for name in names if (plot := _figure_plot(name, ended)) is not None][:_FIGURES_PLOTTED]
    return tag("div", plots, class_="pair") if plots else None


def _figure_plot(name: str, ended: Sequence[JobRun]) -> Markup | None:
    found = [
        (f"{run.began_at:%Y-%m-%d %H:%M:%S} UTC", float(value))
        for run in ended
        if is_number(value := run.figures.get(name)) and isinstance(value, int | float)
    ]
    if len(found) < 2:
        return None
    label = f"{worded(name)} of the last {counted(len(found), 'run')}, the newest at the right"
    return section(worded(name).capitalize(), column_plot(found, label=label), aside=tag("b", short(found[-1][1])))


def _runs(name: str, runs: Sequence[JobRun]) -> Markup:
    rows = [
        (
            badge("silent") if is_silent(run) else badge(run.state.value),
            link(f"{run.began_at:%Y-%m-%d %H:%M:%S}", "jobs", name, "runs", str(run.run)),
            relative(run.began_at),
            _took(run),
            "" if run.table_rows is None else whole(run.table_rows),
            _outcome(run),
        )
        for run in runs
    ]
    heads = ("State", "Run", "Began", "#Took", "#Rows", "What came of it")
    return section("Runs, the newest first", table(heads, rows, empty="It has not run yet.", caption="Runs"))


# One run


async def run(visit: Visit) -> ConsoleReply:
    name = visit.place["job"]
    found = await visit.hub.get(JobRun, "jobs", name, "runs", visit.place["run"])
    return page(
        visit,
        f"Run of {name}",
        visit.moving("run", section("How it went", facts(_run_facts(name, found))), _said(found)),
        visit.moving("report", report(found)),
    )


def _run_facts(name: str, found: JobRun) -> list[tuple[str, Child]]:
    pairs: list[tuple[str, Child]] = [
        ("Job", link(name, "jobs", name)),
        ("State", badge("silent") if is_silent(found) else badge(found.state.value)),
        ("Began", relative(found.began_at)),
        ("Ended", relative(found.ended_at, missing="not yet")),
        ("Took", _took(found)),
        ("Last heard of", relative(found.reported_at)),
    ]
    return [*pairs, *((worded(key).capitalize(), shown(value)) for key, value in found.figures.items())]


def _said(found: JobRun) -> Markup | None:
    if not found.text:
        return None
    failed = found.state is JobRunState.FAILED
    return note("bad" if failed else "plain", found.text, title="What went wrong" if failed else None)


ROUTES = (
    ConsoleRoute("GET", "jobs", jobs, may_see),
    ConsoleRoute("GET", "jobs/{job}", job, may_see),
    ConsoleRoute("GET", "jobs/{job}/runs/{run}", run, may_see),
)
