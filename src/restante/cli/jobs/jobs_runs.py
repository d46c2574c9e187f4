"""`restante jobs runs` and `restante jobs forget`: the runs that jobs have reported to a hub. They need no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.jobs import DeleteJob, ListJobs, ListRuns, ReadJob, ReadRun
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, DryRun, Limit, Yes, carried_out
from restante.cli.shared.output import listed, listing, print_answer, print_list
from restante.cli.shared.plain import say
from restante.model.figures import clock_time, counted, duration

if TYPE_CHECKING:
    from restante.client.transport.link import Link
    from restante.model.jobs.job_answers import JobRun, JobStatus

ReportedJob = Annotated[str, typer.Argument(metavar="NAME", help="The name of a job.", show_default=False)]


@at_hub
def runs(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only the runs of this job.", show_default=False)
    ] = None,
    run: Annotated[
        int | None, typer.Option(min=0, metavar="NUMBER", help="Only this run, with its figures and its table.")
    ] = None,
    limit: Limit = 20,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Show the runs of jobs that were reported to the hub: how each ended, how long it took, and when the job runs next.

    `restante jobs run` and `restante jobs serve` report to the hub that they ask. Other programs may, too.

    \b
    restante jobs runs
    restante jobs runs nightly-run
    restante jobs runs nightly-run --run 1896091200000000 --json
    """
    if run is not None and name is None:
        raise typer.BadParameter("Name the job of the run.", param_hint="NAME")
    with closing(door.link()) as link:
        if name is None:
            _show_jobs(link, limit, as_json=as_json)
        elif run is None:
            _show_runs(link, name, limit, as_json=as_json)
        else:
            one = link.call(ReadRun(name, run))
            print_answer(one, partial(_print_run, name, one), as_json=as_json)


def _show_jobs(link: Link, limit: int, *, as_json: bool) -> None:
    found = listed(link, ListJobs(), lambda page: page.jobs, limit)
    print_list({"jobs": found}, found, _print_jobs, limit, as_json=as_json)


def _show_runs(link: Link, name: str, limit: int, *, as_json: bool) -> None:
    found = listed(link, ListRuns(job=name), lambda page: page.runs, limit)
    print_list({"job": name, "runs": found}, found, _print_runs, limit, as_json=as_json)


@at_hub
def forget(
    name: ReportedJob,
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Forget a job that is gone, with its runs. If it runs once more, it is there again.

    \b
    restante jobs forget old-report --dry-run
    restante jobs forget old-report --yes
    """
    with closing(door.link()) as link:
        found = link.call(ReadJob(name))
        what = f"{name} and its {counted(found.runs, 'run')}"
        forget = partial(link.call, DeleteJob(name))
        told = carried_out("Forget", "Forgot", what, forget, dry_run=dry_run, yes=yes)
    print_answer({"job": name, "runs": found.runs, "dry_run": dry_run, "forgotten": not dry_run}, told, as_json=as_json)


def _print_jobs(found: Sequence[JobStatus]) -> None:
    rows = [
        (
            one.job,
            "–" if one.last is None else one.last.state.value,
            "–" if one.last is None else clock_time(one.last.began_at),
            _took(one.last),
            one.schedule or "–",
            "–" if one.next_at is None else clock_time(one.next_at),
        )
        for one in found
    ]
    heads = ("job", "state", "last run", "took", "schedule", "next turn")
    listing(heads, rows, right=("took",), whole=("job",), nothing="No job has reported a run to this hub.")


def _print_runs(found: Sequence[JobRun]) -> None:
    rows = [
        (str(one.run), one.state.value, clock_time(one.began_at), _took(one), one.text or _figures(one))
        for one in found
    ]
    heads = ("run", "state", "began", "took", "what")
    listing(heads, rows, right=("took",), whole=("run",), nothing="No run is kept.")


def _print_run(name: str, one: JobRun) -> None:
    say(f"{name} {one.state.value}, began {clock_time(one.began_at)}, took {_took(one)}")
    if one.text:
        say(one.text)
    for figure, value in one.figures.items():
        say(f"{figure.replace('_', ' '):<24} {_shown(value)}")
    if one.table is not None:
        rows = [tuple(map(_shown, row)) for row in one.table.rows]
        listing(tuple(column.replace("_", " ") for column in one.table.columns), rows, nothing="The table is empty.")
        more = (one.table_rows or 0) - len(rows)
        if more > 0:
            say(f"and {counted(more, 'row')} more")


def _took(one: JobRun | None) -> str:
    if one is None or one.ended_at is None:
        return "–"
    return duration((one.ended_at - one.began_at).total_seconds())


def _figures(one: JobRun) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in one.figures.items())


def _shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
    return str(value)
