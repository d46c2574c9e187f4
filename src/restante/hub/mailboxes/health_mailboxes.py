"""The mailboxes in which the hub checks itself: no list of recipients shows them."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.model.columns.arrow import Column, numbers_of

PREFIX = "restante.health."


def health_mailboxes(recipients: Column) -> NDArray[np.bool_]:
    """Which of these recipients are such mailboxes."""
    found: NDArray[np.bool_] = numbers_of(pc.starts_with(recipients, PREFIX))
    return found
