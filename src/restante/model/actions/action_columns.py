"""Actions among messages that are columns."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.model.publishing.message import ACTION_KIND, MessageColumns


def action_rows_of(columns: MessageColumns) -> NDArray[np.int64]:
    """Which rows are actions."""
    code = pc.index(columns.kind.values, ACTION_KIND).as_py()
    return np.flatnonzero(columns.kind.codes == code) if code >= 0 else np.zeros(0, np.int64)
