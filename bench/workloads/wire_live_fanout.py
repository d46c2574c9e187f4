"""W13: live delivery of one recipient's messages to its 1,000 clients: deliveries a second, and when the last has it.

A burst, published as fast as it goes, gives the deliveries a second; messages at an even pace give the latency, from the
publish of a message until the last of the clients has it. Compared twice: by the clients that programs use, and over bare
sockets.
"""

from __future__ import annotations

from functools import partial

from bench.live import last_latencies, one_for_all
from bench.live_lines import dropped, percentiles, rates
from bench.live_stage import contest, parties
from bench.outcome import Outcome
from bench.wire import WireBench

WHAT = "W13 one to 1,000 clients"
LAST = f"{WHAT}, the last of them"


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    show = partial(one_for_all, bench.mail, connections=scale.live_connections)
    with parties(bench) as taking_part:
        burst = contest(bench, WHAT, taking_part, partial(show, messages=scale.live_burst))
        paced = contest(
            bench, LAST, taking_part, partial(show, messages=scale.live_broadcasts), pace=scale.live_broadcast_pace
        )
    together, one_by_one = (
        rates(WHAT, burst, scale.live_connections * scale.live_burst),
        percentiles(LAST, paced, last_latencies),
    )
    return Outcome(
        together.lines + one_by_one.lines,
        figures=together.figures + one_by_one.figures,
        notes=dropped(burst) + dropped(paced),
    )
