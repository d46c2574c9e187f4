"""W1: publish 51,200 messages to one recipient, over the wire."""

from __future__ import annotations

from bench import contenders
from bench.outcome import Outcome, faster
from bench.peer import Operation
from bench.wire import WireBench

WHAT = "W1 publish 51,200 to one"
AT_LEAST = {"postgresql": 5.0}


def run(bench: WireBench) -> Outcome:
    contest = bench.bulk_contest(
        WHAT,
        Operation.PUBLISH,
        lambda name, peer: contenders.publish(name, peer, bench.mail, bench.mail.newcomer, bench.scale.send),
    )
    return contest.outcome(lambda ours, theirs, peer: faster(WHAT, ours, theirs, at_least=AT_LEAST.get(peer), of=peer))
