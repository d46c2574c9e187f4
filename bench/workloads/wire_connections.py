"""W5: durable publishes of 64 connections at a time, each of which waits for its answers.

Compared twice: by the clients that programs use, and over bare sockets with requests made before, which shows the
servers alone.
"""

from __future__ import annotations

from bench.load import CONNECTIONS, LoadProcess
from bench.outcome import Figure, Line, Outcome, faster
from bench.peer import Operation
from bench.sampling import Contender
from bench.wire import BARE, WireBench, as_rates

WHAT = "W5 64 connections"
CLIENTS, SOCKETS = "by the clients", "over bare sockets"
AT_LEAST = {(CLIENTS, "postgresql"): 1.0, (SOCKETS, "nats"): 1.5, (SOCKETS, "valkey"): 0.35}


def run(bench: WireBench) -> Outcome:
    count = CONNECTIONS * bench.scale.connection_rounds

    def contender(name: str, load: LoadProcess) -> Contender:
        def prepare() -> None:
            load.prepare(bench.mail.table(bench.mail.newcomers(CONNECTIONS), count))

        return Contender(name, prepare, lambda _: load.run().seconds)

    contest = as_rates(bench.load_contest(WHAT, Operation.CONNECTIONS, contender), count)
    outcome = contest.outcome(lambda *compared: _line(CLIENTS, *compared), but=BARE)
    outcome.lines += contest.outcome(lambda *compared: _line(SOCKETS, *compared), only=BARE).lines
    return outcome


def _line(how: str, ours: Figure, theirs: Figure, peer: str) -> Line:
    return faster(f"{WHAT}, {how}", ours, theirs, at_least=AT_LEAST.get((how, peer)), of=peer)
