"""Drive the catalogue: many users for a while, a worker killed and one added meanwhile; then the sum. `make drive-catalog`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

import restante
from examples.catalog.crew import Crew
from examples.catalog.load import Answers, load, stocked
from examples.catalog.reckoning import Reckoning, reckoned, settled
from examples.catalog.serve import API_KEY, interruptible, run_quickly

SETTLE_SECONDS = 300.0
KILL_AT, ADD_AT = 1 / 3, 1 / 2
"""The worker is killed after this share of the time, and another one is added after that."""
GATE = {"requests a second": 1_200.0, "mean, ms": 100.0, "errors, %": 1.0}
"""The goals of the application that this one follows, with 500 users on machines of its own."""


class Driven(NamedTuple):
    """The result of a drive."""

    users: int
    seconds: float
    answers: Answers
    settled_seconds: float
    """How long after the last request everything was done."""
    sum: Reckoning

    @property
    def is_right(self) -> bool:
        return not self.sum.wrong


async def drive(crew: Crew, *, users: int, seconds: float) -> Driven:
    """The crew is at work already."""
    items = await stocked(crew.api_url, API_KEY)
    async with asyncio.TaskGroup() as tasks:
        begun = time.perf_counter()
        loading = tasks.create_task(load(crew.api_url, API_KEY, items, users=users, seconds=seconds))
        await asyncio.sleep(seconds * KILL_AT)
        await asyncio.to_thread(crew.kill_worker)
        await asyncio.sleep(seconds * (ADD_AT - KILL_AT))
        await asyncio.to_thread(crew.start_worker)
    took = time.perf_counter() - begun
    answers = loading.result()
    with restante.connect(crew.hub_url) as hub:
        ledger = await asyncio.to_thread(settled, hub, seconds=SETTLE_SECONDS)
    settled_seconds = time.perf_counter() - begun - took
    return Driven(
        users, took, answers, settled_seconds, reckoned(ledger, [one.id for one in answers.accepted], crew.database)
    )


def shown(driven: Driven) -> str:
    """The figures beside those of the gate, and the verdict."""
    total = driven.sum
    asked = f"{len(driven.answers.seconds):,} requests, {total.accepted:,} actions"
    ended = f"all had ended {driven.settled_seconds:.1f} s after the last request"
    lines = [
        f"{driven.users:,} users for {driven.seconds:.0f} s: {asked}; one worker killed and one added meanwhile",
        "",
        f"{'':<20}{'here':>12}{'gate of the original':>24}",
        *_figures(driven),
        "",
        f"accepted {total.accepted:,} = done {total.done:,} + poisoned {total.poisoned:,}; {ended}",
        *(total.wrong or ["Each item as its actions made it in their order; none lost, none overtaken."]),
        *(f"error: {text}" for text in driven.answers.examples),
    ]
    return "\n".join(lines)


def _figures(driven: Driven) -> list[str]:
    milliseconds = np.frombuffer(driven.answers.seconds, np.float64) * 1_000
    asked = len(milliseconds) + driven.answers.errors
    figures = {
        "requests a second": len(milliseconds) / driven.seconds,
        "mean, ms": milliseconds.mean(),
        "p50, ms": np.percentile(milliseconds, 50),
        "p99, ms": np.percentile(milliseconds, 99),
        "errors, %": 100 * driven.answers.errors / asked,
    }
    return [f"{name:<20}{value:>12,.1f}{_gate(name):>24}" for name, value in figures.items()]


def _gate(name: str) -> str:
    if name not in GATE:
        return ""
    return f"{'>=' if name == 'requests a second' else '<='} {GATE[name]:,.0f}"


def main(options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        stack.enter_context(interruptible())
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="catalog-")))
        crew = stack.enter_context(Crew(folder))
        crew.start()
        print(f"{options.users} users drive {crew.api_url} for {options.seconds:g} s …", flush=True)
        driven = run_quickly(drive(crew, users=options.users, seconds=options.seconds))
        print(shown(driven), flush=True)
    return 0 if driven.is_right else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Drive the catalogue and say what became of it.")
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, help="where the files are kept; without it they are gone at the end")
    sys.exit(main(parser.parse_args()))
