"""How long to wait after failures in a row: twice as long each time, up to a bound."""

from __future__ import annotations

_DOUBLINGS_MAX = 62
"""More of them change nothing: no pause in use is so much longer than the first."""


def back_off(failures: int, *, first: float, longest: float, chance: float = 0.0) -> float:
    """Seconds to wait after so many failures.

    `chance`, between 0 and 1, takes up to half of it away, so that those who failed together do not come back together.
    """
    doubled = first * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS_MAX)
    return min(doubled, longest) * (1 - chance / 2)
