"""What a commit brought, handed on to whoever pushes it to those who are connected.

Each commit tells what it stored, after it is durable and in the order of its numbers. Nothing is copied for that, and
where nobody is connected nothing is done. What was stored without being looked at, as by a consignment, is only named:
those whom it concerns read it from their history.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from restante.model.columns.hashing import Hashes
from restante.model.publishing.arrival import Arrivals
from restante.model.publishing.letter import Letter

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handed:
    """A few messages, one by one."""

    letters: Sequence[Letter]
    ids: Sequence[bytes]
    numbers: Sequence[int]
    published_at: int


@dataclass(frozen=True, slots=True)
class Shipped:
    """Many messages as columns."""

    arrivals: Arrivals
    number: NDArray[np.int64]
    published_at: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Messages of these recipients, which are to be read from history."""

    recipients: Hashes


Mail = Handed | Shipped | Elsewhere
Take = Callable[[Sequence[Mail]], None]


class LivePost:
    """Those who push mail. They are called in the committer's thread, and must be quick."""

    def __init__(self) -> None:
        self._takers: tuple[Take, ...] = ()

    @contextmanager
    def taking(self, take: Take) -> Iterator[None]:
        """While inside, `take` gets what each commit brought."""
        self._takers = (*self._takers, take)
        try:
            yield
        finally:
            self._takers = tuple(taker for taker in self._takers if taker is not take)

    def announce(self, mail: Sequence[Mail]) -> None:
        if not mail:
            return
        for take in self._takers:
            try:
                take(mail)
            except Exception:  # noqa: BLE001  # one who fails keeps the others from nothing
                _log.exception("What was committed could not be pushed.")
