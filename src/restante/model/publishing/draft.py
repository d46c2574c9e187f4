"""Messages as they were sent, in columns, before the rules were applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.columns.arrow import Column
from restante.model.columns.texts import Texts

NOT_GIVEN = np.iinfo(np.int64).min
"""The weight of a message whose sender gave none."""


@dataclass(frozen=True, slots=True)
class DraftColumns:
    """The columns that Python messages and Arrow columns both become, so that one set of rules serves them.

    A column is None when no message says anything there. A value that a draft cannot hold (a number where a text should be) is
    a fault already, and null here.
    """

    n: int
    id: Column | None
    """Texts, or fixed binary of 16 bytes."""
    text_id: Column | None
    """Texts: ids once more, as the hub gives out those that are no UUIDs."""
    recipient: Column | None
    origin: Column | None
    kind: Column | None
    document_type: Column | None
    media_type: Column | None
    weight: NDArray[np.int64] | None
    """`NOT_GIVEN` where there is none; numbers beyond 64 bits are cut to some that are still too large."""
    bundleable: NDArray[np.bool_] | None
    data: pa.LargeBinaryArray | None
    """Null for a claim check."""
    media_default: Texts | None
    """The media type of messages that name none, by how their data was given. None: octets."""
    properties: pa.MapArray[Any, Any] | None
    expires_at: NDArray[np.int64] | None
    """Microseconds since 1970 UTC, `NEVER` where there is none."""
    visible_at: NDArray[np.int64] | None
    """Microseconds since 1970 UTC, `NEVER` where there is none."""
    source_position: NDArray[np.int64] | None
    """`NOT_GIVEN` where there is none, cut like weights."""
