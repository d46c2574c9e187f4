"""W25: small publishes of 64 connections and a bulk publish, to a hub of one process, of 2 shards and a door, of 4 and 2.

The rates say what this machine's cores give; the processor time of a message, in the shards and in the doors apart, says
what a machine with more of them would. And for how long commits are held for a backup over all shards, while small publishes come.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from urllib.request import urlopen

from bench import contenders
from bench.drivers.restante import bare_connections
from bench.load import CONNECTIONS
from bench.mail import recipient_names
from bench.ours_wire import Restante, RestanteClient
from bench.outcome import Figure, Goal, Line, Outcome, Unit, faster_by_turns, seconds_text
from bench.process import processor_seconds, processor_seconds_by
from bench.sampling import Contender, Samples
from bench.sockets import BareConnections
from bench.wire import WireBench
from restante.hub.upkeep.restore import verify
from restante.limits import CUT_SECONDS_MAX

SMALL = "W25 small publishes of 64 connections"
BULK = "W25 publish 50,000 to 5,000"
HOLD = "W25 commits held for a backup"
ONE_PROCESS = "one process"
LAYOUTS = {ONE_PROCESS: (1, 1), "2 shards, 1 door": (2, 1), "4 shards, 2 doors": (4, 2)}
KINDS = ("shard", "door")


@dataclass(slots=True)
class _Hub:
    """A hub of so many processes, and the processor seconds of each sample, by kind of process."""

    name: str
    server: Restante
    used: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def processor_seconds(self) -> dict[str, float]:
        if self.name == ONE_PROCESS:
            return {"shard": processor_seconds(self.server.pid), "door": 0.0}
        return processor_seconds_by(self.server.pid, KINDS)

    def counted(self, what: str, contender: Contender) -> Contender:
        """A contender that also notes the processor time of all processes in each sample. The first sample warms up."""

        def measure(prepared: object) -> float:
            before = self.processor_seconds()
            seconds = contender.measure(prepared)
            after = self.processor_seconds()
            self.used.setdefault(what, []).append({kind: after[kind] - before[kind] for kind in KINDS})
            return seconds

        return Contender(contender.name, contender.prepare, measure)

    def figures(self, what: str, count: int) -> list[Figure]:
        """Processor time of a message, in shards and in doors."""
        return [
            Figure.of_seconds(
                Samples(tuple(used[kind] / count for used in self.used[what][1:])), f"{self.name}, {kind}s"
            )
            for kind in (KINDS if self.name != ONE_PROCESS else KINDS[:1])
        ]


def run(bench: WireBench) -> Outcome:
    with ExitStack() as stack:
        hubs = [
            _Hub(name, stack.enter_context(closing(Restante(bench.fresh_folder(), options=_options(*layout)))))
            for name, layout in LAYOUTS.items()
        ]
        small = _small(bench, hubs, stack)
        bulk = _bulk(bench, hubs, stack)
        holds = [_hold(bench, hub) for hub in hubs if hub.name != ONE_PROCESS]
    return Outcome([*small.lines, *bulk.lines, *holds], figures=[*small.figures, *bulk.figures])


def _options(shards: int, doors: int) -> list[str]:
    return ["--shards", str(shards), "--doors", str(doors)]


def _small(bench: WireBench, hubs: list[_Hub], stack: ExitStack) -> Outcome:
    count = CONNECTIONS * bench.scale.connection_rounds

    def contender(hub: _Hub) -> Contender:
        connections = stack.enter_context(closing(bare_connections(hub.server.port)))
        return hub.counted(SMALL, _connected(bench, hub.name, connections, count))

    return _outcome(bench, SMALL, hubs, [contender(hub) for hub in hubs], count)


def _connected(bench: WireBench, name: str, connections: BareConnections, count: int) -> Contender:
    def prepare() -> None:
        connections.prepare(bench.mail.table(bench.mail.newcomers(CONNECTIONS), count))

    return Contender(name, prepare, lambda _: connections.run().seconds)


def _hold(bench: WireBench, hub: _Hub) -> Line:
    """The longest of some backups, each while small publishes come."""
    count, held = CONNECTIONS * bench.scale.connection_rounds, []
    with closing(bare_connections(hub.server.port)) as connections, ThreadPoolExecutor(1) as pool:
        for _ in range(bench.scale.repetitions):
            connections.prepare(bench.mail.table(bench.mail.newcomers(CONNECTIONS), count))
            publishing = pool.submit(connections.run)
            with urlopen(f"{hub.server.url}/v1/backup") as backup:
                held.append(verify(backup.read).held_ms / 1_000)
            publishing.result()
    goal = Goal(f"≤ {seconds_text(CUT_SECONDS_MAX)}", at_most=CUT_SECONDS_MAX, of_value=True)
    return Line(f"{HOLD}: {hub.name}", Figure(max(held), Unit.SECONDS, hub.name, tuple(held)), goal=goal)


def _bulk(bench: WireBench, hubs: list[_Hub], stack: ExitStack) -> Outcome:
    recipients, spread = recipient_names(bench.scale.send_recipients), bench.scale.spread

    def contender(hub: _Hub) -> Contender:
        peer = stack.enter_context(closing(RestanteClient(hub.server.url)))
        return hub.counted(BULK, contenders.publish(hub.name, peer, bench.mail, lambda: recipients, spread))

    return _outcome(bench, BULK, hubs, [contender(hub) for hub in hubs], spread)


def _outcome(bench: WireBench, what: str, hubs: list[_Hub], taking: list[Contender], count: int) -> Outcome:
    """The rate of each beside one process, and the processor time of a message."""
    samples = bench.interleave(what, taking, bench.scale.repetitions)
    rates = {name: Figure.of_rate(taken, count, name) for name, taken in samples.items()}
    one = rates.pop(ONE_PROCESS)
    lines = [faster_by_turns(f"{what}: {name}", rate, one) for name, rate in rates.items()]
    used = [(f"{what}, processor time", figure) for hub in hubs for figure in hub.figures(what, count)]
    assert all(figure.unit is Unit.SECONDS for _, figure in used)
    return Outcome(lines, figures=[*((what, rate) for rate in (one, *rates.values())), *used])
