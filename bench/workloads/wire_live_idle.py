"""W15: 10,000 idle live connections on one server: memory of each, and the latency of a push then.

Bare sockets for everybody. Memory is what the server's process has more than before, for each connection with its mailbox.
Then messages are published to some of them, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.live import Moments, More, Sending, at_random, latencies
from bench.live_lines import PERCENTILES, percentile
from bench.live_stage import Party, Stage, parties
from bench.outcome import Figure, Line, Outcome, Unit, slower
from bench.server import raise_file_limit
from bench.wire import BARE, OURS, WireBench

WHAT = "W15 10,000 idle connections"
FILES_BESIDE = 1_000
"""Open files that are no idle connections."""


def run(bench: WireBench) -> Outcome:
    """One server after the other, so that no idle ones are beside."""
    connections = min(bench.scale.live_idle, raise_file_limit() - FILES_BESIDE)
    memory: dict[str, Figure] = {}
    taken: dict[str, list[Moments]] = {}
    with parties(bench, only=BARE) as taking_part:
        able = [party for party in taking_part if party.ways]
        with bench.display.bar(WHAT, len(able)) as advance:
            for party in able:
                name = party.server.name
                memory[name], taken[name] = _measure(bench, party, connections)
                advance(name)
    outcome = Outcome(notes=[f"W15: {connections:,} connections"])
    _compare(outcome, f"{WHAT}, memory of each", memory)
    for name, fraction in PERCENTILES.items():
        found = {server: percentile(samples, fraction, server) for server, samples in taken.items()}
        _compare(outcome, f"{WHAT}, a push, {name}", found)
    return outcome


def _measure(bench: WireBench, party: Party, connections: int) -> tuple[Figure, list[Moments]]:
    """Memory of a connection, and the latencies of pushes; those of a first round do not count."""
    scale, server = bench.scale, party.server
    (way,) = party.ways
    names = bench.mail.newcomers(connections)
    shows = [at_random(bench.mail, names, messages=scale.live_pushes) for _ in range(2)]
    samples = []
    with Stage(way) as stage:
        before = server.resident_bytes()
        stage.gather(shows[0].audience)
        each = (server.resident_bytes() - before) / connections
        for show in shows:
            stage.gather(More(show.audience.expected))
            published, received = stage.perform(Sending(show.table, scale.live_push_pace))
            show.check(received)
            samples.append(latencies(published, received))
        stage.leave()
    party.settle()
    return Figure(each, Unit.BYTES, server.name), samples[1:]


def _compare(outcome: Outcome, what: str, figures: dict[str, Figure]) -> None:
    outcome.figures += [(what, figure) for figure in figures.values()]
    ours = figures.get(OURS)
    if ours is None:
        return
    peers: Sequence[Figure] = sorted(
        (figure for name, figure in figures.items() if name != OURS), key=lambda figure: figure.value
    )
    outcome.lines += [slower(what, ours, peer) for peer in peers] or [Line(what, ours)]
