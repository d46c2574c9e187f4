"""W5: processor time of a small durable publish in the server, all its threads, at 64 connections over bare sockets.

Beside a bare protocol on httptools that answers at once and stores nothing: what HTTP costs at least. The two run in turn.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.drivers.restante import bare_connections
from bench.load import CONNECTIONS
from bench.ours_wire import Restante
from bench.outcome import Figure, Outcome, by_turns
from bench.process import processor_seconds
from bench.sampling import Contender, Samples
from bench.server import Process, free_port, listening
from bench.sockets import BareConnections
from bench.wire import WireBench

WHAT = "W5 processor time of a small publish"
AT_MOST = 7.0
BARE_PROTOCOL = "bare protocol"
_ROUNDS = 3
"""The rounds of a sample, each as long as one of the other workloads: the kernel counts processor time in hundredths of a second."""


def run(bench: WireBench) -> Outcome:
    count = CONNECTIONS * bench.scale.connection_rounds
    # On a folder of its own, as the server of the other workloads has their mail.
    with (
        closing(Restante(bench.fresh_folder())) as ours,
        _bare_protocol(bench.fresh_folder()) as (bare, port),
        closing(bare_connections(ours.port)) as to_ours,
        closing(bare_connections(port)) as to_bare,
    ):
        contenders = [
            _contender(bench, Restante.name, to_ours, ours.pid, count),
            _contender(bench, BARE_PROTOCOL, to_bare, bare.pid, count),
        ]
        samples = bench.interleave(WHAT, contenders, bench.scale.repetitions)
    figures = {name: Figure.of_seconds(_each(taken, _ROUNDS * count), name) for name, taken in samples.items()}
    line = by_turns(WHAT, figures[Restante.name], figures[BARE_PROTOCOL], at_most=AT_MOST)
    return Outcome([line], figures=[(WHAT, figure) for figure in figures.values()])


@contextmanager
def _bare_protocol(folder: Path) -> Iterator[tuple[Process, int]]:
    port = free_port()
    process = Process([sys.executable, "-m", "bench.bare_protocol", str(port)], Path.cwd(), log=folder / "server.log")
    try:
        process.wait_until(lambda: listening(port))
        yield process, port
    finally:
        process.stop(signal.SIGTERM)


def _contender(bench: WireBench, name: str, connections: BareConnections, pid: int, count: int) -> Contender:
    def prepare() -> None:
        connections.prepare(bench.mail.table(bench.mail.newcomers(CONNECTIONS), count * _ROUNDS))

    def measure(_: object) -> float:
        before = processor_seconds(pid)
        connections.run()
        return processor_seconds(pid) - before

    return Contender(name, prepare, measure)


def _each(samples: Samples, count: int) -> Samples:
    return Samples(tuple(seconds / count for seconds in samples.seconds))
