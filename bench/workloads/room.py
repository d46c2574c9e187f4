"""Room: what is open does not grow with what is stored; 10⁶ messages beside ten and a hundred times as many.

Stores are filled by large publishes of small messages, and kept in the data folder that the caller named. Each is opened
by fresh processes, in turn: closed in an orderly way before, and killed before while it published.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.context import Bench
from bench.mail import recipient_names
from bench.ours import NAME, Ours
from bench.outcome import Figure, Goal, Line, Outcome, Unit
from bench.room_probe import SETTINGS

OPEN = Goal("≤ 3 s", at_most=3.0, of_value=True)
MEMORY = Goal("≤ 1 GB", at_most=1e9, of_value=True)
AT_MOST = 1.5
MARKER = "filled.json"
COSTS = {
    "publish_seconds": "publish 51,200 to 5,000, ids checked",
    "publish_processor_seconds": "publish 51,200 to 5,000, ids checked, processor time of the caller",
    "single_seconds": "publish one",
    "peek_seconds": "peek of a mailbox of 10",
    "dequeue_seconds": "dequeue",
}
SERIES = {
    "open_seconds": "open",
    "killed_seconds": "open after a kill",
    "resident": "resident memory",
    **COSTS,
}


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    rates: list[tuple[float, float]] = []
    for count in bench.scale.room:
        rates = _fill(bench, count) or rates
    found: dict[int, list[dict[str, Any]]] = {count: [] for count in bench.scale.room}
    with bench.display.bar("room", bench.scale.room_probes * len(found)) as advance:
        for _ in range(bench.scale.room_probes):
            for count, probes in found.items():
                probes.append(_probe(bench, count))
                advance()
    base, *larger = found
    for count in larger:
        outcome.lines += _lines(count, found[count], base, found[base])
    if rates:
        outcome.series["growth"] = {f"{NAME}, small messages": rates}
    for name, what in SERIES.items():
        outcome.series[name] = {what: [(float(count), _median(probes, name)) for count, probes in found.items()]}
    return outcome


def _fill(bench: Bench, count: int) -> list[tuple[float, float]]:
    """A store of so many messages, if there is none yet; gives messages a second as it grew."""
    folder = _folder(bench, count)
    if (folder / MARKER).exists():
        kept = json.loads((folder / MARKER).read_text()).get("rates", [])
        return [(published, rate) for published, rate in kept]
    (folder / "data").mkdir(parents=True)
    recipients, parcel = recipient_names(bench.scale.recipients), min(count, bench.scale.room_parcel)
    rates: list[tuple[float, float]] = []
    with (
        bench.display.bar(f"fill {count:,}", count) as advance,
        closing(Ours(folder / "data", settings=SETTINGS)) as ours,
    ):
        before = time.perf_counter()
        for published in range(parcel, count + 1, parcel):
            ours.publish(bench.mail.table(recipients, parcel, data_bytes=bench.scale.room_data_bytes))
            now = time.perf_counter()
            rates.append((float(published), parcel / (now - before)))
            before = now
            advance(count=parcel)
        ours.settle()
    (folder / MARKER).write_text(json.dumps({"messages": count, "rates": rates}))
    return rates


def _folder(bench: Bench, count: int) -> Path:
    return bench.kept / f"room-{count}"


def _probe(bench: Bench, count: int) -> dict[str, Any]:
    """Opened after an orderly end, then after a kill."""
    folder = _folder(bench, count) / "data"
    found = _run(bench, folder, "measure")
    _run(bench, folder, "kill")
    found["killed_seconds"] = _run(bench, folder, "open")["open_seconds"]
    return found


def _run(bench: Bench, folder: Path, what: str) -> dict[str, Any]:
    scale = bench.scale
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.room_probe",
            str(folder),
            what,
            *map(str, (scale.recipients, scale.send, scale.send_recipients)),
        ],
        capture_output=True,
        text=True,
        check=what != "kill",
        cwd=Path(__file__).parents[2],
    )
    found: dict[str, Any] = json.loads(done.stdout) if what != "kill" else {}
    return found


def _lines(count: int, probes: list[dict[str, Any]], base: int, base_probes: list[dict[str, Any]]) -> list[Line]:
    title = f"{count:,} stored"
    lines = [
        Line(f"open, {title}", Figure(_median(probes, "open_seconds"), Unit.SECONDS), goal=OPEN),
        Line(f"open after a kill, {title}", Figure(_median(probes, "killed_seconds"), Unit.SECONDS), goal=OPEN),
        Line(f"resident memory, {title}", Figure(_median(probes, "resident"), Unit.BYTES), goal=MEMORY),
    ]
    goal = Goal(f"≤ {AT_MOST} × at {base:,}", at_most=AT_MOST)
    for name, what in COSTS.items():
        own, reference = _median(probes, name), _median(base_probes, name)
        at_base = Figure(reference, Unit.SECONDS, f"at {base:,}")
        lines.append(Line(f"{what}, {title}", Figure(own, Unit.SECONDS), at_base, own / reference, goal))
    return lines


def _median(probes: list[dict[str, Any]], name: str) -> float:
    return statistics.median(float(probe[name]) for probe in probes)
