"""Turns of threads: one at a time, in the order of arrival, whatever becomes of those who wait."""

from __future__ import annotations

import signal
import threading

import pytest

from restante.client.concurrency.waits_sync import WaitingLine
from tests.waiting import wait_until

PATIENCE = 30.0


def until_waiting(turns: WaitingLine, count: int) -> None:
    wait_until(lambda: len(turns._waiting) == count, f"{count} wait")


def test_turns_come_in_the_order_of_arrival() -> None:
    turns, served = WaitingLine(), []

    def work(number: int) -> None:
        with turns:
            served.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    with turns:
        for place, thread in enumerate(threads):
            thread.start()
            until_waiting(turns, place + 1)
        assert served == []
    for thread in threads:
        thread.join(PATIENCE)
    assert served == list(range(20))


def test_there_is_never_more_than_one_inside() -> None:
    turns, inside, most, rounds = WaitingLine(), 0, 0, 300

    def work() -> None:
        nonlocal inside, most
        for _ in range(rounds):
            with turns:
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (inside, most, len(turns._waiting)) == (0, 1, 0)


def test_an_error_inside_passes_the_turn_on() -> None:
    turns = WaitingLine()
    with pytest.raises(ValueError, match="inside"), turns:
        raise ValueError("inside")
    with turns:
        assert len(turns._waiting) == 0


def test_an_interrupted_waiter_leaves_the_line_and_blocks_nobody() -> None:
    turns, served = WaitingLine(), []
    begun, release = threading.Event(), threading.Event()
    main = threading.get_ident()

    def hold() -> None:
        with turns:
            begun.set()
            assert release.wait(PATIENCE)

    def later() -> None:
        with turns:
            served.append("later")

    def interrupt() -> None:
        until_waiting(turns, 1)
        following.start()
        until_waiting(turns, 2)
        signal.pthread_kill(main, signal.SIGINT)

    holder, following = threading.Thread(target=hold), threading.Thread(target=later)
    holder.start()
    assert begun.wait(PATIENCE)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt), turns:
        served.append("interrupted")
    interrupter.join(PATIENCE)
    assert len(turns._waiting) == 1
    release.set()
    holder.join(PATIENCE)
    following.join(PATIENCE)
    assert served == ["later"]
    with turns:
        assert len(turns._waiting) == 0
