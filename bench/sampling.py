"""Taking times: contenders run by turns, so that what else the machine does hits all of them alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds, in the order taken."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    def quantile(self, fraction: float) -> float:
        return float(np.quantile(self.seconds, fraction))


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the same thing: `prepare` is not timed; `measure` gives the seconds it took."""

    name: str
    prepare: Callable[[], Any]
    measure: Callable[[Any], float]


def timed(action: Callable[[Any], object]) -> Callable[[Any], float]:
    """Makes an action one that is measured from call to return."""

    def measure(prepared: Any) -> float:
        start = time.perf_counter()
        action(prepared)
        return time.perf_counter() - start

    return measure


def interleave(
    contenders: Sequence[Contender], *, repetitions: int, advance: Callable[[str], None] = lambda _: None
) -> dict[str, Samples]:
    """Every contender once a round, each round beginning with another; a first round warms up and does not count."""
    taken: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    assert len(taken) == len(contenders), "contenders have names of their own"
    for turn in range(repetitions + 1):
        for contender in _rotated(contenders, turn):
            seconds = _sample(contender)
            advance(contender.name)
            if turn:
                taken[contender.name].append(seconds)
    return {name: Samples(tuple(seconds)) for name, seconds in taken.items()}


def rounds(contenders: Sequence[Contender], repetitions: int) -> int:
    """How often `interleave` will advance."""
    return len(contenders) * (repetitions + 1)


def percentiles(seconds: Iterable[float], *fractions: float) -> list[float]:
    return [float(value) for value in np.quantile(list(seconds), fractions)]


def _sample(contender: Contender) -> float:
    prepared = contender.prepare()
    gc.collect()
    return contender.measure(prepared)


def _rotated(contenders: Sequence[Contender], turn: int) -> list[Contender]:
    start = turn % len(contenders)
    return [*contenders[start:], *contenders[:start]]
