"""Rules of an app for its actions, the bounds of a worker, and the brake.

The brake: if the last attempts of five different things of a partition failed in passing with no success between, or of all that
wait if these are fewer, only the oldest action is tried, and what waits keeps its count. The first success lifts the brake. So an
outage does not make poison of what arrives meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

CONCURRENCY = 32
RETRIES = 10
WAIT_SECONDS = 5.0
JITTER = 0.1
"""A wait is longer by up to this share of it, so that what failed together is not tried again together."""
TIMEOUT_SECONDS = 300.0
READ_AHEAD_MAX = 10_000
"""The number of actions that are read beyond the position; then the partition waits."""
BRAKE_THINGS = 5
GATHER_SECONDS = 0.005
POSITION_SECONDS = 10.0
REPORT_OUTCOMES_MAX = 900
"""With results of 64 KiB each, a report stays below 64 MiB."""
DOUBTFUL_ATTEMPTS_MAX = 256
"""The number of attempts, of each partition, at what lay there when the worker got it, that are named to the hub before they begin."""
RESULT_BYTES_MAX = 64 * 1024
PROBLEM_BYTES_MAX = 8 * 1024

assert REPORT_OUTCOMES_MAX * (RESULT_BYTES_MAX + PROBLEM_BYTES_MAX) <= 64 * 1024 * 1024, "a report has at most 64 MiB"

AfterPoison = Literal["go_on", "hold"]
WorkOrder = Literal["thing", "partition"]


class ActionRule(msgspec.Struct, frozen=True, kw_only=True):
    """The rule for the actions of one name: their attempts, and what follows poison."""

    retries: int = RETRIES
    """How often an action is tried again after an error that may pass."""
    wait_seconds: float = WAIT_SECONDS
    """Before the n-th retry n times so long."""
    timeout_seconds: float = TIMEOUT_SECONDS
    after_poison: AfterPoison = "go_on"
    """The choice for the later actions of a thing of which one could not be done."""
    max_per_second: float | None = None

    def pause(self, retry: int, chance: float) -> float:
        """Seconds before the n-th retry; `chance` is from 0 to 1."""
        return retry * self.wait_seconds * (1 + JITTER * chance)


class WorkPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for a worker as a whole: order, concurrency, pauses."""

    order: WorkOrder = "thing"
    concurrency: int = CONCURRENCY
    undeclared: Literal["fail", "poison"] = "fail"
    """The choice for an action whose name no group declared."""
    read_ahead: int = READ_AHEAD_MAX
    gather_seconds: float = GATHER_SECONDS
    position_seconds: float = POSITION_SECONDS

    def key(self, concerns: str) -> str:
        """The key of what is done one after another: the actions of a thing, or all of the partition."""
        return concerns if self.order == "thing" else ""


class Brake:
    """The brake of one partition."""

    __slots__ = ("_failing",)

    def __init__(self) -> None:
        self._failing: set[str] = set()
        """Things whose last attempt failed in passing, since the last success."""

    def failed(self, thing: str) -> None:
        if len(self._failing) < BRAKE_THINGS:
            self._failing.add(thing)

    def succeeded(self) -> None:
        self._failing.clear()

    @property
    def any_failed(self) -> bool:
        return bool(self._failing)

    def is_on(self, waiting: Collection[str]) -> bool:
        """`waiting` are the things that have actions without an outcome."""
        if len(self._failing) >= BRAKE_THINGS:
            return True
        return 0 < len(waiting) <= len(self._failing) and self._failing.issuperset(waiting)
