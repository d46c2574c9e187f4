"""Progress on the terminal. It is drawn between samples only: a thread that draws would be measured with the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

REFRESH_SECONDS = 0.5

Advance = Callable[..., None]
"""Called as advance(text, count=1) after each step."""


class Display:
    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<44}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}", style="dim"),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._drawn = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._progress:
            yield

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Advance]:
        """A bar for one thing that is measured; it stays on the screen when done."""
        task = self._progress.add_task(title, total=total, now="")
        self._draw(always=True)

        def advance(now: str = "", count: int = 1) -> None:
            self._progress.update(task, advance=count, now=now)
            self._draw()

        yield advance
        self._progress.update(task, now="")
        self._progress.stop_task(task)
        self._draw(always=True)

    def _draw(self, *, always: bool = False) -> None:
        now = time.monotonic()
        if always or now - self._drawn >= REFRESH_SECONDS:
            self._drawn = now
            self._progress.refresh()
