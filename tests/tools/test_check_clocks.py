"""The check that no test asserts a time: spans are found, deadlines are let be."""

from __future__ import annotations

import pytest

from tools.check_clocks import compared_times

SPANS = {
    "read twice": "assert time.monotonic() - began < 5",
    "of the event loop": "assert loop.time() - began < 5",
    "in a call": "assert round(time.perf_counter() - began) <= 5",
    "by a name": "took = time.time() - began\n    assert took < 5",
    "between two readings": "ended = time.monotonic()\n    assert 0 < ended - began",
    "while it lasts": "while time.monotonic() - began < 5:\n        pass",
}
LET_BE = {
    "a deadline": "until = time.monotonic() + 5\n    assert time.monotonic() < until",
    "an order": "assert began <= time.time()",
    "a clock of the test": "assert clock() - 3 < 5",
    "other differences": "assert len(found) - 1 == 5",
}


def function(body: str) -> str:
    return f"def test() -> None:\n    began = time.monotonic()\n    {body}\n"


@pytest.mark.parametrize("body", SPANS.values(), ids=SPANS)
def test_how_long_something_took_is_not_compared(body: str) -> None:
    assert list(compared_times(function(body)))


@pytest.mark.parametrize("body", LET_BE.values(), ids=LET_BE)
def test_deadlines_and_orders_may_be_compared(body: str) -> None:
    assert list(compared_times(function(body))) == []
