"""Publish, peek, dequeue and single publishes with 10⁷ messages stored, as against the empty store.

It works on a copy, so that the large store stays as large as it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing

from bench import contenders
from bench.context import Bench
from bench.mail import recipient_names
from bench.ours import Ours
from bench.outcome import Figure, Line, Outcome, slower
from bench.sampling import Contender
from bench.workloads.growth import grown_store

AT_MOST = 1.3
EMPTY, STORED = "the empty store", "10⁷ stored"


def run(bench: Bench) -> Outcome:
    copy = bench.fresh_folder() / "grown"
    shutil.copytree(grown_store(bench), copy)
    os.sync()  # or the disk would still be busy with the copy
    with bench.ours() as empty, closing(Ours(copy)) as stored:
        return Outcome([_line(bench, what, make, empty, stored) for what, make in _things(bench).items()])


def _things(bench: Bench) -> dict[str, Callable[[str, Ours], Contender]]:
    mail, scale = bench.mail, bench.scale
    many = recipient_names(scale.send_recipients)
    return {
        "publish to one": lambda name, ours: contenders.publish(name, ours, mail, mail.newcomer, scale.send),
        "publish to 5,000": lambda name, ours: contenders.publish(name, ours, mail, lambda: many, scale.send),
        "the same again": lambda name, ours: contenders.publish_again(name, ours, mail, lambda: many, scale.send),
        "peek 51,200": lambda name, ours: contenders.peek(name, ours, mail, scale.send),
        "dequeue 51,200": lambda name, ours: contenders.dequeue(name, ours, mail, scale.send),
        "dequeue 1": lambda name, ours: contenders.dequeue(name, ours, mail, 1),
        "single publishes": lambda name, ours: contenders.singles(
            name, ours, mail, waiting=scale.waiting, rounds=scale.rounds
        ),
    }


def _line(bench: Bench, what: str, make: Callable[[str, Ours], Contender], empty: Ours, stored: Ours) -> Line:
    scale = bench.scale
    repetitions = scale.small_repetitions // 2 if what == "dequeue 1" else scale.repetitions
    title = f"{what}, 10⁷ stored"
    samples = bench.interleave(title, [make(EMPTY, empty), make(STORED, stored)], repetitions)
    if what == "single publishes":
        count = scale.waiting * scale.rounds
        ours, reference = Figure.of_rate(samples[STORED], count), Figure.of_rate(samples[EMPTY], count, EMPTY)
    else:
        ours, reference = Figure.of_seconds(samples[STORED]), Figure.of_seconds(samples[EMPTY], EMPTY)
    return slower(title, ours, reference, at_most=AT_MOST)
