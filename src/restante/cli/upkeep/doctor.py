"""`restante doctor`: is everything in a data folder as it was stored?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.options import StoreUrl
from restante.cli.shared.output import progress_bar
from restante.cli.shared.plain import say
from restante.model.columns.plain_text import plain
from restante.model.figures import counted, size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from restante.hub.doctor.doctor import Report

_STYLES = {"problem": "red", "note": "yellow"}


def doctor(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]", exists=True, file_okay=False, help="The data folder to examine.", show_default=False
        ),
    ] = None,
    store: StoreUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check every checksum and invariant of a data folder or a database, and say what is wrong.

    The doctor changes nothing. No hub may have the folder open meanwhile: the doctor locks it. A database may be in use: the
    doctor looks at one moment of it. In a folder of several shards
    the doctor examines all of them, and whether they agree.

    \b
    restante doctor ./data           a table of findings, and a verdict
    restante doctor ./data --json    the same for programs
    restante doctor ./data && echo "fit for use"
    restante doctor --store postgresql://mail@db.example.org/mail
    """
    from rich.console import Console

    started = time.monotonic()
    place = _place(folder, store)
    report = examined(place)
    seconds = time.monotonic() - started
    if as_json:
        say(_json(place, report, seconds), lines=True)
    else:
        print_report(Console(highlight=False), place, report, seconds)
    raise typer.Exit(0 if report.sound else 1)


def _place(folder: Path | None, store: str | None) -> Path | str:
    if folder is not None:
        return folder
    if store is None:
        raise typer.BadParameter("Name the data folder, or a database with --store.", param_hint="FOLDER")
    return store


def examined(place: Path | str) -> Report:
    from restante.cli.shared.hub_options import settings_here
    from restante.cluster.joined_shards import open_look, partitions_of
    from restante.hub.doctor.doctor import examine

    store, owned = open_look(place, settings_here()), partitions_of(place)
    try:
        with progress_bar() as bar:
            task = bar.add_task(f"examining {place}", total=None, note="")
            return examine(
                store, owned=owned, progress=lambda done, total: bar.update(task, completed=done, total=total)
            )
    finally:
        store.close()


def _json(folder: Path | str, report: Report, seconds: float) -> str:
    import msgspec

    answer = {
        "folder": str(folder),
        "verdict": "sound" if report.sound else "problems",
        "problems": report.problems,
        "notes": report.notes,
        "checked": report.checked,
        "seconds": round(seconds, 3),
        "findings": report.findings,
    }
    return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()


def print_report(console: Console, folder: Path | str, report: Report, seconds: float | None = None) -> None:
    from rich.text import Text

    if report.findings:
        console.print(_table(report))
        left_out = report.problems + report.notes - len(report.findings)
        if left_out:
            console.print(f"and {left_out:,} more like these")
    checked = report.checked
    took = "" if seconds is None else f" in {seconds:.2f} s"
    console.print(
        f"Examined {counted(checked.messages, 'message')} in {counted(checked.blobs, 'blob')} ({size(checked.blob_bytes)}), "
        f"{counted(checked.runs, 'run')}, {counted(checked.heads, 'head')}, {counted(checked.bundles, 'bundle')}, "
        f"{counted(checked.batches, 'batch')}, {counted(checked.consignments, 'consignment')} and "
        f"{counted(checked.changes, 'change')} of {counted(checked.partitions, 'partition')}{took}.",
        soft_wrap=True,
    )
    verdict = Text("sound", "bold green") if report.sound else Text(counted(report.problems, "problem"), "bold red")
    notes = f", {counted(report.notes, 'note')}" if report.notes else ""
    console.print(Text.assemble(f"{plain(str(folder))}: ", verdict, notes), soft_wrap=True)


def _table(report: Report) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("partition", justify="right")
    table.add_column("what", ratio=1, overflow="fold")
    table.add_column("finding", ratio=3, overflow="fold")
    for finding in report.findings:
        severity = finding.severity.value
        where = "" if finding.partition is None else str(finding.partition)
        table.add_row(Text(severity, _STYLES[severity]), where, Text(plain(finding.what)), Text(plain(finding.detail)))
    return table
