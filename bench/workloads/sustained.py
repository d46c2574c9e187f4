"""3·10⁶ messages over 10⁵ recipients in parcels of 10,000, without pause, until all is filed."""

from __future__ import annotations

from collections.abc import Sequence

from bench.context import Bench
from bench.flood import Drip, Flood, flood
from bench.ours import NAME
from bench.outcome import Figure, Goal, Line, Outcome, Unit, faster
from bench.peer import Operation, peers_for
from bench.sampling import percentiles

WHAT = "3·10⁶ in parcels until filed"
ROWS_AT_LEAST = 4.0
SINGLE_SECONDS_MAX = 0.050


def run(bench: Bench) -> Outcome:
    ours, latencies = _ours(bench)
    outcome = Outcome(series={"growth": {NAME: ours.rates()}})
    for peer, openers in peers_for(Operation.SUSTAINED).items():
        for name, opener in openers.items():
            with bench.opened(opener) as opened:
                theirs = flood(bench, opened, bench.scale.sustained, f"{WHAT}: {name}")
            outcome.series["growth"][name] = theirs.rates()
            goal = ROWS_AT_LEAST if peer == "rows" else None
            outcome.lines.append(faster(WHAT, _rate(ours), _rate(theirs, name), at_least=goal, of=peer))
    outcome.lines += _singles(latencies)
    outcome.notes.append(f"{len(latencies):,} single publishes beside the parcels of `sustained`")
    return outcome


def _ours(bench: Bench) -> tuple[Flood, Sequence[float]]:
    with bench.ours() as ours, Drip(ours.hub.producer, bench.scale.recipients) as drip:
        found = flood(bench, ours, bench.scale.sustained, WHAT)
    return found, drip.latencies


def _rate(found: Flood, name: str = NAME) -> Figure:
    return Figure(found.rate, Unit.RATE, name)


def _singles(latencies: Sequence[float]) -> list[Line]:
    goal = Goal("≤ 50 ms", at_most=SINGLE_SECONDS_MAX, of_value=True)
    p50, p99, longest = (Figure(seconds, Unit.SECONDS) for seconds in percentiles(latencies, 0.5, 0.99, 1.0))
    return [
        Line("single publish meanwhile, p50", p50),
        Line("single publish meanwhile, p99", p99, goal=goal),
        Line("single publish meanwhile, longest", longest),
    ]
