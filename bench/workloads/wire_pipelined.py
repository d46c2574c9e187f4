"""W5: durable publishes over one connection that does not wait for the answers."""

from __future__ import annotations

from bench.load import CONNECTIONS, LoadProcess
from bench.outcome import Outcome, faster
from bench.peer import Operation
from bench.sampling import Contender
from bench.wire import WireBench, as_rates

WHAT = "W5 one pipelined link"
AT_LEAST = {"valkey": 1.0}


def run(bench: WireBench) -> Outcome:
    count = bench.scale.pipelined

    def contender(name: str, load: LoadProcess) -> Contender:
        def prepare() -> None:
            load.prepare(bench.mail.table(bench.mail.newcomers(CONNECTIONS), count))

        return Contender(name, prepare, lambda _: load.run().seconds)

    contest = as_rates(bench.load_contest(WHAT, Operation.PIPELINE, contender), count)
    return contest.outcome(lambda ours, theirs, peer: faster(WHAT, ours, theirs, at_least=AT_LEAST.get(peer), of=peer))
