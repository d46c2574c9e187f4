"""The summary of a sample night, for people and for programs."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from restante.cli.jobs.jobs_output import print_table
from restante.cli.serving.tour_plot import print_plot, save_plot
from restante.cli.shared.hub_options import DEFAULT_URL
from restante.cli.shared.output import print_json, table_of
from restante.model.batches.batch_answers import BatchStatus
from restante.model.figures import counted, seconds, size
from restante.samples.night_steps import NightResult, SettledNight

_SUBJECT_WIDTH = 25
_FAULTS_SHOWN_MAX = 20
_PICTURE = "night.png"
_REPORTED = {
    "recipient": "recipient",
    "published": "published",
    "collected": "collected",
    "waiting": "waiting",
    "collect_seconds_p50": "p50 s",
    "collect_seconds_p95": "p95 s",
}
"""The columns of the report that fit a narrow terminal, and what they are called there."""


class StoredOnDisk(NamedTuple):
    """The bytes on the disk, and their folder if it stays there."""

    bytes: int
    folder: Path | None

    @classmethod
    def in_folder(cls, folder: Path, *, kept: bool) -> StoredOnDisk:
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return cls(size, folder if kept else None)


def print_as_json(night: NightResult, url: str, stored: StoredOnDisk) -> None:
    print_json(
        msgspec.to_builtins(night)
        | {
            "steps": [msgspec.to_builtins(step) | {"messages_per_second": round(step.rate)} for step in night.steps],
            "stored_bytes": stored.bytes,
            "data": None if stored.folder is None else str(stored.folder),
            "hub": url,
            "arrived": "exactly once and in order" if not night.wrong else "not as it should",
        }
    )


def print_night(console: Console, night: NightResult, stored: StoredOnDisk) -> None:
    console.print(f"\n{_title(night)}\n", style="bold")
    console.print(_table(night))
    console.print(_pairs((step.step, step.detail) for step in night.steps))
    if night.late:
        print_late(console, night)
    if isinstance(night, SettledNight):
        print_report(console, night, stored.folder)
    console.print()
    console.print(_pairs(_lines(night, stored)))
    console.print()
    console.print(_verdict(night))


def print_late(console: Console, night: NightResult) -> None:
    """The recipients that the others waited for."""
    waiting = sum(late.waiting for late in night.late)
    title = f"Who is late, and why? {waiting:,} of {counted(night.messages, 'message')} wait"
    console.print(f"\n{title}\n", style="bold")
    rows = [(late.recipient, f"{late.waiting:,}", late.why) for late in night.late]
    console.print(table_of(("recipient", "waiting", "why"), rows, right=("waiting",), whole=("recipient",)))


def print_report(console: Console, night: SettledNight, folder: Path | None) -> None:
    """Print what the tables say: the slowest rows of the report, and a plot of two panels."""
    shown = [{heading: row[name] for name, heading in _REPORTED.items()} for row in night.report]
    if shown:
        print_table(
            pa.Table.from_pylist(shown), "Collection report: who took longest, in seconds from delivered to collected"
        )
    print_plot(console, night.settlement, night.collected)
    if folder is not None and night.collected and save_plot(folder / _PICTURE, night.settlement, night.collected):
        console.print()
        console.print(_pairs([("plot as a picture", str(folder / _PICTURE))]))


def _title(night: NightResult) -> str:
    what = f"{counted(night.messages, 'message')} for {counted(night.recipients, 'recipient')}"
    if isinstance(night, SettledNight):
        return f"A night computed by Spark: {counted(night.readings, 'meter reading')}, {what}"
    return f"A sample night: {what}"


def _lines(night: NightResult, stored: StoredOnDisk) -> Iterator[tuple[str, str]]:
    if night.batch is not None:
        yield "batch", _batch_text(night, night.batch)
    if night.explained:
        yield "explain", night.explained
    where = "a temporary folder" if stored.folder is None else str(stored.folder)
    tables = (
        f"; the tables are in {stored.folder / 'tables'}" if stored.folder and isinstance(night, SettledNight) else ""
    )
    yield "stored", f"{size(stored.bytes)} in {where}{tables}"


def print_addresses(console: Console, url: str, folder: Path, *, has_console: bool) -> None:
    """Where to look around, and what to try next; the console comes last."""
    command = called(Path(sys.argv[0]))
    hub = "" if url == DEFAULT_URL else f" --hub {url}"
    console.print()
    for subject, text in (
        ("hub", url),
        ("API pages", f"{url}/docs"),
        ("metrics", f"{url}/metrics"),
        ("send", f"{command} send{hub} --recipient alice --text hello"),
        ("collect", f"{command} collect{hub} alice"),
        ("batches", f"{command} batches list{hub}"),
        ("check, once it is down", f"{command} doctor {shlex.quote(str(folder))}"),
        *((("console, in a browser", f"{url}/console"),) if has_console else ()),
    ):
        console.print(_line(subject, text), soft_wrap=True)
    console.print("\nThe hub stays up. Ctrl-C ends it.")


def print_spark_offer(console: Console) -> None:
    """Print what to try next."""
    there = find_spec("pyspark") is not None and find_spec("delta") is not None
    installed = "" if there else "pip install 'restante[spark]', then "
    console.print(
        f"Next, a night that Spark computes: {installed}{called(Path(sys.argv[0]))} tour --spark", soft_wrap=True
    )


def called(program: Path) -> str:
    """This program, as the shell that started it finds it again: by its name alone, or by its path."""
    if program.name == "__main__.py":
        return shlex.join([_short(Path(sys.executable)), "-m", "restante"])
    if str(program) == program.name or shutil.which(program.name) == str(program.absolute()):
        return program.name
    return shlex.quote(_short(program))


def _short(path: Path) -> str:
    """Relative to the current folder, if the path is below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _pairs(lines: Iterable[tuple[str, str]]) -> Table:
    """Subjects and what there is to say about them; a text that is too long goes on below itself, at a word."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=_SUBJECT_WIDTH - 1, style="cyan")
    grid.add_column(overflow="fold")
    for subject, text in lines:
        grid.add_row(Text(subject), Text(text))
    return grid


def _line(subject: str, text: str) -> Text:
    return Text.assemble((f"{subject:<{_SUBJECT_WIDTH}}", "cyan"), text)


def _batch_text(night: NightResult, batch: BatchStatus) -> str:
    """When everyone was done, as the hub counts it, and which recipient was last."""
    if batch.completed_at is None or batch.sealed_at is None:
        return f"{batch.state.value}, {batch.pending:,} of {counted(batch.items, 'message')} pending"
    took = seconds((batch.completed_at - batch.sealed_at).total_seconds())
    whose = counted(min(night.recipients, night.messages), "recipient")
    done = f"{counted(batch.collected, 'message')} collected by {whose}"
    return f"complete {took} after it was sealed: {done}; {night.last} was last"


def _verdict(night: NightResult) -> Text:
    if night.wrong:
        faults = "\n".join(night.wrong[:_FAULTS_SHOWN_MAX])
        return Text.assemble(("Not as it should be:", "bold red"), f"\n{faults}")
    total = sum(step.seconds for step in night.steps)
    return Text.assemble(("Every message arrived exactly once and in order", "bold green"), f", in {seconds(total)}.")


def _table(night: NightResult) -> Table:
    rows = [
        (step.step, f"{step.messages:,}", seconds(step.seconds), f"{step.rate:,.0f} a second") for step in night.steps
    ]
    what = "rows" if isinstance(night, SettledNight) else "messages"
    return table_of(("step", what, "time", "rate"), rows, right=(what, "time", "rate"))
