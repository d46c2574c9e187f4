"""Consignments, in process: 10⁶ messages staged and committed by four writers, and what a commit costs by its size.

Staging and committing runs in turn with plain publishing of the same parcels by four threads. Of a commit alone: how long
it takes, for consignments of 10⁴ to 10⁶ messages (3·10⁶ with `--full`), with a batch and without; how long single publishes
take that are under way meanwhile, and peeks.
"""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from bench.consigning import Beside, Call, Parcels, Waits, parcels, peeker, publish_all, publisher, stage_all
from bench.context import Bench
from bench.mail import Mail
from bench.outcome import Figure, Goal, Line, Outcome, Unit, faster_by_turns
from bench.sampling import Contender, Samples, percentiles
from restante.client.surface.surface import Hub

AT_LEAST = 0.8
HELD_UP_FROM = 1_000_000
"""The size from which the goal for publishes meanwhile is a bound for each message; a small commit costs a publish anyway."""
HELD_UP_SECONDS = 1e-7
A_MESSAGE = Goal("< 1 µs", at_most=1e-6, of_value=True)
STAGED, PLAIN = "staged and committed", "published"
PUBLISH = "publish"
WHAT = "10⁶ messages by four writers"

Neighbour = Callable[[Hub], Callable[[], object]]
"""Makes a call that is repeated while a commit is under way."""


def run(bench: Bench) -> Outcome:
    outcome = _rates(bench)
    for size in bench.scale.commits:
        _commits(bench, size, outcome)
    return outcome


def _rates(bench: Bench) -> Outcome:
    """Until everything is answered, and until all is filed: plain publishing is filed meanwhile, what is staged afterwards."""
    scale = bench.scale
    mail = parcels(bench.mail, recipients=scale.send_recipients, messages=scale.consigned, parcel=scale.parcel)
    filed: dict[str, list[float]] = defaultdict(list)

    def contender(name: str, publish: Callable[[Hub], None]) -> Contender:
        def measure(_: None) -> float:
            with bench.ours() as ours:
                hub = ours.hub
                gc.collect()
                start = time.perf_counter()
                publish(hub)
                seconds = time.perf_counter() - start
                hub.file()
                filed[name].append(time.perf_counter() - start)
            return seconds

        return Contender(name, lambda: None, measure)

    def consign(hub: Hub) -> None:
        stage_all(hub, mail)()

    turns = [contender(STAGED, consign), contender(PLAIN, partial(publish_all, mail=mail))]
    answered = bench.interleave(WHAT, turns, scale.repetitions)
    until_filed = {name: Samples(tuple(seconds[1:])) for name, seconds in filed.items()}  # the first warms up
    lines = []
    for what, samples in ((WHAT, answered), (f"{WHAT}, until filed", until_filed)):
        ours, plain = (Figure.of_rate(samples[name], scale.consigned, name) for name in (STAGED, PLAIN))
        lines.append(faster_by_turns(what, ours, plain, at_least=AT_LEAST))
    return Outcome(lines)


@dataclass(frozen=True, slots=True)
class _Way:
    """A commit, with or without a batch, and the calls of another thread meanwhile."""

    batch: bool = False
    meanwhile: str = ""
    neighbour: Neighbour | None = None

    @property
    def commit(self) -> str:
        return "commit with a batch" if self.batch else "commit"

    @property
    def name(self) -> str:
        return f"{self.meanwhile} beside a {self.commit}" if self.meanwhile else self.commit


def _ways(mail: Mail) -> Sequence[_Way]:
    return (
        _Way(),
        _Way(batch=True),
        _Way(meanwhile=PUBLISH, neighbour=publisher),
        _Way(batch=True, meanwhile=PUBLISH, neighbour=publisher),
        _Way(meanwhile="peek again", neighbour=partial(peeker, mail=mail, again=True)),
        _Way(meanwhile="first peek", neighbour=partial(peeker, mail=mail, again=False)),
    )


def _commits(bench: Bench, size: int, outcome: Outcome) -> None:
    scale = bench.scale
    mail = parcels(bench.mail, recipients=scale.send_recipients, messages=size, parcel=min(size, scale.parcel))
    waits: dict[str, list[Waits]] = defaultdict(list)
    ways = _ways(bench.mail)
    contenders = [_contender(bench, mail, way, waits[way.name]) for way in ways]
    found = bench.interleave(f"commit of {size:,}", contenders, scale.commit_repetitions)
    for way in ways:
        if way.neighbour is None:
            _add_commit(outcome, way, size, found[way.name])
        else:
            _add_waits(outcome, way, size, Waits.of(waits[way.name][1:]), found[way.name])  # the first warms up


def _contender(bench: Bench, mail: Parcels, way: _Way, waits: list[Waits]) -> Contender:
    def measure(_: None) -> float:
        with bench.ours() as ours:
            hub = ours.hub
            call = None if way.neighbour is None else way.neighbour(hub)
            commit = stage_all(hub, mail, batch=way.batch)
            gc.collect()
            with nullcontext() if call is None else Beside(call) as beside:
                start = time.perf_counter()
                commit()
                took = Call(start, time.perf_counter())
            if beside is not None:
                waits.append(Waits.during_commit(beside.calls, took))
        return took.seconds

    return Contender(way.name, lambda: None, measure)


def _add_commit(outcome: Outcome, way: _Way, size: int, found: Samples) -> None:
    what = f"{way.name} of {size:,}"
    a_message = Samples(tuple(seconds / size for seconds in found.seconds))
    outcome.lines += [
        Line(what, Figure.of_seconds(found)),
        Line(f"{what}, a message", Figure.of_seconds(a_message), goal=A_MESSAGE),
    ]
    _add_point(outcome, "commit a message", way.name, size, a_message.median)


def _add_waits(outcome: Outcome, way: _Way, size: int, waits: Waits, commits: Samples) -> None:
    what = f"{way.name} of {size:,}"
    (late,) = percentiles(waits.during, 0.99)
    goal = None
    if way.meanwhile == PUBLISH and size >= HELD_UP_FROM:
        most = HELD_UP_SECONDS * size
        goal = Goal(f"≤ {most * 1e3:,.0f} ms (0.1 µs a message)", at_most=most, of_value=True)
    outcome.lines += [
        Line(f"{what}, p99", Figure(late, Unit.SECONDS)),
        Line(f"{what}, longest", Figure(max(waits.during), Unit.SECONDS), goal=goal),
    ]
    middle, late = percentiles(waits.quiet, 0.5, 0.99)
    outcome.notes.append(
        f"{what}: {len(waits.during):,} calls beside commits of {commits.median * 1e3:,.1f} ms; before and after them "
        f"{middle * 1e3:.2f} ms, p99 {late * 1e3:.2f} ms, longest {max(waits.quiet) * 1e3:.2f} ms"
    )
    _add_point(outcome, "longest meanwhile", way.name, size, max(waits.during))


def _add_point(outcome: Outcome, series: str, name: str, size: int, value: float) -> None:
    outcome.series.setdefault(series, {}).setdefault(name, []).append((float(size), value))
