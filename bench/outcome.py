"""The outcome of a workload: lines of the table with their goals, and series of points for the plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

import numpy as np

from bench.sampling import Samples


class Unit(Enum):
    SECONDS = "s"
    RATE = "/s"
    BYTES = "B"
    RATIO = "×"


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value; `samples` are all of those whose median it is."""

    value: float
    unit: Unit
    name: str = "restante"
    samples: tuple[float, ...] = ()

    @classmethod
    def of_seconds(cls, samples: Samples, name: str = "restante") -> Figure:
        return cls(samples.median, Unit.SECONDS, name, samples.seconds)

    @classmethod
    def of_rate(cls, samples: Samples, count: int, name: str = "restante") -> Figure:
        return cls(count / samples.median, Unit.RATE, name, tuple(count / seconds for seconds in samples.seconds))

    @property
    def text(self) -> str:
        match self.unit:
            case Unit.SECONDS:
                return seconds_text(self.value)
            case Unit.RATE:
                return f"{self.value:,.0f}/s"
            case Unit.BYTES:
                return bytes_text(self.value)
            case Unit.RATIO:
                return f"{self.value:.2f}"
            case _ as never:
                assert_never(never)


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the ratio of a line or, where it says so, on the value itself."""

    text: str
    at_least: float | None = None
    at_most: float | None = None
    of_value: bool = False

    def met_by(self, number: float) -> bool:
        return (self.at_least is None or number >= self.at_least) and (self.at_most is None or number <= self.at_most)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    what: str
    ours: Figure
    reference: Figure | None = None
    ratio: float | None = None
    goal: Goal | None = None

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        number = self.ours.value if self.goal.of_value else self.ratio
        assert number is not None, "a goal has something to be a bound of"
        return self.goal.met_by(number)


@dataclass(slots=True)
class Outcome:
    """The outcome of one workload. A series is points (messages stored, value), by plot and by contender."""

    lines: list[Line] = field(default_factory=list)
    series: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    figures: list[tuple[str, Figure]] = field(default_factory=list)
    """Everything that was measured, by what was done, also what no line compares with."""


def slower(what: str, ours: Figure, reference: Figure, *, at_most: float | None = None, of: str = "") -> Line:
    """How many times as long as the reference we take (or, of rates, how many times ours the reference is)."""
    ratio = ours.value / reference.value if ours.unit is not Unit.RATE else reference.value / ours.value
    goal = None if at_most is None else Goal(f"≤ {at_most:g} × {of or reference.name}", at_most=at_most)
    return Line(what, ours, reference, ratio, goal)


def by_turns(what: str, ours: Figure, reference: Figure, *, at_most: float | None = None) -> Line:
    """As `slower`, of two that ran in turn: the median over the rounds of the ratio in each, so that drift cancels."""
    goal = None if at_most is None else Goal(f"≤ {at_most:g} × {reference.name}", at_most=at_most)
    return Line(what, ours, reference, ratios(ours, reference).value, goal)


def faster_by_turns(what: str, ours: Figure, reference: Figure, *, at_least: float | None = None) -> Line:
    """As `by_turns`, the other way round: how many times as fast as the reference we are."""
    goal = None if at_least is None else Goal(f"≥ {at_least:g} × {reference.name}", at_least=at_least)
    return Line(what, ours, reference, ratios(reference, ours).value, goal)


def ratios(ours: Figure, reference: Figure) -> Figure:
    """Round by round, how many times as long as the reference we took."""
    slower, quicker = (ours, reference) if ours.unit is not Unit.RATE else (reference, ours)
    found = [one / other for one, other in zip(slower.samples, quicker.samples, strict=True)]
    return Figure(float(np.median(found)), Unit.RATIO, f"{ours.name} ÷ {reference.name}", tuple(found))


def faster(what: str, ours: Figure, reference: Figure, *, at_least: float | None = None, of: str = "") -> Line:
    """How many times faster than the reference we are."""
    ratio = reference.value / ours.value if ours.unit is not Unit.RATE else ours.value / reference.value
    goal = None if at_least is None else Goal(f"≥ {at_least:g} × faster than {of or reference.name}", at_least=at_least)
    return Line(what, ours, reference, ratio, goal)


def seconds_text(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds < 1e-4:
        return f"{seconds * 1e6:.1f} µs"
    milliseconds = seconds * 1e3
    return f"{milliseconds:.1f} ms" if milliseconds >= 10 else f"{milliseconds:.2f} ms"


def bytes_text(size: float) -> str:
    if abs(size) >= 1e6:
        return f"{size / 1e6:,.1f} MB"
    return f"{size:,.1f} B" if abs(size) < 1e4 else f"{size / 1e3:,.1f} kB"
