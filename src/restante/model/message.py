"""A message, as a value for people and as columns for the hub."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.model.arrow import column_of
from restante.model.texts import Texts

__all__ = ["NEVER", "SHOWN_STATES", "Message", "MessageColumns", "State", "Texts"]

NEVER = 2**63 - 1
"""The `expires_at` of a message that does not expire, in microseconds since 1970 UTC."""


class State(Enum):
    """What has become of a message."""

    WAITING = "waiting"
    COLLECTED = "collected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SET_ASIDE = "set_aside"


SHOWN_STATES = (State.WAITING, State.COLLECTED)
"""Whoever follows a mailbox is shown these: the others have been taken back, or are not to be delivered."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a producer leaves for one recipient.

    `data` is bytes, or any value that JSON can say (None included); left out, the message is a claim check and its
    origin delivers the content when it is peeked. The last fields are read only: four are the hub's, and
    `published_sequence_number` is a producer's own number for what it published.
    """

    recipient: str
    data: Any = msgspec.UNSET
    id: str | None = None
    origin: str = "default"
    kind: str = "default"
    document_type: str | None = None
    weight: int | None = None
    bundleable: bool = True
    media_type: str | None = None
    properties: dict[str, str] = {}
    expires_at: datetime | None = None
    sequence_number: int | None = None
    published_at: datetime | None = None
    collected_at: datetime | None = None
    state: State | None = None
    published_sequence_number: int | None = None


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Messages of one or more sends as columns; row i is message i, in the order sent. Checked by whoever made it."""

    id: NDArray[np.uint64]
    """Shape (n, 2): the sixteen bytes of the UUID (network order in memory), viewed as two native integers."""
    made_id: NDArray[np.bool_]
    """The sender gave no id: the hub makes one, and need not check it."""
    recipient: Texts
    origin: Texts
    kind: Texts
    document_type: Texts
    media_type: Texts
    weight: NDArray[np.int32]
    bundleable: NDArray[np.bool_]
    inline: NDArray[np.bool_]
    """False: a claim check; its data is empty."""
    data: pa.LargeBinaryArray
    properties: pa.BinaryArray
    """Each a compact JSON object of text to text; empty bytes where there are none. Never null."""
    expires_at: NDArray[np.int64]
    """Microseconds since 1970 UTC, `NEVER` where there is none."""

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, rows: NDArray[np.integer[Any]]) -> MessageColumns:
        """The messages by row number, in that order."""
        numbers = column_of(rows)
        return MessageColumns(
            id=self.id[rows],
            made_id=self.made_id[rows],
            recipient=self.recipient.take(rows),
            origin=self.origin.take(rows),
            kind=self.kind.take(rows),
            document_type=self.document_type.take(rows),
            media_type=self.media_type.take(rows),
            weight=self.weight[rows],
            bundleable=self.bundleable[rows],
            inline=self.inline[rows],
            data=self.data.take(numbers),
            properties=self.properties.take(numbers),
            expires_at=self.expires_at[rows],
        )
