"""`restante batches watch`: a bar that fills as a batch is worked off, with those below that hold it up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.batches.batches_show import BatchId, held_up, progress_table
from restante.cli.shared.exits import WRONG
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.output import print_json
from restante.cli.shared.plain import say
from restante.model.columns.plain_text import plain
from restante.model.figures import clock_time, counted, duration

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

    from restante.client.surface.surface import Batch
    from restante.model.batches.batch_answers import BatchStatus

_RECIPIENTS_SHOWN_MAX = 8
_RECIPIENTS_LOOKED_AT_MAX = 1_000
_RATE_SECONDS = 60.0
"""The rate and the time left are those of the last minute."""


@at_hub
def watch(
    batch: BatchId,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="How long to watch. Default: until it is complete."),
    ] = None,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How often to ask the hub, in seconds.")
    ] = 1.0,
    *,
    door: Door,
    as_json: Annotated[bool, typer.Option("--json", help="Print how it ended as JSON.")] = False,
) -> None:
    """Watch a batch until it is complete: a bar, and the recipients that are late.

    Ctrl-C ends the watching, not the batch. The exit code is 0 if the batch is complete, and 1 if not. Without a
    terminal the command only waits, and prints the result.

    \b
    restante batches watch $B
    restante batches watch $B && restante batches delete $B --yes
    restante batches watch $B --timeout 3600 --json
    """
    end = None if timeout is None else time.monotonic() + timeout
    with door.open() as opened:
        found = _watched(opened.batches.get(batch), every, end)
    _print(found, as_json=as_json)
    raise typer.Exit(0 if found.completed_at is not None else WRONG)


def _watched(batch: Batch, every: float, end: float | None) -> BatchStatus:
    """The batch as it was seen last."""
    seen = batch.status()
    try:
        with _screen() as show:
            while seen.completed_at is None:
                show(seen, batch)
                left = every if end is None else min(every, end - time.monotonic())
                if left <= 0:
                    break
                seen = _next(batch, left)
    except KeyboardInterrupt:
        pass
    return seen


def _next(batch: Batch, seconds: float) -> BatchStatus:
    """Wait until the batch is complete, at most so long, and give its status."""
    try:
        return batch.completed(timeout=seconds)
    except TimeoutError:
        return batch.status()


ShowStatus = Callable[["BatchStatus", "Batch"], None]


@contextmanager
def _screen() -> Iterator[ShowStatus]:
    """The display of a batch: on terminals, on standard error, and gone at the end."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _seen, _batch: None
        return
    bar = progress_of_items(console)
    with Live(bar, console=console, transient=True) as live:

        def show(seen: BatchStatus, batch: Batch) -> None:
            if not bar.tasks:
                bar.add_task("", completed=seen.items - seen.pending, note="")  # so that the rate begins here
            bar.update(bar.tasks[0].id, **shown(seen))
            live.update(_with_recipients(bar, batch) if seen.pending else bar, refresh=True)

        yield show


def progress_of_items(console: Console) -> Progress:
    """A bar with the items done and all, how many a second, and the time left."""
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Items(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{int(task.completed):,}/{int(task.total or 0):,} items")

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if not task.speed else f"{task.speed:,.0f} a second")

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), Items(), Rate(), TimeRemainingColumn())
    note = TextColumn("{task.fields[note]}", markup=False)
    return Progress(*columns, note, console=console, speed_estimate_period=_RATE_SECONDS, transient=True)


def shown(seen: BatchStatus) -> dict[str, Any]:
    """A batch as the fields of its bar."""
    note = "not sealed yet" if seen.sealed_at is None else ""
    return {
        "description": plain(seen.key or seen.id),
        "total": seen.items,
        "completed": seen.items - seen.pending,
        "note": note,
    }


def _with_recipients(bar: Progress, batch: Batch) -> RenderableType:
    """The recipients that have most left, of as many as can be looked at each time."""
    from rich.console import Group

    late, count, _ = held_up(islice(batch.progress(waiting=True), _RECIPIENTS_LOOKED_AT_MAX), _RECIPIENTS_SHOWN_MAX)
    if not late:
        return bar
    more = "and more" if count == _RECIPIENTS_LOOKED_AT_MAX else f"and {count - len(late):,} more"
    return Group(bar, progress_table(late), more if count > len(late) else "")


def _print(found: BatchStatus, *, as_json: bool) -> None:
    from restante.cli.batches.batches_show import described

    if as_json:
        print_json(found)
    elif found.completed_at is None:
        say(f"Not complete yet: {described(found)}.")
    else:
        took = duration((found.completed_at - found.opened_at).total_seconds())
        name = found.id if found.key is None else f"{found.id} ({found.key})"
        say(f"{name} is complete: {counted(found.items, 'item')} in {took}, at {clock_time(found.completed_at)}.")
        if found.duplicates_waiting:
            say(f"{counted(found.duplicates_waiting, 'duplicate')} of an earlier send still wait.")
