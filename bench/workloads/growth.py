"""10⁷ messages over 10⁵ recipients in parcels of 10,000, without pause, until all is filed.

Leaves the store for the workloads that need a large one. Bytes written are those that the kernel sent to the disk for
this process (`write_bytes` of /proc/self/io) until the store is closed; those handed to write calls stand beside it.
"""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

from bench import process
from bench.context import Bench
from bench.flood import Flood, flood
from bench.ours import NAME, Ours
from bench.outcome import Figure, Goal, Line, Outcome, Unit
from bench.process import Written

WHAT = "10⁷ in parcels until filed"
BASE_AT_LEAST = 0.7
WRITTEN_AT_MOST = 8.0
MARKER = "grown.json"


def run(bench: Bench) -> Outcome:
    with bench.ours() as ours:
        base = flood(bench, ours, bench.scale.base, "10⁶ in parcels until filed")
    found, wrote = build(bench)
    rate, base_rate = Figure(found.rate, Unit.RATE), Figure(base.rate, Unit.RATE, "at 10⁶")
    goal = Goal(f"≥ {BASE_AT_LEAST} × at 10⁶", at_least=BASE_AT_LEAST)
    return Outcome(
        [Line(WHAT, rate, base_rate, found.rate / base.rate, goal), *_written(found, wrote)],
        series={"growth": {NAME: found.rates()}},
    )


def grown_store(bench: Bench) -> Path:
    """The large store: built in this run, or kept by an earlier one in the data folder that the caller named."""
    folder = bench.kept / "grown"
    if _messages(folder) != bench.scale.grown:
        build(bench)
    return folder / "data"


def build(bench: Bench) -> tuple[Flood, Written]:
    folder = bench.kept / "grown"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    before = process.written()
    with closing(Ours(folder / "data")) as ours:
        found = flood(bench, ours, bench.scale.grown, WHAT)
    wrote = process.written() - before
    (folder / MARKER).write_text(json.dumps({"messages": bench.scale.grown}))
    return found, wrote


def _messages(folder: Path) -> int | None:
    marker = folder / MARKER
    return int(json.loads(marker.read_text())["messages"]) if marker.exists() else None


def _written(found: Flood, wrote: Written) -> list[Line]:
    goal = Goal("≤ 8", at_most=WRITTEN_AT_MOST, of_value=True)
    disk = Figure(wrote.disk / found.published_bytes, Unit.RATIO)
    calls = Figure(wrote.calls / found.published_bytes, Unit.RATIO)
    return [
        Line("bytes written per byte published (to disk)", disk, goal=goal),
        Line("bytes written per byte published (in calls)", calls),
    ]
