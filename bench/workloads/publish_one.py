"""Publish 51,200 messages to one recipient."""

from __future__ import annotations

from bench import contenders
from bench.context import Bench, Contest
from bench.outcome import Line, Outcome, faster, slower
from bench.peer import Operation

WHAT = "publish to one recipient"
BLOB_AT_MOST = 2.0
ROWS_AT_LEAST = 10.0


def run(bench: Bench) -> Outcome:
    contest = bench.contest(
        WHAT,
        Operation.PUBLISH,
        lambda name, peer: contenders.publish(name, peer, bench.mail, bench.mail.newcomer, bench.scale.send),
    )
    return Outcome(lines(WHAT, contest, blob_at_most=BLOB_AT_MOST, rows_at_least=ROWS_AT_LEAST))


def lines(what: str, contest: Contest, *, blob_at_most: float, rows_at_least: float) -> list[Line]:
    """Against each peer; two of them have goals."""
    ours = contest.ours_seconds()
    found = []
    for peer in contest.peers:
        reference = contest.peer_seconds(peer)
        if peer == "blob":
            found.append(slower(what, ours, reference, at_most=blob_at_most, of=peer))
        else:
            found.append(faster(what, ours, reference, at_least=rows_at_least if peer == "rows" else None, of=peer))
    return found
