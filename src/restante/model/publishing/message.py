"""A message, as a value for people and as columns for the hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from restante.model.columns import media_types

if TYPE_CHECKING:  # A message alone needs no columns, and who sends a single one need not wait for Arrow.
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from restante.model.columns.texts import Texts

HUB_ORIGIN = "restante"
"""The origin of the hub's own messages: nobody else publishes for it."""
HEALTH_ORIGIN = "restante.health"
"""The origin of the messages by which the hub checks itself: they are in no count, and in no feed."""
RESERVED_ORIGINS = (HUB_ORIGIN, HEALTH_ORIGIN)
"""Origins for which nobody but the hub publishes."""
NEVER = 2**63 - 1
"""The `expires_at` of a message that does not expire, in microseconds since 1970 UTC."""


class State(Enum):
    """The states of a message."""

    WAITING = "waiting"
    COLLECTED = "collected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SET_ASIDE = "set_aside"
    DELAYED = "delayed"
    """Kept aside until it is due: not stored as a message yet, without a number, and not in history."""


SHOWN_STATES = (State.WAITING, State.COLLECTED)
"""The states that a follower of a mailbox is shown: the others have been taken back, or are not to be delivered."""
ACTION_KIND = "action"
"""Messages of this kind are something to be done, and no mail: they are in history, and never in a bundle."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message that a producer leaves for one recipient.

    `data` is a `str` (text), bytes, or any other value that JSON can say (None included); `text` is text too, instead of
    `data`. With neither, the message is a claim check, and its origin delivers the content when it is peeked. In a message that
    was read, `data` is the value of JSON, the text of `text/*` (then `text` is the same), else bytes. `visible_at` delays the
    message: until then the hub keeps it aside. `source_position` is the place of the message in the source that its send names.
    The last fields are read only: four are the hub's, and `published_sequence_number` is the producer's own number for it.
    """

    recipient: str
    data: Any = msgspec.UNSET
    text: str | None = None
    id: str | None = None
    origin: str = "default"
    kind: str = "default"
    document_type: str | None = None
    weight: int | None = None
    bundleable: bool = True
    media_type: str | None = None
    properties: dict[str, str] = {}
    expires_at: datetime | None = None
    visible_at: datetime | None = None
    source_position: int | None = None
    sequence_number: int | None = None
    published_at: datetime | None = None
    collected_at: datetime | None = None
    state: State | None = None
    published_sequence_number: int | None = None

    def __repr__(self) -> str:
        return f"Message({', '.join(_said(self))})"


def is_shown(message: Message) -> bool:
    """Whether those who follow a mailbox are shown it."""
    return message.state in SHOWN_STATES and message.kind != ACTION_KIND


_SHOWN_LENGTH_MAX = 200
"""The characters of a value that are shown: data may have megabytes, and a log line should not."""


def _said(message: Message) -> Iterator[str]:
    """The fields of the message beyond the defaults, each value cut to what a line can hold."""
    for field in msgspec.structs.fields(Message):
        value = getattr(message, field.name)
        if field.name == "recipient" or value != (field.default if field.name != "properties" else {}):
            yield f"{field.name}={_cut(value)}"


def _cut(value: object) -> str:
    if isinstance(value, str | bytes) and len(value) > _SHOWN_LENGTH_MAX:
        return f"{value[:_SHOWN_LENGTH_MAX]!r}… ({len(value)} in all)"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_LENGTH_MAX else f"{shown[:_SHOWN_LENGTH_MAX]}…"


def text_of(message: Message) -> str | None:
    """The text of a message; None if its data is given otherwise.

    A `str` as data is text, as in a column of strings, unless the message says that it is a value of JSON.
    """
    data, media_type = message.data, message.media_type
    if message.text is not None or type(data) is not str:
        return message.text
    return None if type(media_type) is str and media_types.is_json(media_type) else data


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Messages of one or more sends as columns; row i is message i, in the order sent. The code that made them has checked them."""

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
    """Each a compact JSON object of text to text; empty bytes where there are none. Never null. An id that is no UUID
    lies before it (`restante.model.columns.text_ids`)."""
    expires_at: NDArray[np.int64]
    """Microseconds since 1970 UTC, `NEVER` where there is none."""
    visible_at: NDArray[np.int64] | None = None
    """When each is to be published, 0 where it says nothing. None: nothing is to wait."""
    source_position: NDArray[np.int64] | None = None
    """Where each stands in its source, -1 where it says nothing. None: no message says anything."""

    def __len__(self) -> int:
        return len(self.weight)

    def id_texts(self, rows: NDArray[np.integer[Any]]) -> list[str]:
        """The ids of some messages, by row number, as their sender gave them."""
        from restante.model.columns.arrow import column_of  # noqa: PLC0415 - where there are columns, Arrow is there
        from restante.model.columns.text_ids import id_texts  # noqa: PLC0415 - likewise

        return id_texts(self.id[rows], self.properties.take(column_of(rows)))

    def take(self, rows: NDArray[np.integer[Any]]) -> MessageColumns:
        """The messages by row number, in that order."""
        from restante.model.columns.arrow import column_of  # noqa: PLC0415 - where there are columns, Arrow is there

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
            visible_at=None if self.visible_at is None else self.visible_at[rows],
            source_position=None if self.source_position is None else self.source_position[rows],
        )

    def slice(self, start: int, stop: int) -> MessageColumns:
        """Messages that lie one after another; their data is not copied."""
        own = slice(start, stop)
        return MessageColumns(
            id=self.id[own],
            made_id=self.made_id[own],
            recipient=self.recipient.slice(own),
            origin=self.origin.slice(own),
            kind=self.kind.slice(own),
            document_type=self.document_type.slice(own),
            media_type=self.media_type.slice(own),
            weight=self.weight[own],
            bundleable=self.bundleable[own],
            inline=self.inline[own],
            data=self.data.slice(start, stop - start),
            properties=self.properties.slice(start, stop - start),
            expires_at=self.expires_at[own],
            visible_at=None if self.visible_at is None else self.visible_at[own],
            source_position=None if self.source_position is None else self.source_position[own],
        )
