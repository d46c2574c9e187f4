"""A batch alone, in process: 10⁹ items acknowledged in ranges of 10⁶, and 10⁷ in random order, 1,000 a call.

After each tenth: how fast it went, what it stores beyond an empty hub, and how much memory it takes. Ids are made
outside the timing.
"""

from __future__ import annotations

import shutil

from bench.batch_growth import STEPS, Growth, Work, grown
from bench.context import Bench
from bench.ours import NAME
from bench.outcome import Figure, Goal, Line, Outcome, Unit

CALL = 1_000
BITS = 8
HALF = Goal("≤ 1.1", at_most=1.1, of_value=True)
STEADY_AT_LEAST = 0.7
RANGED = "10⁹ items"
RANDOM = "10⁷ items at random"


def run(bench: Bench) -> Outcome:
    scale = bench.scale
    ranged = _grown(bench, RANGED, Work(scale.ranged_items, scale.range_items, ranges=True))
    scattered = _grown(bench, RANDOM, Work(scale.random_items, CALL, ranges=False))
    return Outcome(
        [*_ranged_lines(ranged), *_random_lines(scattered)],
        series={
            "batch rate": {NAME: scattered.rates()},
            "batch stored": {NAME: [(float(point.acknowledged), float(point.stored)) for point in scattered.points]},
            "batch resident": {
                NAME: [(float(point.acknowledged), float(point.resident)) for point in scattered.points]
            },
        },
        notes=[_table(RANGED, ranged), _table(RANDOM, scattered)],
    )


def _grown(bench: Bench, title: str, work: Work) -> Growth:
    folder = bench.fresh_folder()
    try:
        with bench.display.bar(title, STEPS) as advance:
            return grown(folder, work, advance)
    finally:
        shutil.rmtree(folder)


def _ranged_lines(found: Growth) -> list[Line]:
    return [
        Line(f"{RANGED}, added", Figure(found.begun.add_seconds, Unit.SECONDS)),
        Line(f"{RANGED}, sealed", Figure(found.begun.seal_seconds, Unit.SECONDS)),
        Line(f"{RANGED}, acknowledged in ranges of 10⁶", Figure(found.seconds, Unit.SECONDS)),
        Line(f"{RANGED}, stored at most", Figure(max(point.stored for point in found.points), Unit.BYTES)),
        Line(f"{RANGED}, stored when complete", Figure(found.left, Unit.BYTES)),
        Line(f"{RANGED}, memory at most", Figure(max(point.resident for point in found.points), Unit.BYTES)),
    ]


def _random_lines(found: Growth) -> list[Line]:
    rates = [rate for _, rate in found.rates()]
    half = found.points[len(found.points) // 2 - 1]
    assert half.acknowledged * 2 == found.items, half
    goal = Goal(f"≥ {STEADY_AT_LEAST} × the first tenth", at_least=STEADY_AT_LEAST)
    first, last = Figure(rates[0], Unit.RATE, "the first tenth"), Figure(rates[-1], Unit.RATE)
    return [
        Line(f"{RANDOM}, 1,000 a call", Figure(found.items / found.seconds, Unit.RATE)),
        Line(f"{RANDOM}, the last tenth", last, first, rates[-1] / rates[0], goal),
        Line("bits stored an item, half acknowledged", Figure(half.stored * BITS / found.items, Unit.RATIO), goal=HALF),
        Line(f"{RANDOM}, stored at most", Figure(max(point.stored for point in found.points), Unit.BYTES)),
        Line(f"{RANDOM}, memory at most", Figure(max(point.resident for point in found.points), Unit.BYTES)),
    ]


def _table(title: str, found: Growth) -> str:
    """A line for each tenth."""
    rows = [
        f"  {point.acknowledged:>13,} acknowledged: {rate:>13,.0f}/s, {point.stored:>11,} B stored, {point.resident:>12,} B of memory"
        for point, (_, rate) in zip(found.points, found.rates(), strict=True)
    ]
    return "\n".join([f"{title}, tenth by tenth:", *rows])
