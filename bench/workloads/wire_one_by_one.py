"""W5: one durable publish at a time, by one publisher over the wire.

Compared twice, as in `wire_connections`: by the clients that programs use, and with as little client as there can be.
"""

from __future__ import annotations

import statistics

import pyarrow as pa

from bench.load import LoadProcess
from bench.outcome import Figure, Line, Outcome, slower
from bench.peer import Operation
from bench.sampling import Contender
from bench.wire import BARE, WireBench

WHAT = "W5 one publisher, p50"
AT_MOST = {"postgresql": 2.0}
RECIPIENTS = 64


def run(bench: WireBench) -> Outcome:
    def contender(name: str, load: LoadProcess) -> Contender:
        def prepare() -> None:
            load.prepare(_messages(bench))

        return Contender(name, prepare, lambda _: statistics.median(load.run().latencies))

    contest = bench.load_contest(WHAT, Operation.ONE, contender)
    outcome = contest.outcome(lambda *compared: _line("by the clients", *compared), but=BARE)
    outcome.lines += contest.outcome(lambda *compared: _line("over bare sockets", *compared), only=BARE).lines
    return outcome


def _line(how: str, ours: Figure, theirs: Figure, peer: str) -> Line:
    return slower(f"{WHAT}, {how}", ours, theirs, at_most=AT_MOST.get(peer), of=peer)


def _messages(bench: WireBench) -> pa.Table:
    return bench.mail.table(bench.mail.newcomers(RECIPIENTS), bench.scale.one_by_one)
