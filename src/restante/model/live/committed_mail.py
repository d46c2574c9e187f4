"""The messages of a commit, as live delivery takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from restante.model.columns.hashing import Hashes
from restante.model.publishing.arrival import Arrivals
from restante.model.storage.letter import Letter


@dataclass(frozen=True, slots=True)
class Handed:
    """A few messages as single letters."""

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
    """Recipients whose new messages must be read from history."""

    recipients: Hashes


Mail = Handed | Shipped | Elsewhere
Take = Callable[[Sequence[Mail]], None]
