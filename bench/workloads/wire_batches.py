"""W7: a batch of 100,000 items, acknowledged over the wire by four workers, a tenth of them twice.

Four processes share the items in random order, in calls of 100 and of 1,000; each call waits for its answer, or eight
are under way at a time. Timed from the first call until the last is answered, which knows that the batch is complete.
It is checked that there was one completion and that it was not early. Celery has fewer items and no calls of many: its
figure is shown, but compared with nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, cast

from bench.ours_batches import Gathered, Ours
from bench.outcome import Figure, Line, Outcome, faster
from bench.peers import celery_chord
from bench.sampling import Contender
from bench.tally import Crew, kinds_of_tallies, tallies
from bench.wire import OURS, WireBench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.peers.valkey import Valkey

AT_LEAST = {100: 1.0, 1_000: 3.0}
"""How many times faster than the best peer, by the items of a call."""
DEPTHS = (1, 8)
WHAT = "W7 100,000 items, calls of {size:,}, {depth}"
CHORD = "W7 a task an item"
BEST = "the best peer"


def run(bench: WireBench) -> Outcome:
    outcome = Outcome()
    with _crews(bench) as crews:
        for size, at_least in AT_LEAST.items():
            for depth in DEPTHS:
                figures = _contest(bench, crews, size=size, depth=depth)
                what = named(size, depth)
                outcome.figures += [(what, figure) for figure in figures]
                outcome.lines += _lines(what, figures, at_least)
    if chord := _chord(bench):
        outcome.figures.append((CHORD, chord))
        outcome.notes.append(f"celery: {bench.scale.chord_tasks:,} tasks, each fetched and run; {celery_chord.facts()}")
    outcome.notes.insert(
        0, f"W7: {bench.scale.batch_items:,} items; rates are items a second, those sent twice counted once"
    )
    return outcome


@contextmanager
def _crews(bench: WireBench) -> Iterator[dict[str, Crew]]:
    """Four workers for each way to count: their processes stay up through all sizes and depths."""
    with ExitStack() as stack:
        ways = tallies(bench.servers, [Ours, Gathered, *kinds_of_tallies()])
        yield {way.name: stack.enter_context(Crew(way)) for way in ways}


def _contest(bench: WireBench, crews: dict[str, Crew], *, size: int, depth: int) -> list[Figure]:
    items = bench.scale.batch_items

    def contender(name: str, crew: Crew) -> Contender:
        return Contender(name, lambda: crew.prepare(items, size=size, depth=depth), lambda _: crew.run())

    # To gather needs several calls to be made one of.
    taking_part = [contender(*each) for each in crews.items() if depth > 1 or each[0] != Gathered.name]
    samples = bench.interleave(named(size, depth), taking_part, bench.scale.repetitions)
    return [Figure.of_rate(found, items, name) for name, found in samples.items()]


def _lines(what: str, figures: Sequence[Figure], at_least: float) -> list[Line]:
    """Ours beside every peer, the best first: it is the one that the goal is about."""
    mine = {figure.name: figure for figure in figures if figure.name.startswith(OURS)}
    peers = sorted((figure for figure in figures if figure.name not in mine), key=lambda figure: -figure.value)
    if OURS not in mine:
        return []
    lines = [
        faster(what, mine[OURS], peer, at_least=None if place else at_least, of=BEST)
        for place, peer in enumerate(peers)
    ]
    if Gathered.name in mine and peers:
        lines.append(faster(f"{what}, gathered", mine[Gathered.name], peers[0]))
    return lines


def _chord(bench: WireBench) -> Figure | None:
    if "valkey" not in bench.servers or celery_chord.missing():
        return None
    tasks = bench.scale.chord_tasks
    with celery_chord.running(cast("Valkey", bench.servers["valkey"]), bench.fresh_folder()) as sender:
        contender = Contender(celery_chord.NAME, lambda: sender.ask(tasks), lambda _: sender.ask(None))
        samples = bench.interleave(CHORD, [contender], bench.scale.chord_repetitions)
    return Figure.of_rate(samples[celery_chord.NAME], tasks, celery_chord.NAME)


def named(size: int, depth: int) -> str:
    return WHAT.format(size=size, depth="one at a time" if depth == 1 else f"{depth} under way")
