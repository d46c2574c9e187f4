"""W3: fetch 51,200 messages as one bundle, over the wire."""

from __future__ import annotations

from bench import contenders
from bench.outcome import Outcome, faster
from bench.peer import Operation
from bench.wire import WireBench

WHAT = "W3 fetch 51,200"
AT_LEAST = {"postgresql": 5.0}


def run(bench: WireBench) -> Outcome:
    contest = bench.bulk_contest(
        WHAT, Operation.PEEK, lambda name, peer: contenders.peek(name, peer, bench.mail, bench.scale.send)
    )
    return contest.outcome(lambda ours, theirs, peer: faster(WHAT, ours, theirs, at_least=AT_LEAST.get(peer), of=peer))
