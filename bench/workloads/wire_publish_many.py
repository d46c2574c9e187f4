"""W2: publish 50,000 messages to 5,000 recipients, over the wire."""

from __future__ import annotations

from bench import contenders
from bench.mail import recipient_names
from bench.outcome import Outcome, faster
from bench.peer import Operation
from bench.wire import WireBench

WHAT = "W2 publish 50,000 to 5,000"
AT_LEAST = {"postgresql": 5.0}


def run(bench: WireBench) -> Outcome:
    recipients = recipient_names(bench.scale.send_recipients)
    contest = bench.bulk_contest(
        WHAT,
        Operation.PUBLISH,
        lambda name, peer: contenders.publish(name, peer, bench.mail, lambda: recipients, bench.scale.spread),
    )
    return contest.outcome(lambda ours, theirs, peer: faster(WHAT, ours, theirs, at_least=AT_LEAST.get(peer), of=peer))
