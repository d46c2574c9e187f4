"""Small publishes of 64 connections while another process publishes bodies of about 1.5 MB without pause.

A sample is the 99th percentile of the small ones; the bulk process runs before the first of them and after the last.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack

from bench.load import CONNECTIONS, Bulk, BulkProcess, LoadProcess
from bench.outcome import Figure, Goal, Line, Outcome, slower
from bench.peer import Operation
from bench.sampling import Contender, percentiles
from bench.server import Server
from bench.wire import BARE, OURS, WireBench

WHAT = "small publishes beside bulk, p99"
GOAL = Goal("≤ 15 ms", at_most=0.015, of_value=True)


def run(bench: WireBench) -> Outcome:
    rates: dict[str, list[float]] = {}
    with ExitStack() as stack:
        bulks: dict[str, BulkProcess] = {}
        for server in bench.servers.values():
            bulks |= _bulks(bench, server, stack)

        def contender(name: str, load: LoadProcess) -> Contender:
            return _contender(bench, name, load, bulks[name], rates.setdefault(name, []))

        contest = bench.load_contest(WHAT, Operation.CONNECTIONS, contender)
    outcome = contest.outcome(lambda ours, theirs, _: slower(WHAT, ours, theirs), but=BARE)
    if OURS in contest.ways:
        outcome.lines[:0] = [_goal(figure) for figure in contest.ways[OURS].figures.values()]
    outcome.notes = [f"bulk beside small publishes, {name}: {_text(found)}" for name, found in rates.items()]
    return outcome


def _bulks(bench: WireBench, server: Server, stack: ExitStack) -> dict[str, BulkProcess]:
    """The process that publishes in bulk, beside whatever way of the server's small publishes."""
    ways = server.ways(Operation.CONNECTIONS)
    if not ways:
        return {}
    connect = next(iter(server.ways(Operation.BULK).values()))
    return dict.fromkeys(ways, stack.enter_context(BulkProcess(Bulk(connect, bench.scale.bulk))))


def _contender(bench: WireBench, name: str, load: LoadProcess, bulk: BulkProcess, rates: list[float]) -> Contender:
    def prepare() -> None:
        count = CONNECTIONS * bench.scale.connection_rounds
        load.prepare(bench.mail.table(bench.mail.newcomers(CONNECTIONS), count))
        bulk.start()

    def measure(_: None) -> float:
        latencies = load.run().latencies
        found = bulk.stop()
        if found.seconds:
            rates.append(len(found.latencies) * bulk.messages / found.seconds)
        return percentiles(latencies, 0.99)[0]

    return Contender(name, prepare, measure)


def _goal(figure: Figure) -> Line:
    how = f", {figure.name.partition(', ')[2]}" if ", " in figure.name else ""
    return Line(f"{WHAT}{how}", figure, goal=GOAL)


def _text(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f} messages/s" if rates else "no body was finished meanwhile"
