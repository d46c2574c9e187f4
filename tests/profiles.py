"""How much the tests that draw their cases try: profiles of Hypothesis, and counts that go by them.

`dev` is the one of `make test`, `ci` that of `make test-all`, `make test-wire` and `.ci/run`, `long` that of
`make test-long`. Another is chosen with pytest's option `--hypothesis-profile`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hypothesis import settings

_EXAMPLES = {"dev": 50, "ci": 100, "long": 1_000}


def register() -> None:
    """Make the profiles known, and load the one to begin with; before any test is imported. A busy machine is no failure."""
    plain = settings.get_profile("default")
    for name, examples in _EXAMPLES.items():
        settings.register_profile(name, parent=plain, max_examples=examples, deadline=None)
    settings.load_profile("long" if os.environ.get("RESTANTE_LONG") else "dev")


def by_profile(*, dev: int, ci: int) -> int:
    """A count that is smaller in the tier for people; `long` counts as `ci`, and multiplies by means of its own."""
    return dev if settings.get_current_profile_name() == "dev" else ci


def places(count: int) -> list[int]:
    """Which of so many places in order are tried: all of them; in the tier for people both ends, and every third between."""
    return list(range(count)) if by_profile(dev=0, ci=1) else sorted({*range(0, count, 3), *range(count)[-1:]})


def faults(writes: Sequence[int], *, whole: bool = False) -> list[tuple[int, int]]:
    """When a store fails: in which write, and after how many of its steps; `whole`: after the last one too.

    All such moments, or `places` among them.
    """
    moments = [(write, step) for write, steps in enumerate(writes) for step in range(steps + whole)]
    return [moments[place] for place in places(len(moments))]
