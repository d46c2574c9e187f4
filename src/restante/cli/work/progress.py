"""The progress of a worker, on the terminal: a table that changes in its place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from restante.cli.shared.output import table_of
from restante.model.columns.plain_text import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from restante.work.runner import WorkRunner

_COLUMNS = ("action", "done", "a second", "failed", "retried", "poisoned", "expired", "in queue", "to do")
_REFRESHES = 4
"""Refreshes of the table, a second."""


class WorkProgress:
    """Shows a worker until it ends."""

    def __init__(self) -> None:
        self._runner: WorkRunner | None = None
        self._rates: dict[str, tuple[float, int, float]] = {}
        """The rate of each action: when it was looked at, how many were done then, and how many a second."""

    def watch(self, runner: WorkRunner) -> None:
        self._runner = runner

    @contextmanager
    def shown(self) -> Iterator[None]:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        with Live(console=console, get_renderable=self.rendered, refresh_per_second=_REFRESHES):
            yield

    def rendered(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        runner = self._runner
        if runner is None:
            return Text("The worker starts.")
        return Group(Text(plain(headline(runner))), table_of(_COLUMNS, self._rows(runner), right=_COLUMNS[1:]))

    def _rows(self, runner: WorkRunner) -> Iterator[tuple[str, ...]]:
        from restante.work.figures import figures_of

        for name, counts in sorted(runner.counts.actions.items()):
            own = figures_of(name or "(others)", counts)
            yield (
                own.name,
                f"{own.done:,}",
                f"{self._rate(name, own.done):,.0f}",
                f"{own.failed:,}",
                f"{own.retried:,}",
                f"{own.poisoned:,}",
                f"{own.expired:,}",
                _shown(own.queue_seconds),
                _shown(own.do_seconds),
            )

    def _rate(self, name: str, done: int) -> float:
        """The rate of the last second or so."""
        now = time.monotonic()
        since, before, rate = self._rates.get(name, (now, done, 0.0))
        if name not in self._rates or now - since >= 1:
            rate = (done - before) / (now - since) if now > since else 0.0
            self._rates[name] = (now, done, rate)
        return rate


def headline(runner: WorkRunner) -> str:
    """Where the worker is, in one line."""
    state = "works" if runner.is_ready else "waits for the hub"
    partitions = len(runner.core.partitions)
    return f"{runner.member} {state} for {runner.app.name}: {partitions} partitions, {runner.core.attempts_running} under way"


def _shown(seconds: float) -> str:
    return f"{seconds * 1_000:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
