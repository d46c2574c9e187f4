"""W26: live connections through a door: the memory of each, and the processor time of a message that is stored and pushed.

A connection through a door is two: from the client to the door, and from there to the shard that has the mailbox.
"""

from __future__ import annotations

from contextlib import closing

from bench.live import More, Sending, at_random
from bench.live_stage import Stage
from bench.ours_live import bare
from bench.ours_wire import Restante
from bench.outcome import Figure, Outcome, Unit
from bench.process import processor_seconds
from bench.server import raise_file_limit
from bench.wire import WireBench

WHAT = "W26 live connections"
MEMORY, TIME = "memory of each", "processor time of a message"
ONE_PROCESS, DOOR = "one process", "2 shards, 1 door"
LAYOUTS: dict[str, list[str]] = {ONE_PROCESS: [], DOOR: ["--shards", "2", "--doors", "1"]}
_FILES_BESIDE = 1_000
_ENDS = 2
"""The ends of a connection in a door."""


def run(bench: WireBench) -> Outcome:
    connections = min(bench.scale.live_idle, (raise_file_limit() - _FILES_BESIDE) // _ENDS)
    outcome = Outcome(notes=[f"W26: {connections:,} connections"])
    for name, options in LAYOUTS.items():
        with closing(Restante(bench.fresh_folder(), options=options)) as server:
            memory, time = _measure(bench, server, connections)
        outcome.figures.append((f"{WHAT}, {MEMORY}", Figure(memory, Unit.BYTES, name)))
        outcome.figures.append((f"{WHAT}, {TIME}", Figure(time, Unit.SECONDS, name)))
    return outcome


def _measure(bench: WireBench, server: Restante, connections: int) -> tuple[float, float]:
    """Messages are published in bulk, twice; the first time does not count."""
    names, count = bench.mail.newcomers(connections), bench.scale.live_connections * bench.scale.live_each
    with Stage(bare(server)) as stage:
        before = server.resident_bytes()
        stage.gather(at_random(bench.mail, names, messages=count).audience)
        memory = (server.resident_bytes() - before) / connections
        used = 0.0
        for _ in range(2):
            show = at_random(bench.mail, names, messages=count)
            stage.gather(More(show.audience.expected))
            began = processor_seconds(server.pid)
            _, received = stage.perform(Sending(show.table, None))
            used = processor_seconds(server.pid) - began
            show.check(received)
        stage.leave()
    return memory, used / count
