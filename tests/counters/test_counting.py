"""What counters promise, on every engine."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from restante.ports.counters import Counters

ONE, OTHER = os.urandom(16), os.urandom(16)
THREADS = 8
ADDITIONS = 50


def test_additions_add_up_and_each_gives_the_total(counters: Counters) -> None:
    batch = os.urandom(16)
    assert [counters.add(batch, count) for count in (1, 10, 100, 10**12)] == [1, 11, 111, 10**12 + 111]
    assert counters.total(batch) == 10**12 + 111


def test_a_batch_that_nobody_counted_for_has_zero(counters: Counters) -> None:
    assert counters.total(os.urandom(16)) == 0


def test_batches_are_counted_apart(counters: Counters) -> None:
    counters.add(ONE, 3)
    counters.add(OTHER, 4)
    assert (counters.total(ONE), counters.total(OTHER)) == (3, 4)


def test_a_forgotten_batch_counts_from_zero_again(counters: Counters) -> None:
    batch = os.urandom(16)
    counters.add(batch, 5)
    counters.forget(batch)
    assert counters.total(batch) == 0
    counters.forget(batch)
    assert counters.add(batch, 2) == 2


def test_additions_from_many_threads_are_all_counted_and_each_total_is_seen_once(counters: Counters) -> None:
    batch = os.urandom(16)
    with ThreadPoolExecutor(THREADS) as pool:
        totals = list(pool.map(lambda _: counters.add(batch, 1), range(THREADS * ADDITIONS)))
    assert sorted(totals) == list(range(1, THREADS * ADDITIONS + 1))


def test_closing_again_does_nothing(counters: Counters) -> None:
    counters.close()
    counters.close()
