"""W11: live delivery to 1,000 connections, one mailbox each: durable messages a second until the last is received.

Compared twice: by the clients that programs use, and over bare sockets, where next to nothing is done with what comes. In
both, everybody publishes in the fastest durable way.
"""

from __future__ import annotations

from bench.live import one_mailbox_each
from bench.live_lines import AT_LEAST, dropped, rates
from bench.live_stage import contest, parties
from bench.outcome import Outcome
from bench.wire import WireBench

WHAT = "W11 1,000 connections"


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    count = scale.live_connections * scale.live_each
    with parties(bench) as taking_part:
        found = contest(
            bench,
            WHAT,
            taking_part,
            lambda: one_mailbox_each(bench.mail, connections=scale.live_connections, messages=count),
        )
    outcome = rates(WHAT, found, count, at_least=AT_LEAST)
    outcome.notes = dropped(found)
    return outcome
