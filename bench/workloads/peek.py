"""Peek 51,200 messages as Arrow columns: nothing cached by us, warm in the page cache."""

from __future__ import annotations

from dataclasses import replace

from bench import contenders
from bench.context import Bench
from bench.ours import Ours
from bench.outcome import Figure, Line, Outcome, faster, slower
from bench.peer import Operation
from restante.settings import Settings

WHAT = "peek 51,200"
ROWS_AT_LEAST = 25.0
MAILBAGS = 50


def run(bench: Bench) -> Outcome:
    contest = bench.contest(
        WHAT, Operation.PEEK, lambda name, peer: contenders.peek(name, peer, bench.mail, bench.scale.send)
    )
    found = [
        faster(
            WHAT,
            contest.ours_seconds(),
            contest.peer_seconds(peer),
            at_least=ROWS_AT_LEAST if peer == "rows" else None,
            of=peer,
        )
        for peer in contest.peers
    ]
    return Outcome([*found, _mailbags(bench, contest.ours_seconds())])


def _mailbags(bench: Bench, one: Figure) -> Line:
    """The same from many mailbags that are not filed yet."""
    what = f"peek 51,200 from {MAILBAGS} mailbags"
    with bench.opened(lambda folder: Ours(folder, settings=Settings(filing=False))) as ours:
        contender = contenders.peek(what, ours, bench.mail, bench.scale.send, sends=MAILBAGS)
        samples = bench.interleave(what, [contender], bench.scale.repetitions)
    return slower(what, Figure.of_seconds(samples[what]), replace(one, name="from one"))
