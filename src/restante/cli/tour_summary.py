"""What a sample night was like, for people and for programs."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from restante.cli.sample_night import Night
from restante.cli.showing import counted, duration, print_json, size, table_of
from restante.model.batch_answers import BatchStatus

_SUBJECT_WIDTH = 25
_FAULTS_SHOWN_MAX = 20


def print_as_json(night: Night, url: str, stored_bytes: int, data: Path | None) -> None:
    print_json(
        msgspec.to_builtins(night)
        | {
            "steps": [msgspec.to_builtins(step) | {"messages_per_second": round(step.rate)} for step in night.steps],
            "stored_bytes": stored_bytes,
            "data": None if data is None else str(data),
            "hub": url,
            "arrived": "exactly once and in order" if not night.wrong else "not as it should",
        }
    )


def print_night(console: Console, night: Night, stored_bytes: int, data: Path | None) -> None:
    title = f"A sample night: {counted(night.messages, 'message')} for {counted(night.recipients, 'recipient')}"
    console.print(f"\n{title}\n", style="bold")
    console.print(_table(night))
    for step in night.steps:
        console.print(_line(step.step, step.detail), soft_wrap=True)
    if night.batch is not None:
        console.print(_line("batch", _batch_text(night, night.batch)), soft_wrap=True)
    console.print(_line("explain", night.explained), soft_wrap=True)
    kept = "a temporary folder" if data is None else str(data)
    console.print(_line("stored", f"{size(stored_bytes)} in {kept}"), soft_wrap=True)
    console.print()
    console.print(_verdict(night), soft_wrap=True)


def print_addresses(console: Console, url: str, folder: Path) -> None:
    """Where to look around."""
    command = called(Path(sys.argv[0]))
    console.print()
    for subject, text in (
        ("hub", url),
        ("API pages", f"{url}/docs"),
        ("metrics", f"{url}/metrics"),
        ("send", f"{command} send --hub {url} --recipient alice --text hello"),
        ("collect", f"{command} collect --hub {url} alice"),
        ("batches", f"{command} batches list --hub {url}"),
        ("when it has ended", f"{command} doctor {shlex.quote(str(folder))}"),
    ):
        console.print(_line(subject, text), soft_wrap=True)
    console.print("\nThe hub stays up. Ctrl-C ends it.")


def called(program: Path) -> str:
    """This program, as the shell that started it finds it again: by its name alone, or by its path."""
    if program.name == "__main__.py":
        return shlex.join([_short(Path(sys.executable)), "-m", "restante"])
    if str(program) == program.name or shutil.which(program.name) == str(program.absolute()):
        return program.name
    return shlex.quote(_short(program))


def _short(path: Path) -> str:
    """From here, if it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _line(subject: str, text: str) -> Text:
    return Text.assemble((f"{subject:<{_SUBJECT_WIDTH}}", "cyan"), text)


def _batch_text(night: Night, batch: BatchStatus) -> str:
    """When everyone was done, by the hub's own account, and who was last."""
    if batch.completed_at is None or batch.sealed_at is None:
        return f"{batch.state.value}, {batch.pending:,} of {counted(batch.items, 'message')} pending"
    took = duration((batch.completed_at - batch.sealed_at).total_seconds())
    whose = counted(min(night.recipients, night.messages), "recipient")
    return f"complete {took} after it was sealed: {counted(batch.collected, 'message')} collected by {whose}; {night.last} was last"


def _verdict(night: Night) -> Text:
    if night.wrong:
        faults = "\n".join(night.wrong[:_FAULTS_SHOWN_MAX])
        return Text.assemble(("Not as it should be:", "bold red"), f"\n{faults}")
    total = sum(step.seconds for step in night.steps)
    return Text.assemble(("Every message arrived exactly once and in order", "bold green"), f", in {duration(total)}.")


def _table(night: Night) -> Table:
    rows = [
        (step.step, f"{step.messages:,}", duration(step.seconds), f"{step.rate:,.0f} a second") for step in night.steps
    ]
    return table_of(("step", "messages", "time", "rate"), rows, right=("messages", "time", "rate"))
