"""The brake: when everything fails, one is tried, and what waits keeps its count.

If the last attempts of five different things of a partition failed in passing with no success between, or of all that
wait if these are fewer, only the oldest action is tried. The first success lifts it. So an outage does not make poison of
what arrives meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection

from restante.model.work.rules import BRAKE_THINGS


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
