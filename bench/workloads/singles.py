"""1,024 single publishes that wait at the same time, again and again."""

from __future__ import annotations

from bench import contenders
from bench.context import Bench
from bench.outcome import Figure, Goal, Line, Outcome, faster
from bench.peer import Operation

WHAT = "1,024 waiting single publishes"
GOAL = Goal("≥ 100,000/s", at_least=100_000, of_value=True)


def run(bench: Bench) -> Outcome:
    scale = bench.scale
    contest = bench.contest(
        WHAT,
        Operation.SINGLES,
        lambda name, peer: contenders.singles(name, peer, bench.mail, waiting=scale.waiting, rounds=scale.rounds),
    )
    count = scale.waiting * scale.rounds
    ours = Figure.of_rate(contest.ours, count)
    compared = [
        faster(WHAT, ours, Figure.of_rate(samples, count, variant)) for variant, samples in contest.peers.values()
    ]
    return Outcome([Line(WHAT, ours, goal=GOAL), *compared])
