"""The context of a workload over the wire: the servers that run, ours among them, and a contest of all their ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.context import Bench
from bench.load import LoadProcess
from bench.ours_wire import Restante
from bench.outcome import Figure, Line, Outcome
from bench.peer import Operation, Peer
from bench.sampling import Contender, Samples
from bench.server import Server, Way, raise_file_limit, servers

OURS = Restante.name
BARE = "bare"
"""A word in the name of a way that has next to no client: requests made before, straight to a socket."""
Compare = Callable[[Figure, Figure, str], Line]
"""Makes a line of our figure, a peer's and the peer's name."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The figures of one server, by way."""

    server: str
    figures: Mapping[str, Figure]
    lesser: frozenset[str]

    def fastest(self, *, only: str = "", but: str = "") -> Figure | None:
        """The fastest of the ways that do all of the work; `only` and `but` are parts of their names."""
        found = [
            figure
            for name, figure in self.figures.items()
            if name not in self.lesser and only in name and not (but and but in name)
        ]
        return min(found, key=_slowness, default=None)

    def beyond(self) -> list[Figure]:
        """The fastest of the ways that do less."""
        return [figure for name, figure in self.figures.items() if name in self.lesser]


@dataclass(frozen=True, slots=True)
class WireContest:
    what: str
    ways: Mapping[str, Ways]

    def outcome(self, compare: Compare, *, only: str = "", but: str = "") -> Outcome:
        """A line for each peer's fastest way, and one for each way that does less."""
        lines = []
        ours = self.ways[OURS].fastest(only=only, but=but) if OURS in self.ways else None
        for server, ways in self.ways.items():
            if server == OURS or ours is None:
                continue
            fastest = ways.fastest(only=only, but=but)
            if fastest is not None:
                lines.append(compare(ours, fastest, server))
            lines += [compare(ours, figure, "") for figure in ways.beyond() if only in figure.name]
        return Outcome(lines, figures=self.figures())

    def figures(self) -> list[tuple[str, Figure]]:
        return [(self.what, figure) for ways in self.ways.values() for figure in ways.figures.values()]


@dataclass(slots=True)
class WireBench(Bench):
    servers: Mapping[str, Server] = field(default_factory=dict)

    def bulk_contest(
        self, what: str, operation: Operation, contender: Callable[[str, Peer], Contender], repetitions: int = 0
    ) -> WireContest:
        """Every way to do something in bulk, by clients in this process."""
        with ExitStack() as stack:
            contenders = [
                contender(name, stack.enter_context(closing(connect())))
                for name, connect in self._ways(operation).items()
            ]
            return self._contest(what, operation, contenders, repetitions)

    def load_contest(
        self, what: str, operation: Operation, contender: Callable[[str, LoadProcess], Contender]
    ) -> WireContest:
        """Every way to publish small things, each by a process of its own."""
        with ExitStack() as stack:
            contenders = [
                contender(name, stack.enter_context(LoadProcess(connect)))
                for name, connect in self._ways(operation).items()
            ]
            return self._contest(what, operation, contenders, 0)

    def _ways(self, operation: Operation) -> dict[str, Way]:
        return {name: way for server in self.servers.values() for name, way in server.ways(operation).items()}

    def _contest(
        self, what: str, operation: Operation, contenders: Sequence[Contender], repetitions: int
    ) -> WireContest:
        for server in self.servers.values():
            server.clear()
        samples = self.interleave(what, contenders, repetitions or self.scale.repetitions)
        found = {
            server.name: Ways(
                server.name,
                {name: Figure.of_seconds(samples[name], name) for name in server.ways(operation)},
                server.lesser,
            )
            for server in self.servers.values()
            if server.ways(operation)
        }
        return WireContest(what, found)


@contextmanager
def running(
    folder: Path, *, ours: bool = True, peers: bool = True
) -> Iterator[tuple[dict[str, Server], dict[str, dict[str, str]]]]:
    """All servers that can take part, and what is known of each, those that cannot included."""
    raise_file_limit()
    started: dict[str, Server] = {}
    facts: dict[str, dict[str, str]] = {}
    with ExitStack() as stack:
        kinds: list[type[Server]] = [*([Restante] if ours else []), *(servers() if peers else [])]
        for kind in kinds:
            if missing := kind.missing():
                facts[kind.name] = {"missing": missing}
                continue
            place = folder / kind.name
            place.mkdir()
            try:
                server = kind(place)
            except RuntimeError as error:
                if kind is Restante:
                    raise  # without ours there is nothing to compare
                facts[kind.name] = {"missing": f"did not start: {error}"}
                continue
            stack.callback(server.close)
            started[kind.name] = server
            facts[kind.name] = server.facts()
        yield started, facts


def as_rates(contest: WireContest, count: int) -> WireContest:
    """The contest with its figures as messages a second."""
    return WireContest(
        contest.what,
        {
            server: Ways(
                server,
                {name: Figure.of_rate(Samples(figure.samples), count, name) for name, figure in ways.figures.items()},
                ways.lesser,
            )
            for server, ways in contest.ways.items()
        },
    )


def _slowness(figure: Figure) -> float:
    return -figure.value if figure.unit.value.endswith("/s") else figure.value
