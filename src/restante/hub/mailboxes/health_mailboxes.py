"""The mailboxes in which the hub checks itself: no list of recipients shows them, and no count has them."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.model.columns.arrow import Column, numbers_of

PREFIX = "restante.health."


class HealthMail:
    """The partitions in which a check message waits now. Changed in the commits that store it and settle it."""

    def __init__(self) -> None:
        self._waiting: frozenset[int] = frozenset()
        self.forget_at = 0
        """When checks that are past their time are next forgotten, by the hub's clock."""

    def add(self, partition: int) -> None:
        self._waiting |= {partition}

    def remove(self, partition: int) -> None:
        self._waiting -= {partition}

    def count(self, partition: int) -> int:
        return int(partition in self._waiting)


def health_mailboxes(recipients: Column) -> NDArray[np.bool_]:
    """Which of these recipients are such mailboxes."""
    found: NDArray[np.bool_] = numbers_of(pc.starts_with(recipients, PREFIX))
    return found
