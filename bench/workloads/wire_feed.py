"""W9: 10⁶ messages read from the start, as Arrow: in process, over the wire, and beside other servers.

The messages are published in parcels of 10,000 before, and filed. Timed from the first call until the last message is in the
program's hands. Of the peers every way is measured, and the fastest counts. The readings of three columns, and of one kind of
ten, show that columns and rows that are not asked for are not read: the octets taken from the store are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench.ours_feed import IN_PROCESS, WISHES, InProcess, Served
from bench.outcome import Figure, Goal, Line, Outcome, Unit, faster, slower
from bench.process import bytes_read
from bench.sampling import Contender, timed
from bench.stream import KINDS, Read, Stream, kinds_of_streams, mixed_parcels, of_kind
from bench.wire import OURS, WireBench

AT_LEAST = {IN_PROCESS: 1_000_000, OURS: 500_000}
"""Messages a second."""
TIMES_THE_BEST = 5.0
BEST = "the best peer"
LINES = {IN_PROCESS: "W9 10⁶ read from the start, in process", OURS: "W9 10⁶ read from the start, over the wire"}
WHAT = "W9 10⁶ read from the start"
KIND = ", one kind of ten"
PARTS = ("", ", three columns", KIND)


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    mail = mixed_parcels(bench.mail, recipients=scale.send_recipients, messages=scale.read, parcel=scale.parcel)
    with ExitStack() as stack:
        taking_part = [stack.enter_context(closing(make())) for make in _streams(bench)]
        _fill(bench, taking_part, mail)
        ways = {name: read for stream in taking_part for name, read in stream.ways().items()}
        contenders = [_contender(name, read, _expected(name, mail)) for name, read in ways.items()]
        samples = bench.interleave(WHAT, contenders, scale.repetitions)
        octets = {part: _octets(ways[f"{IN_PROCESS}{part}"]) for part in PARTS if IN_PROCESS in ways}
    figures = {name: Figure.of_rate(found, scale.read, name) for name, found in samples.items()}
    lesser = frozenset[str]().union(*(stream.lesser for stream in taking_part))
    return Outcome(
        [*_lines(figures, lesser), *_octet_lines(octets)],
        figures=[(WHAT, figure) for figure in figures.values()],
        notes=[f"W9: {scale.read:,} messages; rates are of those in the store, also where a part of them is asked for"],
    )


def _streams(bench: WireBench) -> list[Callable[[], Stream]]:
    """Ours on folders of their own, as the server of the other workloads has their mail."""
    ours: Sequence[Callable[[Path], Stream]] = (InProcess, Served) if OURS in bench.servers else ()
    peers = [kind for kind in kinds_of_streams() if kind.server in bench.servers]
    return [
        *(partial(kind, bench.fresh_folder()) for kind in ours),
        *(partial(kind, bench.servers[kind.server]) for kind in peers),
    ]


def _fill(bench: WireBench, taking_part: Sequence[Stream], mail: Sequence[pa.Table]) -> None:
    for server in bench.servers.values():
        server.clear()
    with bench.display.bar("W9 filling", len(taking_part)) as advance:
        for stream in taking_part:
            stream.fill(mail)
            advance(stream.server)


def _expected(name: str, mail: Sequence[pa.Table]) -> int:
    return of_kind(mail, KINDS[0]) if name.endswith(KIND) else sum(parcel.num_rows for parcel in mail)


def _contender(name: str, read: Read, expected: int) -> Contender:
    def check(_: None) -> None:
        found = read()
        assert found == expected, f"{name} gave {found} of {expected} messages"

    return Contender(name, lambda: None, timed(check))


def _octets(read: Read) -> int:
    before = bytes_read()
    read()
    return bytes_read() - before


def _lines(figures: Mapping[str, Figure], lesser: frozenset[str]) -> list[Line]:
    """Ours against its goal and against the best peer, then beside the others, and in parts."""
    peers = sorted(
        (figure for name, figure in figures.items() if not name.startswith(OURS)), key=lambda figure: -figure.value
    )
    whole = [figure for figure in peers if figure.name not in lesser]
    lines = []
    for name, what in LINES.items():
        if name not in figures:
            continue
        rate = AT_LEAST[name]
        goal = Goal(f"≥ {rate:,}/s", at_least=rate, of_value=True)
        lines.append(Line(what, figures[name], goal=goal))
        lines += [
            faster(what, figures[name], peer, at_least=None if place else TIMES_THE_BEST, of=BEST)
            for place, peer in enumerate(_fastest_of_each(whole))
        ]
        lines += [faster(what, figures[name], peer) for peer in peers if peer.name in lesser]
        lines += [
            faster(f"{what}{part}", figures[f"{name}{part}"], figures[name])
            for part in WISHES
            if part and f"{name}{part}" in figures
        ]
    return lines


def _octet_lines(octets: Mapping[str, int]) -> list[Line]:
    """The lines of what was taken from the store, in process."""
    figures = {part: Figure(size, Unit.BYTES, "all") for part, size in octets.items()}
    return [
        slower(f"W9 octets from the store{part}", figure, figures[""])
        if part
        else Line("W9 octets from the store", figure)
        for part, figure in figures.items()
    ]


def _fastest_of_each(figures: Sequence[Figure]) -> list[Figure]:
    """The first of each server, of figures by rate."""
    found: dict[str, Figure] = {}
    for figure in figures:
        found.setdefault(figure.name.partition(",")[0], figure)
    return list(found.values())
