"""`restante tour`: the hub at work, shown on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from restante.cli.sample_night import Advance, Night

_MESSAGES_MAX = 100_000_000
_RECIPIENTS_MAX = 1_000_000
_SUBJECT_WIDTH = 25
_FAULTS_SHOWN_MAX = 20


def tour(
    messages: Annotated[int, typer.Option(min=1, max=_MESSAGES_MAX, help="How many messages.")] = 100_000,
    recipients: Annotated[int, typer.Option(min=1, max=_RECIPIENTS_MAX, help="For how many recipients.")] = 1_000,
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A new folder to store it in, and to keep.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Play a sample night in this process: messages are published, filed, collected and confirmed.

    Everything is durable, as in earnest; the times are those of this machine. Without --data it happens in a
    temporary folder that is removed at the end.

    \b
    restante tour                                         the sample night
    restante tour --messages 1000000 --recipients 50000   a busier one
    restante tour --data ./data                           keep the data, then look after it:
    restante doctor ./data
    """
    from rich.console import Console

    with _folder(data) as folder:
        night = _played(folder, messages, recipients)
        stored_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if as_json:
            print(_json(night, stored_bytes, data))
        else:
            _print(Console(highlight=False), night, stored_bytes, data)
    raise typer.Exit(1 if night.wrong else 0)


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    if data is None:
        with tempfile.TemporaryDirectory(prefix="restante-tour-") as folder:
            yield Path(folder)
        return
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise typer.BadParameter(f"{data} is not empty. Name a folder that is new.", param_hint="--data")
    yield data


def _played(folder: Path, messages: int, recipients: int) -> Night:
    from restante.assembly import open  # the public name
    from restante.cli.sample_night import Post, play
    from restante.cli.showing import progress_bar
    from restante.settings import Settings

    with progress_bar() as bar, open(folder, settings=Settings(filing=False)) as hub:

        @contextmanager
        def watch(name: str, total: int) -> Iterator[Advance]:
            task = bar.add_task(f"{name:<24}", total=total)
            yield lambda done: bar.advance(task, done)

        return play(hub, Post(messages, recipients), watch)


def _json(night: Night, stored_bytes: int, data: Path | None) -> str:
    import msgspec

    answer = msgspec.to_builtins(night) | {
        "steps": [msgspec.to_builtins(step) | {"messages_per_second": round(step.rate)} for step in night.steps],
        "stored_bytes": stored_bytes,
        "data": None if data is None else str(data),
        "arrived": "exactly once and in order" if not night.wrong else "not as it should",
    }
    return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()


def _print(console: Console, night: Night, stored_bytes: int, data: Path | None) -> None:
    from restante.cli.showing import counted, size

    title = f"A sample night: {counted(night.messages, 'message')} for {counted(night.recipients, 'recipient')}"
    console.print(f"\n{title}\n", style="bold")
    console.print(_table(night))
    for step in night.steps:
        console.print(_line(step.step, step.detail), soft_wrap=True)
    console.print(_line("explain", night.explained), soft_wrap=True)
    kept = "a temporary folder, gone now" if data is None else f"{data}; examine it with: restante doctor {data}"
    console.print(_line("stored", f"{size(stored_bytes)} in {kept}"), soft_wrap=True)
    console.print()
    console.print(_verdict(night), soft_wrap=True)


def _line(subject: str, text: str) -> Text:
    from rich.text import Text

    return Text.assemble((f"{subject:<{_SUBJECT_WIDTH}}", "cyan"), text)


def _verdict(night: Night) -> Text:
    from rich.text import Text

    from restante.cli.showing import duration

    if night.wrong:
        faults = "\n".join(night.wrong[:_FAULTS_SHOWN_MAX])
        return Text.assemble(("Not as it should be:", "bold red"), f"\n{faults}")
    total = sum(step.seconds for step in night.steps)
    return Text.assemble(("Every message arrived exactly once and in order", "bold green"), f", in {duration(total)}.")


def _table(night: Night) -> Table:
    from rich import box
    from rich.table import Table

    from restante.cli.showing import duration

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("step")
    for heading in ("messages", "time", "rate"):
        table.add_column(heading, justify="right", no_wrap=True)
    for step in night.steps:
        table.add_row(step.step, f"{step.messages:,}", duration(step.seconds), f"{step.rate:,.0f} a second")
    return table
