"""S: the same hub on PostgreSQL and on SQLite, beside the usual table queue on the same PostgreSQL.

This measures the cost of a store beyond the network, and the gain of the hub's way to store over a row for each message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

from bench import contenders
from bench.load import CONNECTIONS, LoadProcess
from bench.mail import recipient_names
from bench.ours_wire import Restante
from bench.outcome import Figure, Line, Outcome, faster
from bench.peer import Operation, Peer
from bench.peers.postgresql import USER, Postgresql
from bench.sampling import Contender, Samples
from bench.server import LOCALHOST, Way, driver
from bench.wire import OURS, WireBench

ON_POSTGRESQL = "restante on PostgreSQL"
ON_SQLITE = "restante on SQLite"
QUEUE = "table queue on PostgreSQL"
AT_LEAST = 3.0
_DATABASE = "mail"


def run(bench: WireBench) -> Outcome:
    queue = bench.servers.get(Postgresql.name)
    if not isinstance(queue, Postgresql):
        return Outcome(notes=["PostgreSQL does not run here: nothing was compared"])
    outcome = Outcome()
    with _on_postgresql(bench, queue) as served:
        for what, measure, goal in _measures(bench):
            _add(outcome, what, measure(served), goal)
    return outcome


Ways = Callable[[Operation], dict[str, Way]]
Measure = Callable[[Ways], dict[str, Figure]]


def _measures(bench: WireBench) -> Sequence[tuple[str, Measure, float | None]]:
    scale, mail = bench.scale, bench.mail
    many = recipient_names(scale.send_recipients)
    bulk = partial(_bulk, bench)
    return (
        (
            "S publish 51,200 to one",
            bulk(Operation.PUBLISH, lambda name, peer: contenders.publish(name, peer, mail, mail.newcomer, scale.send)),
            AT_LEAST,
        ),
        (
            "S publish 50,000 to 5,000",
            bulk(
                Operation.PUBLISH, lambda name, peer: contenders.publish(name, peer, mail, lambda: many, scale.spread)
            ),
            AT_LEAST,
        ),
        (
            "S peek 51,200",
            bulk(Operation.PEEK, lambda name, peer: contenders.peek(name, peer, mail, scale.send)),
            AT_LEAST,
        ),
        (
            "S dequeue 51,200",
            bulk(Operation.DEQUEUE, lambda name, peer: contenders.dequeue(name, peer, mail, scale.send)),
            None,
        ),
        ("S publishes of 64 connections", partial(_small, bench), None),
    )


def _bulk(bench: WireBench, operation: Operation, contender: Callable[[str, Peer], Contender]) -> Measure:
    def measure(ways: Ways) -> dict[str, Figure]:
        with ExitStack() as stack:
            made = [
                contender(name, stack.enter_context(closing(connect()))) for name, connect in ways(operation).items()
            ]
            samples = bench.interleave(operation.name, made, bench.scale.repetitions)
        return {name: Figure.of_seconds(found, name) for name, found in samples.items()}

    return measure


def _small(bench: WireBench, ways: Ways) -> dict[str, Figure]:
    count = CONNECTIONS * bench.scale.connection_rounds

    def contender(name: str, load: LoadProcess) -> Contender:
        def prepare() -> None:
            load.prepare(bench.mail.table(bench.mail.newcomers(CONNECTIONS), count))

        return Contender(name, prepare, lambda _: load.run().seconds)

    with ExitStack() as stack:
        made = [
            contender(name, stack.enter_context(LoadProcess(connect)))
            for name, connect in ways(Operation.CONNECTIONS).items()
        ]
        samples: dict[str, Samples] = bench.interleave("small publishes", made, bench.scale.repetitions)
    return {name: Figure.of_rate(found, count, name) for name, found in samples.items()}


def new_database(server: Postgresql, name: str) -> str:
    """The address of a database of its own on a server."""
    with driver("psycopg").connect(server.address, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
    place: Any = driver("psycopg.conninfo").conninfo_to_dict(server.address)
    return f"postgresql://{USER}@{LOCALHOST}:{place['port']}/{name}"


@contextmanager
def _on_postgresql(bench: WireBench, queue: Postgresql) -> Iterator[Ways]:
    """The three that are compared. The hub on PostgreSQL has a database of its own on the same server."""
    with closing(Restante(bench.fresh_folder(), store=new_database(queue, _DATABASE))) as hub:
        servers = {ON_POSTGRESQL: hub, ON_SQLITE: bench.servers[OURS], QUEUE: queue}

        def ways(operation: Operation) -> dict[str, Way]:
            """One way of each: the client that programs use."""
            found = {name: server.ways(operation) for name, server in servers.items()}
            return {name: next(iter(each.values())) for name, each in found.items()}

        yield ways


def _add(outcome: Outcome, what: str, figures: dict[str, Figure], goal: float | None) -> None:
    ours = figures[ON_POSTGRESQL]
    lines: list[Line] = [
        faster(what, ours, figures[QUEUE], at_least=goal, of="the table queue"),
        faster(what, ours, figures[ON_SQLITE]),
    ]
    outcome.lines += lines
    outcome.figures += [(what, figure) for figure in figures.values()]
