"""The processes of a live workload, and a contest of all ways: by turns, each connected only while it is its turn.

Idle connections cost something, too: servers and clients ask each other for signs of life. So each sample connects again,
outside the timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from bench import ours_live
from bench.live import Audience, LiveWay, More, Published, Received, Sending, Show, latencies, live_ways
from bench.load import DriverProcess
from bench.ours_wire import Restante, RestanteClient
from bench.sampling import Contender
from bench.server import Server
from bench.wire import OURS, WireBench

NOBODY = Audience((), ())


@dataclass(frozen=True, slots=True)
class Sample:
    published: Published
    received: Received

    @property
    def seconds(self) -> float:
        """The time from the first publish until the last client has its last message."""
        return float(self.received.moments.max() - self.published.moments[0])


Found = Mapping[str, Mapping[str, Sequence[Sample]]]
"""The samples by server and way."""


class Stage:
    """One way: who waits and who publishes, each in a process of its own, which stay up through all samples."""

    def __init__(self, way: LiveWay) -> None:
        self._way = way
        self._stack = ExitStack()
        self._publishers: dict[Callable[[], Any], DriverProcess] = {}

    def __enter__(self) -> Self:
        self._receiver = self._stack.enter_context(DriverProcess(self._way.receiver))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def gather(self, audience: Audience | More) -> None:
        """Not timed: everybody connects; or, connected already, waits for more."""
        self._receiver.ask(audience)

    def perform(self, sending: Sending) -> tuple[Published, Received]:
        """Returns when everybody has got everything."""
        publisher = self._publisher(self._way.bulk if sending.pace is None else self._way.paced)
        publisher.ask(sending)
        self._receiver.tell(None)
        published: Published = publisher.ask(None)
        received: Received = self._receiver.answer()
        return published, received

    def leave(self) -> None:
        self._receiver.ask(NOBODY)

    def _publisher(self, connect: Callable[[], Any]) -> DriverProcess:
        """Started when it is needed."""
        if connect not in self._publishers:
            self._publishers[connect] = self._stack.enter_context(DriverProcess(connect))
        return self._publishers[connect]


@dataclass(frozen=True, slots=True)
class Party:
    """A server that takes part, with its ways, and what is done between its samples."""

    server: Server
    ways: Sequence[LiveWay]
    settle: Callable[[], None]


@contextmanager
def parties(bench: WireBench, *, only: str = "") -> Iterator[list[Party]]:
    """Ours on a folder of its own, as the server of the other workloads has their mail; `only` is a part of ways' names."""
    with ExitStack() as stack:
        found = []
        if OURS in bench.servers:
            server = stack.enter_context(closing(Restante(bench.fresh_folder())))
            client = stack.enter_context(closing(RestanteClient(server.url)))
            found.append(Party(server, ours_live.live(server), client.settle))
        for name, ways in live_ways(bench.servers).items():
            server_of_peer = bench.servers[name]
            server_of_peer.clear()
            found.append(Party(server_of_peer, ways, server_of_peer.clear))
        yield [Party(each.server, [way for way in each.ways if only in way.name], each.settle) for each in found]


def contest(
    bench: WireBench, what: str, taking_part: Sequence[Party], show: Callable[[], Show], *, pace: float | None = None
) -> Found:
    """The samples that count."""
    found: dict[str, dict[str, list[Sample]]] = {party.server.name: {} for party in taking_part}
    with ExitStack() as stack:
        contenders = []
        for party in taking_part:
            for way in _in_bulk(party) if pace is None else party.ways:
                taken = found[party.server.name][way.name] = []
                stage = stack.enter_context(Stage(way))
                contenders.append(_contender(party, way, stage, show, pace, taken))
        bench.interleave(what, contenders, bench.scale.live_repetitions)
    return {server: {way: taken[1:] for way, taken in ways.items()} for server, ways in found.items()}


def _in_bulk(party: Party) -> list[LiveWay]:
    return [each for way in party.ways for each in way.in_bulk()]


def _contender(
    party: Party, way: LiveWay, stage: Stage, show: Callable[[], Show], pace: float | None, taken: list[Sample]
) -> Contender:
    def prepare() -> Show:
        made = show()
        stage.gather(made.audience)
        return made

    def measure(made: Show) -> float:
        sample = Sample(*stage.perform(Sending(made.table, pace)))
        stage.leave()
        party.settle()  # at once, so that it is not done while another one is measured
        made.check(sample.received)
        latencies(sample.published, sample.received)
        taken.append(sample)
        return sample.seconds

    return Contender(way.name, prepare, measure)
