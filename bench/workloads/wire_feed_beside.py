"""W10: publishing while a reader reads along, in process and over the wire.

The hub is its own reference: the same publishes without a reader, with one that follows, and with one that reads everything
from the start, over and over. The three run in turn; the ratio is the median over the rounds of the ratio in each. One that
follows has to have seen everything at the end, or the sample fails.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from bench.beside import InProcess, OverTheWire, Side
from bench.load import CONNECTIONS
from bench.mail import recipient_names
from bench.outcome import Figure, Outcome, by_turns, ratios
from bench.readers import Reader
from bench.sampling import Contender, percentiles
from bench.wire import OURS, WireBench

AT_MOST = {Reader.FOLLOWING: 1.15, Reader.CATCHING_UP: 1.1}
Measure = Callable[[Any, Reader], float]


def run(bench: WireBench) -> Outcome:
    outcome = Outcome()
    if OURS not in bench.servers:
        return outcome
    kinds: tuple[Callable[..., Side], ...] = (InProcess, OverTheWire)
    for kind in kinds:
        # On a folder of its own, as the server of the other workloads has their mail.
        with closing(kind(bench.fresh_folder())) as side:
            _run(bench, side, outcome)
    return outcome


def _run(bench: WireBench, side: Side, outcome: Outcome) -> None:
    scale = bench.scale
    names = recipient_names(scale.send_recipients)
    parcel = partial(bench.mail.table, names, scale.parcel)
    side.fill([parcel() for _ in range(scale.read_before // scale.parcel)])
    _compare(
        bench,
        side,
        f"W10 parcels of 10,000, {side.name}",
        lambda: [parcel() for _ in range(scale.beside_parcels)],
        side.parcels,
        scale.beside_parcels * scale.parcel,
        outcome,
    )
    singles = CONNECTIONS * scale.connection_rounds
    waiting = bench.mail.newcomers(CONNECTIONS)
    _compare(
        bench,
        side,
        f"W10 single publishes by 64, {side.name}",
        lambda: side.prepare_singles(bench.mail.table(waiting, singles)),
        side.singles,
        singles,
        outcome,
    )


def _compare(
    bench: WireBench,
    side: Side,
    what: str,
    prepare: Callable[[], object],
    measure: Measure,
    count: int,
    outcome: Outcome,
) -> None:
    def contender(reader: Reader) -> Contender:
        def settled() -> object:
            side.settle()
            return prepare()

        return Contender(reader.value, settled, lambda prepared: measure(prepared, reader))

    side.seen.clear()
    found = bench.interleave(what, [contender(reader) for reader in Reader], bench.scale.beside_turns)
    figures = {reader: Figure.of_rate(found[reader.value], count, reader.value) for reader in Reader}
    alone = figures[Reader.NOBODY]
    for reader, at_most in AT_MOST.items():
        outcome.lines.append(by_turns(f"{what}, {reader.value}", figures[reader], alone, at_most=at_most))
        outcome.notes.append(_note(what, side, reader, ratios(figures[reader], alone)))
    outcome.figures += [(what, figure) for figure in figures.values()]


def _note(what: str, side: Side, reader: Reader, found: Figure) -> str:
    low, high = percentiles(found.samples, 0.25, 0.75)
    read = statistics.median(seen.changes / seen.seconds for seen in side.seen[reader])
    return (
        f"{what}, {reader.value}: {found.value:.3f} ×, half of {len(found.samples)} rounds from {low:.3f} to {high:.3f}; "
        f"it read {read:,.0f} changes/s"
    )
