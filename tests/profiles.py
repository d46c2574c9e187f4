"""How much the tests that draw their cases try: profiles of Hypothesis, and counts that go by them.

`dev` is the one of `make test`, `ci` that of `make test-all`, `make test-wire` and `.ci/run`, `long` that of
`make test-long`. Another is chosen with pytest's option `--hypothesis-profile`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product

from hypothesis import settings

_EXAMPLES = {"dev": 20, "ci": 100, "long": 1_000}
_PLACES = 3
"""So many places in order the tier for people tries."""
_EVERY = 3
"""Of the pairs of things that meet, the tier for people tries one in so many."""


def register() -> None:
    """Make the profiles known, and load the one to begin with; before any test is imported. A busy machine is no failure."""
    plain = settings.get_profile("default")
    for name, examples in _EXAMPLES.items():
        settings.register_profile(name, parent=plain, max_examples=examples, deadline=None)
    settings.load_profile("long" if os.environ.get("RESTANTE_LONG") else "dev")


def by_profile(*, dev: int, ci: int) -> int:
    """A count that is smaller in the tier for people; `long` counts as `ci`, and multiplies by means of its own."""
    return dev if settings.get_current_profile_name() == "dev" else ci


def places(count: int, *, most: int = _PLACES) -> list[int]:
    """Which of so many places in order are tried: all of them; in the tier for people `most`, evenly, with both ends."""
    if count <= most or by_profile(dev=0, ci=1):
        return list(range(count))
    return [place * (count - 1) // (most - 1) for place in range(most)]


def some(cases: Iterable[str], *, most: int) -> list[str]:
    """Which of several cases that cost much are tried: all; in the tier for people `most` of them."""
    every = list(cases)
    return [every[place] for place in places(len(every), most=most)]


def pairs(firsts: Iterable[str], seconds: Iterable[str]) -> list[tuple[str, str]]:
    """Which pairs are tried: all; in the tier for people every third, so that each of either side is in some."""
    every = by_profile(dev=_EVERY, ci=1)
    return [
        (first, second)
        for (row, first), (column, second) in product(enumerate(firsts), enumerate(seconds))
        if (row + column) % every == 0
    ]


def faults(writes: Sequence[int], *, whole: bool = False) -> list[tuple[int, int]]:
    """When a store fails: in which write, and after how many of its steps; `whole`: after the last one too.

    All such moments; in the tier for people the first and the last.
    """
    moments = [(write, step) for write, steps in enumerate(writes) for step in range(steps + whole)]
    return [moments[place] for place in places(len(moments), most=2)]
