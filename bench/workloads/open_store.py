"""Open the store of 10⁷ messages in a fresh process, and peek mailboxes at random."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.context import Bench
from bench.outcome import Figure, Goal, Line, Outcome, Unit
from bench.sampling import Samples, percentiles
from bench.workloads.growth import grown_store

OPEN = Goal("≤ 2 s", at_most=2.0, of_value=True)
MEMORY = Goal("≤ 500 MB", at_most=500e6, of_value=True)
RESIDENT_PEEKS = 100


def run(bench: Bench) -> Outcome:
    folder = grown_store(bench)
    count = bench.scale.probe_peeks
    drawn = bench.mail.draw(bench.scale.recipients, min(bench.scale.probes * count, bench.scale.recipients))
    probes = []
    with bench.display.bar("open 10⁷ stored", bench.scale.probes) as advance:
        for first in range(0, len(drawn), count)[: bench.scale.probes]:
            probes.append(_probe(folder, drawn[first : first + count]))
            advance()
    return Outcome(_lines(probes))


def _probe(folder: Path, recipients: Sequence[int]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.probe", str(folder), str(RESIDENT_PEEKS)],
        input=json.dumps(recipients),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _lines(probes: Sequence[dict[str, Any]]) -> list[Line]:
    opened = Figure.of_seconds(Samples(tuple(probe["open_seconds"] for probe in probes)))
    p50, p99 = percentiles([seconds for probe in probes for seconds in probe["peek_seconds"]], 0.5, 0.99)
    return [
        Line("open 10⁷ stored", opened, goal=OPEN),
        Line("resident memory, imported only", _resident(probes, "resident_imported")),
        Line("resident memory, opened", _resident(probes, "resident_opened"), goal=MEMORY),
        Line(f"resident memory, {RESIDENT_PEEKS} mailboxes peeked", _resident(probes, "resident_peeked"), goal=MEMORY),
        Line("peek of a random small mailbox, p50", Figure(p50, Unit.SECONDS)),
        Line("peek of a random small mailbox, p99", Figure(p99, Unit.SECONDS)),
    ]


def _resident(probes: Sequence[dict[str, Any]], name: str) -> Figure:
    values = tuple(float(probe[name]) for probe in probes)
    return Figure(statistics.median(values), Unit.BYTES, samples=values)
