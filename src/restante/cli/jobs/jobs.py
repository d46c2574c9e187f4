"""`restante jobs`: the data pipeline on Spark, job by job or on a schedule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from restante.cli.jobs.jobs_run import JobName, run
from restante.cli.jobs.jobs_runs import forget, runs
from restante.cli.jobs.jobs_serve import serve
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import listing, print_answer, print_json
from restante.cli.shared.plain import say

app = command_group("jobs")


@app.callback()
def jobs() -> None:
    """Run the jobs of the data pipeline on Spark: tables from the change feed, reports, files, a sample night.

    They need the extra: pip install 'restante[spark]'. It brings Spark, Delta and a Java.

    \b
    restante jobs list
    restante jobs show analytical-store
    restante jobs run analytical-store --tables ./tables
    restante jobs serve jobs.toml        jobs on their schedules
    restante jobs runs                   their last runs, as reported to the hub
    """


def list_(as_json: AsJson = False) -> None:
    """List the jobs.

    \b
    restante jobs list
    restante jobs list --json
    """
    from restante.cli.jobs.jobs_spark import require_spark

    require_spark()
    from restante.spark.running import registry

    found = registry.all_jobs()
    rows = [(job.name, job.summary) for job in found]
    answer = [{"name": name, "summary": summary} for name, summary in rows]
    print_answer(answer, partial(listing, ("job", "what it does"), rows, whole=["job"]), as_json=as_json)


def show(name: JobName, as_json: AsJson = False) -> None:
    """Show what a job does, and its options with their types and defaults.

    \b
    restante jobs show analytical-store
    """
    from restante.cli.jobs.jobs_spark import require_spark

    require_spark()
    from restante.spark.running import registry

    job = registry.job(name)
    options = job.options()
    if as_json:
        print_json({"name": job.name, "summary": job.summary, "options": options})
        return
    say(f"{job.name}: {job.summary}")
    if options:
        rows = [(one.name, one.type, _shown(one.default), one.description) for one in options]
        listing(("option", "what it is", "default", "about"), rows, whole=["option"])
        say(f"Set them with --set: restante jobs run {job.name} --set {options[0].name}=…")


def _shown(default: object) -> str:
    import msgspec

    if default is None or default == "":
        return "–"
    return default if isinstance(default, str) else msgspec.json.encode(default, enc_hook=str).decode()


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "show": show,
    "run": run,
    "serve": serve,
    "runs": runs,
    "forget": forget,
}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
