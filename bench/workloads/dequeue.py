"""Dequeue a bundle of 51,200 messages and one of a single message."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from bench import contenders
from bench.context import Bench
from bench.outcome import Figure, Line, Outcome, faster, slower
from bench.peer import Operation, variants

LARGE = "dequeue 51,200"
SMALL = "dequeue 1"
COMMIT_AT_MOST = 2.0
SAME_AT_MOST = 1.25
"""The ratio that still counts as the same."""


def run(bench: Bench) -> Outcome:
    large, small, commit = _against_commit(bench)
    return Outcome(
        [
            slower(LARGE, large, commit, at_most=COMMIT_AT_MOST, of="one durable commit"),
            slower(SMALL, small, commit, at_most=COMMIT_AT_MOST, of="one durable commit"),
            slower(f"{LARGE} as against 1", large, replace(small, name="of 1"), at_most=SAME_AT_MOST),
            *_against_peers(bench),
        ]
    )


def _against_commit(bench: Bench) -> tuple[Figure, Figure, Figure]:
    commits = variants("commit", Operation.COMMIT)
    with bench.ours() as ours, ExitStack() as stack:
        samples = bench.interleave(
            "dequeue",
            [
                contenders.dequeue(LARGE, ours, bench.mail, bench.scale.send),
                contenders.dequeue(SMALL, ours, bench.mail, 1),
                *(contenders.commit(name, stack.enter_context(bench.opened(commits[name]))) for name in commits),
            ],
            bench.scale.small_repetitions,
        )
    fastest = min(commits, key=lambda name: samples[name].median)
    return (
        Figure.of_seconds(samples[LARGE]),
        Figure.of_seconds(samples[SMALL]),
        Figure.of_seconds(samples[fastest], fastest),
    )


def _against_peers(bench: Bench) -> list[Line]:
    contest = bench.contest(
        f"{LARGE} against peers",
        Operation.DEQUEUE,
        lambda name, peer: contenders.dequeue(name, peer, bench.mail, bench.scale.send),
    )
    return [faster(LARGE, contest.ours_seconds(), contest.peer_seconds(peer)) for peer in contest.peers]
