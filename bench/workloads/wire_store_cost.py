"""W27: what a hub asks of its database: processor time of the server and octets of its log, for a commit and a message.

With several nodes the database is what all of them share, so these bound a cluster. A commit costs the server about the same
whatever is in it; how many messages share one depends on how many come at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from bench import contenders
from bench.drivers.restante import OneByOneBare, bare_connections
from bench.load import CONNECTIONS, Driver
from bench.mail import recipient_names
from bench.ours_wire import Restante, RestanteClient
from bench.outcome import Figure, Outcome, Unit
from bench.peers.postgresql import Postgresql
from bench.process import processor_seconds
from bench.server import driver
from bench.wire import WireBench
from bench.workloads.wire_store import new_database

WHAT = "W27 a hub's database"
ONE, SMALL, BULK = "publishes of one connection", "publishes of 64 connections", "50,000 messages to 5,000"
TIME_OF_COMMIT, TIME, LOG, SHARED = "processor time of a commit", "processor time", "log", "messages of a commit"
PLACE = "PostgreSQL"
_DATABASE = "cost"
_LOOK = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, (SELECT sum(commits) FROM restante_shards)"


@dataclass(frozen=True, slots=True)
class _Used:
    """The use of the server so far."""

    seconds: float
    log_bytes: float
    commits: float

    def since(self, before: _Used) -> _Used:
        return _Used(self.seconds - before.seconds, self.log_bytes - before.log_bytes, self.commits - before.commits)


def run(bench: WireBench) -> Outcome:
    server = bench.servers.get(Postgresql.name)
    if not isinstance(server, Postgresql):
        return Outcome(notes=["PostgreSQL does not run here: nothing was measured"])
    outcome, url = Outcome(), new_database(server, _DATABASE)
    with ExitStack() as stack:
        hub = stack.enter_context(closing(Restante(bench.fresh_folder(), store=url)))
        session = stack.enter_context(driver("psycopg").connect(url, autocommit=True))
        for name, count, work in _works(bench, hub, stack):
            work()  # which does not count
            before = _used(server, session)
            for _ in range(bench.scale.repetitions):
                work()
            used = _used(server, session).since(before)
            outcome.figures += _figures(name, used, count * bench.scale.repetitions)
    return outcome


def _used(server: Postgresql, session: Any) -> _Used:
    log_bytes, commits = session.execute(_LOOK).fetchone()
    return _Used(processor_seconds(server.pid), float(log_bytes), float(commits))


def _figures(name: str, used: _Used, messages: int) -> list[tuple[str, Figure]]:
    found = {
        TIME_OF_COMMIT: (used.seconds / used.commits, Unit.SECONDS),
        TIME: (used.seconds / messages, Unit.SECONDS),
        LOG: (used.log_bytes / messages, Unit.BYTES),
        SHARED: (messages / used.commits, Unit.RATIO),
    }
    return [(f"{WHAT}: {name}, {what}", Figure(value, unit, PLACE)) for what, (value, unit) in found.items()]


def _works(bench: WireBench, hub: Restante, stack: ExitStack) -> list[tuple[str, int, Callable[[], object]]]:
    """The works: what is done, how many messages that is, and how it is done once."""
    one = stack.enter_context(closing(OneByOneBare(hub.port)))
    many = stack.enter_context(closing(bare_connections(hub.port)))
    client = stack.enter_context(closing(RestanteClient(hub.url)))
    rounds = CONNECTIONS * bench.scale.connection_rounds
    return [
        (ONE, bench.scale.one_by_one, lambda: _small(bench, one, bench.scale.one_by_one)),
        (SMALL, rounds, lambda: _small(bench, many, rounds)),
        (BULK, *_bulk(bench, client)),
    ]


def _small(bench: WireBench, publishers: Driver, count: int) -> None:
    publishers.prepare(bench.mail.table(bench.mail.newcomers(CONNECTIONS), count))
    publishers.run()


def _bulk(bench: WireBench, client: RestanteClient) -> tuple[int, Callable[[], object]]:
    recipients, count = recipient_names(bench.scale.send_recipients), bench.scale.spread
    sending = contenders.publish("restante", client, bench.mail, lambda: recipients, count)
    return count, lambda: sending.measure(sending.prepare())
