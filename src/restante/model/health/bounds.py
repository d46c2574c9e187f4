"""Measures, a minute's window over counters that only grow, and the bounds that make a state of a measure: green, yellow or red."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType


class HealthState(Enum):
    """The health of a part of the hub. The worst of several is the state of what they belong to."""

    GREEN = "green"
    YELLOW = "yellow"
    RED = "red"

    @property
    def severity(self) -> int:
        """0, 1 or 2: the number that metrics show."""
        return _SEVERITY[self]


_SEVERITY = {HealthState.GREEN: 0, HealthState.YELLOW: 1, HealthState.RED: 2}


def worst(states: list[HealthState]) -> HealthState:
    """Green, if there are none."""
    return max(states, key=lambda state: state.severity, default=HealthState.GREEN)


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A bound says from where on a measure is yellow, and red; to reach it counts. With `red` below `yellow`, less is worse."""

    yellow: float
    red: float

    def judge(self, value: float) -> HealthState:
        sign = -1 if self.red < self.yellow else 1
        if sign * value >= sign * self.red:
            return HealthState.RED
        return HealthState.YELLOW if sign * value >= sign * self.yellow else HealthState.GREEN


ONE_IS_RED = Bound(yellow=1, red=1)
"""The bound of what may not happen at all: a store that stopped, a thread that died."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A measured value: a name that bounds are known by, a value and its unit. A reason is for people."""

    name: str
    value: float
    unit: str
    bound: Bound | None = None
    """The measure's own bound. Without one, the settings have it."""
    reason: str | None = None


Measure = Callable[[], Iterable[Reading]]
"""A function that measures, called in each round."""


def flag(name: str, reason: str | None) -> Reading:
    """A measure of something that may not be: red as soon as there is a reason."""
    return Reading(name=name, value=float(reason is not None), unit="failures", bound=ONE_IS_RED, reason=reason)


class HealthMeasure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measure as it was judged."""

    name: str
    value: float
    unit: str
    yellow: float
    red: float
    state: HealthState
    reason: Annotated[str, Meta(description="What is the matter, in words.")] | UnsetType = UNSET


def judged(reading: Reading, bounds: dict[str, Bound]) -> HealthMeasure:
    """A reading by its own bound, or by that of its name."""
    bound = reading.bound or bounds[reading.name]
    state = bound.judge(reading.value)
    told = reading.reason is not None and state is not HealthState.GREEN
    return HealthMeasure(
        name=reading.name,
        value=round(reading.value, 3),
        unit=reading.unit,
        yellow=bound.yellow,
        red=bound.red,
        state=state,
        reason=reading.reason if told and reading.reason is not None else UNSET,
    )


ROUND_SECONDS = 10.0
"""How often health is evaluated."""
WINDOW_SECONDS = 60.0


class RateWindow:
    """Counters as they were at each round, for as long as the window is; and what was added since its beginning."""

    def __init__(self, seconds: float = WINDOW_SECONDS) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, tuple[float, ...]]] = deque()

    def added(self, now: float, counters: tuple[float, ...]) -> tuple[float, ...]:
        """Note the counters as they are now; gives what came to each within the window.

        The oldest sample that is kept is the last one from before the window began: a window is never shorter than it
        should be, once the hub has run so long. Before that, it begins with the first sample.
        """
        self._samples.append((now, counters))
        while len(self._samples) > 1 and self._samples[1][0] <= now - self._seconds:
            self._samples.popleft()
        first = self._samples[0][1]
        return tuple(max(0.0, last - before) for last, before in zip(counters, first, strict=True))


def mean(total: float, count: float) -> float | None:
    """The mean; None: nothing was there to measure."""
    return total / count if count else None
