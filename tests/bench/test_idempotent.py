"""The comparison of numbered with plain publishing: both do the same work, and only one of them is numbered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import restante
from bench.drivers.parcels import BareParcels, parcel_connections
from bench.drivers.producers import Buffered, BulkProducer, BulkSends, NumberedProducers, PlainProducers, SharedProducer
from bench.load import CONNECTIONS, Driver
from bench.mail import Mail, recipient_name, recipient_names
from bench.ours_wire import Restante
from bench.outcome import Figure, Unit, by_turns
from bench.peer import Peer
from restante.calls.producers import ListProducers
from restante.client.surface.sync import Hub
from restante.model.storage.partition import partition_of

ROUNDS = 3
PARCEL = 500
PARTITIONS = 16


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restante]:
    with closing(Restante(tmp_path)) as server:
        yield server


def _producers(hub: Hub) -> int:
    return sum(len(hub.link.call(ListProducers(partition)).producers) for partition in range(PARTITIONS))


def _stored(server: Restante) -> int:
    """Not by sequence numbers: between publishes there may be gaps."""
    return server.metric("restante_messages_accepted_total")


def _drivers(server: Restante) -> dict[str, tuple[Callable[[], Driver], int]]:
    """Each with the number of producers that it is to leave."""
    bare = partial(parcel_connections, server.port, partition_count=PARTITIONS)
    shared = partial(SharedProducer, server.url, PARTITIONS)
    addressed = {partition_of(recipient_name(number), PARTITIONS) for number in range(CONNECTIONS)}
    return {
        "bare, plain": (partial(bare, numbered=False), 0),
        "clients, plain": (partial(PlainProducers, server.url, PARTITIONS), 0),
        "bare": (partial(bare, numbered=True), CONNECTIONS),
        "clients": (partial(NumberedProducers, server.url, PARTITIONS), CONNECTIONS),
        "one client": (partial(shared, pipelined=False), len(addressed)),
        "one client, pipelined": (partial(shared, pipelined=True), len(addressed)),
        "buffered": (partial(Buffered, server.url), len(addressed)),
    }


def test_each_way_of_small_publishes_stores_everything_and_only_the_numbered_ones_leave_producers(
    server: Restante,
) -> None:
    mail, count = Mail(), CONNECTIONS * ROUNDS
    dealt = pa.array(recipient_names(CONNECTIONS).to_pylist() * ROUNDS, pa.string())
    with restante.connect(server.url) as hub:
        for name, (make, producers) in _drivers(server).items():
            stored, known = _stored(server), _producers(hub)
            with closing(make()) as driver:
                for _ in range(2):  # the numbers go on in the second
                    driver.prepare(mail.one_each(dealt))
                    assert driver.run().seconds > 0, name
            assert _stored(server) - stored == 2 * count, name
            assert _producers(hub) - known == producers, name


def test_each_way_of_large_parcels_stores_everything_and_only_the_numbered_ones_leave_a_producer(
    server: Restante,
) -> None:
    mail = Mail()
    names = [name for name in map(recipient_name, range(100)) if partition_of(name, PARTITIONS) == 0]
    ways: dict[str, tuple[Peer, int]] = {
        "bare, plain": (BareParcels(server.port, numbered=False, partition=0), 0),
        "client, plain": (BulkSends(server.url, 0), 0),
        "bare": (BareParcels(server.port, numbered=True, partition=0), 1),
        "client": (BulkProducer(server.url, 0), 1),
    }
    with restante.connect(server.url) as hub:
        for name, (peer, producers) in ways.items():
            stored, known = _stored(server), _producers(hub)
            with closing(peer):
                for _ in range(2):
                    peer.publish(peer.prepare(mail.table(pa.array(names, pa.string()), PARCEL)))
            assert _stored(server) - stored == 2 * PARCEL, name
            assert _producers(hub) - known == producers, name


def test_the_ratio_of_two_that_ran_in_turn_is_that_of_the_rounds_however_the_machine_drifts() -> None:
    numbered = Figure(20.0, Unit.SECONDS, "numbered", (2.0, 20.0, 30.0))
    plain = Figure(10.0, Unit.SECONDS, "plain", (2.0, 10.0, 10.0))
    line = by_turns("parcels", numbered, plain, at_most=2)
    assert line.ratio == 2
    assert line.met
    assert not by_turns("parcels", numbered, plain, at_most=1.9).met


def test_the_ratio_of_rates_says_how_many_times_as_long_it_takes() -> None:
    numbered = Figure(50.0, Unit.RATE, "numbered", (50.0, 40.0, 100.0))
    plain = Figure(100.0, Unit.RATE, "plain", (100.0, 100.0, 100.0))
    assert by_turns("singles", numbered, plain).ratio == 2
