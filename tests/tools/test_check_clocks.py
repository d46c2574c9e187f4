"""The check that no test asserts a time: in whatever form; deadlines of loops and orders are let be."""

from __future__ import annotations

import pytest

from tools.check_clocks import asserted_times

SPANS = {
    "read twice": "assert time.monotonic() - began < 5",
    "of the event loop": "assert loop.time() - began < 5",
    "of the running loop": "begin = asyncio.get_running_loop().time()\n    assert asyncio.get_running_loop().time() - begin < 5",
    "in a call": "assert round(time.perf_counter() - began) <= 5",
    "by a name": "took = time.time() - began\n    assert took < 5",
    "by an annotated name": "took: float = time.time() - began\n    assert took < 5",
    "by a walrus": "assert (took := time.monotonic() - began) < 5",
    "in other units": "took = time.monotonic() - began\n    ms = took * 1_000\n    assert ms < 5",
    "added up": "took = 0.0\n    took += time.monotonic() - began\n    assert took < 5",
    "among others": "spans = []\n    spans.append(time.monotonic() - began)\n    assert max(spans) < 5",
    "by keys": "at = {}\n    at['a'], at['b'] = time.monotonic(), time.monotonic()\n    assert at['b'] - at['a'] < 5",
    "by an attribute": "self.began = time.monotonic()\n    assert time.monotonic() - self.began < 5",
    "of dates": "begin = datetime.now()\n    assert (datetime.now() - begin).total_seconds() < 5",
    "without a comparison": "assert not int(time.monotonic() - began)",
    "of a helper": "assert took(work) < 5",
    "between two readings": "ended = time.monotonic()\n    assert 0 < ended - began",
    "while it lasts": "while time.monotonic() - began < 5:\n        pass",
    "about": "assert time.monotonic() - began == pytest.approx(5)",
    "of a name imported": "begin = monotonic()\n    assert monotonic() - begin < 5",
    "of a module renamed": "begin = t.time_ns()\n    assert t.time_ns() - begin < 5",
    "of a function renamed": "begin = cpu()\n    assert cpu() - begin < 5",
    "of a clock by number": "begin = time.clock_gettime(1)\n    assert time.clock_gettime(1) - begin < 5",
}
LIMITS = {
    "a deadline": "until = time.monotonic() + 5\n    work()\n    assert time.monotonic() < until",
    "a deadline in a loop": "until = time.monotonic() + 5\n    while work():\n        assert time.monotonic() < until",
    "a sum": "assert time.monotonic() < began + 5",
    "a verdict": "until = time.monotonic() + 5\n    late = time.monotonic() > until\n    assert not late",
    "a clock that measures": "assert time.monotonic() < 5",
}
WAITS = {
    "an event": "assert ended.wait(0.1)",
    "a semaphore": "assert ended.acquire(timeout=20)",
    "a process": "assert process.wait(timeout=30) == 0",
    "an outcome": "assert hub.outcome('a', wait=25).state == 'done'",
    "an end": "assert served.end(within=10) == 0",
}
LET_BE = {
    "an order": "assert begin <= found.published_at <= datetime.now()",
    "the deadline of a loop": "until = time.monotonic() + 5\n    while work() and time.monotonic() < until:\n        pass",
    "a deadline that is given": "until = time.monotonic() + 5\n    found = queue.get(timeout=until - time.monotonic())\n    assert found",
    "a time to come": "soon = datetime.now() + HOUR\n    assert hub.purge(before=soon) == 2",
    "a clock of the test": "assert clock() - 3 < 5",
    "other differences": "assert len(found) - 1 == 5",
    "another one's time": "assert message.time - 3 < 5",
    "a wait that nothing ends": "assert not ended.wait(0.1)",
    "a peek at nothing": "assert box.peek(wait=2) is None",
    "a wait for ever": "assert process.wait() == 0",
}
MODULE = """
import time
import time as t
from datetime import datetime
from time import monotonic, process_time as cpu

def took(work):
    begun = time.monotonic()
    work()
    return time.monotonic() - begun

def test():
    began, begin = time.monotonic(), datetime.now()
    {}
"""


@pytest.mark.parametrize("body", SPANS.values(), ids=SPANS)
def test_how_long_something_took_is_not_compared(body: str) -> None:
    assert asserted_times(MODULE.format(body))


@pytest.mark.parametrize("body", LIMITS.values(), ids=LIMITS)
def test_no_clock_that_measures_is_asserted_nor_a_deadline(body: str) -> None:
    assert asserted_times(MODULE.format(body))


@pytest.mark.parametrize("body", WAITS.values(), ids=WAITS)
def test_nothing_is_asserted_to_come_within_seconds(body: str) -> None:
    assert asserted_times(MODULE.format(body))


def test_a_lambda_outside_a_function_hides_no_time() -> None:
    assert asserted_times("import time\nb = time.monotonic()\nin_time = lambda: time.monotonic() - b < 1\n") == [3]


@pytest.mark.parametrize("body", LET_BE.values(), ids=LET_BE)
def test_deadlines_of_loops_orders_and_waits_for_nothing_are_let_be(body: str) -> None:
    assert asserted_times(MODULE.format(body)) == []
