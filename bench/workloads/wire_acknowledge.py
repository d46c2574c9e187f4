"""W4: acknowledge 51,200 messages that were fetched, and a single one, over the wire."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from bench import contenders
from bench.outcome import Figure, Line, Outcome, slower
from bench.peer import Operation
from bench.wire import OURS, WireBench, WireContest

LARGE = "W4 acknowledge 51,200"
SMALL = "W4 acknowledge 1"
FLAT = f"{LARGE} as against 1"
AT_MOST = {"valkey": 1.0}
SAME_AT_MOST = 1.25
"""The ratio that still counts as the same."""


def run(bench: WireBench) -> Outcome:
    large = _contest(bench, LARGE, bench.scale.send, bench.scale.repetitions)
    small = _contest(bench, SMALL, 1, bench.scale.small_repetitions)
    outcome = large.outcome(
        lambda ours, theirs, peer: slower(LARGE, ours, theirs, at_most=AT_MOST.get(peer), of="valkey's XTRIM")
    )
    outcome.lines += small.outcome(lambda ours, theirs, _: slower(SMALL, ours, theirs)).lines
    outcome.lines += _flat(bench)
    outcome.figures = [*large.figures(), *small.figures()]
    return outcome


def _contest(bench: WireBench, what: str, count: int, repetitions: int) -> WireContest:
    return bench.bulk_contest(
        what,
        Operation.DEQUEUE,
        lambda name, peer: contenders.dequeue(name, peer, bench.mail, count),
        repetitions,
    )


def _flat(bench: WireBench) -> list[Line]:
    """Whether a dequeue of many messages takes as long as one of a single message, by turns."""
    if OURS not in bench.servers:
        return []
    (connect,) = bench.servers[OURS].ways(Operation.DEQUEUE).values()
    with closing(connect()) as client:
        sizes = {LARGE: bench.scale.send, SMALL: 1}
        turns = [contenders.dequeue(name, client, bench.mail, count) for name, count in sizes.items()]
        samples = bench.interleave(FLAT, turns, bench.scale.repetitions)
    of_many, of_one = (Figure.of_seconds(samples[name], OURS) for name in sizes)
    return [slower(FLAT, of_many, replace(of_one, name="of 1"), at_most=SAME_AT_MOST)]
