"""W6: publishing that may be repeated, as against plain publishing, over the wire.

The hub is its own reference: the same work with numbers and without. The two run in turn, and the ratio is the median
over the rounds of the ratio in each, so that what the machine does meanwhile cancels. Compared twice: by the clients
that programs use, and over bare sockets, where both send the same bodies to the same route.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import cast

import pyarrow as pa

from bench.drivers.parcels import BareParcels, parcel_connections
from bench.drivers.producers import (
    Buffered,
    BulkProducer,
    BulkSends,
    NumberedProducers,
    PlainProducers,
    SharedProducer,
)
from bench.drivers.restante import Pipelined
from bench.load import CONNECTIONS, Driver, LoadProcess
from bench.mail import recipient_name
from bench.ours_wire import Restante, RestanteClient
from bench.outcome import Figure, Line, Outcome, by_turns, ratios
from bench.peer import Peer
from bench.sampling import Contender, Samples, percentiles, timed
from bench.wire import OURS, WireBench
from restante.model.storage.partition import partition_of

AT_MOST = 1.1
PLAIN, NUMBERED = "plain", "numbered"
PARTITION = 0
"""The partition of the large parcels."""
FIRST_RECIPIENT = 8_000_000_000
"""Recipients from here on are those of this workload."""

ToFigure = Callable[[Samples, str], Figure]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two ways that ran in turn; the second is the reference."""

    what: str
    ours: Figure
    reference: Figure
    at_most: float | None

    def line(self) -> Line:
        return by_turns(self.what, self.ours, self.reference, at_most=self.at_most)

    def note(self) -> str:
        found = ratios(self.ours, self.reference)
        low, high = percentiles(found.samples, 0.25, 0.75)
        return f"{self.what}: {found.value:.3f} ×, half of {len(found.samples)} rounds from {low:.3f} to {high:.3f}"

    def figures(self) -> list[tuple[str, Figure]]:
        found = (self.ours, self.reference, ratios(self.ours, self.reference))
        return [(self.what, figure) for figure in found]


def run(bench: WireBench) -> Outcome:
    if OURS not in bench.servers:
        return Outcome()
    server = cast("Restante", bench.servers[OURS])
    with closing(RestanteClient(server.url)) as client:
        ring = _Ring(bench, server, client)
        pairs = [*ring.bulk(), *ring.singles(), *ring.links()]
    return Outcome(
        [pair.line() for pair in pairs],
        notes=[pair.note() for pair in pairs],
        figures=[found for pair in pairs for found in pair.figures()],
    )


class _Ring:
    """The server, and how two of its ways are compared."""

    def __init__(self, bench: WireBench, server: Restante, client: RestanteClient) -> None:
        self._bench = bench
        self._server = server
        self._client = client
        self._partitions = len(client.hub.partitions())

    def bulk(self) -> list[Pair]:
        """Large parcels of one partition: for one recipient, and for many."""
        url, port = self._server.url, self._server.port
        bare = partial(BareParcels, port, partition=PARTITION)
        found = []
        for who, recipients in (
            ("one", 1),
            (f"{self._bench.scale.send_recipients:,}", self._bench.scale.send_recipients),
        ):
            what = f"W6 parcel of 51,200 for {who}"
            names = self._recipients(recipients)
            found.append(
                self._bulk_pair(f"{what}, over bare sockets", bare(numbered=True), bare(numbered=False), names)
            )
            clients = BulkProducer(url, PARTITION), BulkSends(url, PARTITION)
            found.append(self._bulk_pair(f"{what}, by the clients", *clients, names))
        return found

    def singles(self) -> list[Pair]:
        """Single messages of 64 producers at a time, each with a group of its own."""
        bare = partial(parcel_connections, self._server.port, partition_count=self._partitions)
        numbered, plain = (
            partial(kind, self._server.url, self._partitions) for kind in (NumberedProducers, PlainProducers)
        )
        what = "W6 64 producers"
        return [
            self._load_pair(
                f"{what}, over bare sockets",
                {NUMBERED: partial(bare, numbered=True), PLAIN: partial(bare, numbered=False)},
                at_most=AT_MOST,
            ),
            self._load_pair(f"{what}, by the clients", {NUMBERED: numbered, PLAIN: plain}, at_most=AT_MOST),
        ]

    def links(self) -> list[Pair]:
        """For information: the ways in which one numbering client may carry many small messages."""
        url, scale = self._server.url, self._bench.scale
        shared = partial(SharedProducer, url, self._partitions)
        return [
            self._load_pair(
                "W6 one client, 64 tasks",
                {"pipelined": partial(shared, pipelined=True), "requests": partial(shared, pipelined=False)},
            ),
            self._load_pair(
                "W6 one by one into a buffer",
                {"buffered, numbered": partial(Buffered, url), "pipeline, plain": partial(Pipelined, url)},
                messages=scale.pipelined,
            ),
        ]

    def _bulk_pair(self, what: str, numbered: Peer, plain: Peer, recipients: pa.StringArray) -> Pair:
        bench = self._bench

        def contender(name: str, peer: Peer) -> Contender:
            def prepare() -> object:
                self._client.settle()
                return peer.prepare(bench.mail.table(recipients, bench.scale.send))

            return Contender(name, prepare, timed(peer.publish))

        with closing(numbered), closing(plain):
            turns = [contender(NUMBERED, numbered), contender(PLAIN, plain)]
            return self._pair(what, turns, Figure.of_seconds, at_most=AT_MOST)

    def _load_pair(
        self, what: str, ways: dict[str, Callable[[], Driver]], *, messages: int = 0, at_most: float | None = None
    ) -> Pair:
        """The first way against the second, each by a process of its own."""
        messages = messages or CONNECTIONS * self._bench.scale.turn_rounds
        with ExitStack() as stack:
            turns = [
                self._load_contender(name, stack.enter_context(LoadProcess(way)), messages)
                for name, way in ways.items()
            ]
            return self._pair(
                what, turns, lambda samples, name: Figure.of_rate(samples, messages, name), at_most=at_most
            )

    def _load_contender(self, name: str, load: LoadProcess, messages: int) -> Contender:
        """A publisher has one recipient, and so one partition, through all samples."""
        publishers = [recipient_name(FIRST_RECIPIENT + number) for number in range(CONNECTIONS)]

        def prepare() -> None:
            self._client.settle()
            dealt = pa.array([publishers[index % CONNECTIONS] for index in range(messages)], pa.string())
            load.prepare(self._bench.mail.one_each(dealt))

        return Contender(name, prepare, lambda _: load.run().seconds)

    def _pair(self, what: str, turns: Sequence[Contender], to_figure: ToFigure, *, at_most: float | None) -> Pair:
        samples = self._bench.interleave(what, turns, self._bench.scale.turns)
        ours, reference = (to_figure(samples[turn.name], turn.name) for turn in turns)
        return Pair(what, ours, reference, at_most)

    def _recipients(self, number: int) -> pa.StringArray:
        """The recipients, so many of them, that belong to the partition of the large parcels."""
        names = (recipient_name(FIRST_RECIPIENT + place) for place in count())
        belonging = (name for name in names if partition_of(name, self._partitions) == PARTITION)
        return pa.array(islice(belonging, number), pa.string())
