"""W12: live delivery to 1,000 connections, one mailbox each, of 1,000 messages a second: from publish to receipt.

Messages are published one by one, at an even pace, whether the last ones are answered or not. Compared twice: by the clients
that programs use, and over bare sockets.
"""

from __future__ import annotations

from bench.live import latencies, one_mailbox_each
from bench.live_lines import AT_MOST, dropped, percentiles
from bench.live_stage import contest, parties
from bench.outcome import Outcome
from bench.wire import WireBench

WHAT = "W12 1,000 messages a second"


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    count = int(scale.live_pace * scale.live_seconds)
    with parties(bench) as taking_part:
        found = contest(
            bench,
            WHAT,
            taking_part,
            lambda: one_mailbox_each(bench.mail, connections=scale.live_connections, messages=count),
            pace=scale.live_pace,
        )
    outcome = percentiles(WHAT, found, latencies, at_most=AT_MOST)
    outcome.notes = dropped(found)
    return outcome
