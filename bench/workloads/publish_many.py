"""Publish 51,200 messages to 5,000 recipients."""

from __future__ import annotations

from bench import contenders
from bench.context import Bench
from bench.mail import recipient_names
from bench.outcome import Outcome
from bench.peer import Operation
from bench.workloads.publish_one import lines

WHAT = "publish to 5,000 recipients"
BLOB_AT_MOST = 3.0
ROWS_AT_LEAST = 8.0


def run(bench: Bench) -> Outcome:
    recipients = recipient_names(bench.scale.send_recipients)
    contest = bench.contest(
        WHAT,
        Operation.PUBLISH,
        lambda name, peer: contenders.publish(name, peer, bench.mail, lambda: recipients, bench.scale.send),
    )
    return Outcome(lines(WHAT, contest, blob_at_most=BLOB_AT_MOST, rows_at_least=ROWS_AT_LEAST))
