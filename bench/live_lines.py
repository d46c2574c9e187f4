"""The lines of the live workloads: ours beside each peer, by the clients and over bare sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bench.live import Moments, Published, Received
from bench.live_stage import Found, Sample
from bench.outcome import Figure, Line, Outcome, Unit, faster, slower
from bench.sampling import Samples
from bench.wire import BARE, OURS, Ways, WireContest

AT_LEAST = 2.0
"""The goal for messages a second: times the best peer."""
AT_MOST = 1.5
"""The goal for the 99th percentile of latency: times the best peer's."""
BEST = "the best peer"
HOWS = {"by the clients": {"but": BARE}, "over bare sockets": {"only": BARE}}
PERCENTILES = {"p50": 0.5, "p99": 0.99}

Figures = Mapping[str, Mapping[str, Figure]]
"""The figures by server and way."""


def compared(what: str, figures: Figures, line: Callable[..., Line], **goal: float) -> list[Line]:
    """A line for each peer's fastest way, the best peer first: to that one the goal refers."""
    made = WireContest(what, {server: Ways(server, ways, frozenset()) for server, ways in figures.items()})
    lines: list[Line] = []
    for how, which in HOWS.items():
        ours = made.ways[OURS].fastest(**which) if OURS in made.ways else None
        others = [ways.fastest(**which) for server, ways in made.ways.items() if server != OURS]
        peers = sorted((figure for figure in others if figure is not None), key=_slowness)
        if ours is not None:
            lines += [
                line(f"{what}, {how}", ours, peer, **({} if place else {**goal, "of": BEST} if goal else {}))
                for place, peer in enumerate(peers)
            ]
    return lines


def rates(what: str, found: Found, count: int, *, at_least: float | None = None) -> Outcome:
    """Receipts a second, until the last."""
    figures = {
        server: {way: _rate(samples, count, way) for way, samples in ways.items()} for server, ways in found.items()
    }
    goal = {} if at_least is None else {"at_least": at_least}
    return Outcome(compared(what, figures, faster, **goal), figures=_all(what, figures))


def percentiles(
    what: str, found: Found, latencies: Callable[[Published, Received], Moments], *, at_most: float | None = None
) -> Outcome:
    """Latencies; the goal refers to the 99th percentile."""
    outcome = Outcome()
    for name, fraction in PERCENTILES.items():
        figures = {
            server: {
                way: percentile([latencies(sample.published, sample.received) for sample in samples], fraction, way)
                for way, samples in ways.items()
            }
            for server, ways in found.items()
        }
        goal = {} if at_most is None or name != "p99" else {"at_most": at_most}
        outcome.lines += compared(f"{what}, {name}", figures, slower, **goal)
        outcome.figures += _all(f"{what}, {name}", figures)
    return outcome


def dropped(found: Found) -> list[str]:
    """For the notes: who missed something, which only a bare connection of ours can do, as it does not ask again."""
    return [
        f"{way}: {sum(sample.received.dropped for sample in samples):,} messages of {len(samples)} samples were dropped"
        for ways in found.values()
        for way, samples in ways.items()
        if any(sample.received.dropped for sample in samples)
    ]


def percentile(samples: Sequence[Moments], fraction: float, name: str) -> Figure:
    """The median, over the samples, of this percentile in each."""
    each = tuple(float(np.quantile(sample, fraction)) for sample in samples)
    return Figure(float(np.median(each)), Unit.SECONDS, name, each)


def _rate(samples: Sequence[Sample], count: int, name: str) -> Figure:
    return Figure.of_rate(Samples(tuple(sample.seconds for sample in samples)), count, name)


def _all(what: str, figures: Figures) -> list[tuple[str, Figure]]:
    return [(what, figure) for ways in figures.values() for figure in ways.values()]


def _slowness(figure: Figure) -> float:
    return -figure.value if figure.unit is Unit.RATE else figure.value
