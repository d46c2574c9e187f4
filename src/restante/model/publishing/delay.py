"""Delayed messages: kept aside until they are due, one small row each, and then published like any other.

A row is found by its identity, recipient and id; a second, all but empty one sorts by time, so that what is due is found without
reading what waits. Both go in the commit that publishes the message, or takes it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from restante.decoders import packed_decoder
from restante.errors import Fault, InvalidMessage, InvalidRequest
from restante.limits import DATA_BYTES_MAX
from restante.model.columns.arrow import offsets_of, strings_of
from restante.model.columns.hashing import fingerprint
from restante.model.columns.texts import Texts
from restante.model.publishing.message import ACTION_KIND, MessageColumns
from restante.model.storage.keys import key_number, number_key

_ACTION = b"a"


class DelayedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message that is kept aside. Times are microseconds since 1970 UTC."""

    due: int
    accepted_at: int
    id: bytes
    recipient: str
    origin: str
    kind: str
    document_type: str
    media_type: str
    weight: int
    bundleable: bool
    inline: bool
    data: bytes
    properties: bytes
    """The properties as they are stored: with the id before them if it is no UUID."""
    expires_at: int

    def is_same(self, other: DelayedRow) -> bool:
        """Whether the other one is a duplicate, as of any message; when it is due does not count, the first stays."""
        return _content(self) == _content(other)


def _content(row: DelayedRow) -> tuple[object, ...]:
    return row.origin, row.kind, row.bundleable, row.weight, row.inline, row.data


class DueKey(NamedTuple):
    """The key of the row that sorts by time, taken apart."""

    due: int
    fingerprint: int
    key: bytes
    """The key of the message's own row."""
    is_action: bool = False
    """Whether the delayed message is an action, as the row's value says: an action is no mail, so mailboxes do not announce it."""

    @classmethod
    def of(cls, key: bytes, value: bytes = b"") -> DueKey:
        return cls(key_number(key), key_number(key[8:]), key[16:], value == _ACTION)

    def encoded(self) -> bytes:
        return number_key(self.due) + number_key(self.fingerprint) + self.key

    @property
    def value(self) -> bytes:
        return _ACTION if self.is_action else b""


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(DelayedRow)


def encode_delayed(row: DelayedRow) -> bytes:
    return _encoder.encode(row)


def decode_delayed(value: bytes) -> DelayedRow:
    return _decoder.decode(value)


def delayed_key(recipient_hash: int, recipient: str, message_id: bytes) -> bytes:
    """The recipient's hash first, so that a recipient's messages lie together."""
    return number_key(recipient_hash) + message_id + recipient.encode()


def mailbox_part(key: bytes) -> bytes:
    """The bytes that the keys of one recipient's messages have in common: the hash and the name, without the id."""
    return key[:8] + key[24:]


def due_key(recipient_hash: int, row: DelayedRow) -> DueKey:
    """The key by time of a message's row."""
    first, second = np.frombuffer(row.id, np.uint64).tolist()
    return DueKey(
        row.due,
        fingerprint(recipient_hash, first, second),
        delayed_key(recipient_hash, row.recipient, row.id),
        row.kind == ACTION_KIND,
    )


def are_delayed(columns: MessageColumns, now: int) -> bool:
    """Whether any message is to be seen later than now. One whose time has come is published like all others."""
    return columns.visible_at is not None and bool((columns.visible_at > now).any())


def refuse_combined(what: str) -> InvalidRequest:
    """The error for a delayed message combined with a feature that excludes delays."""
    return InvalidRequest(
        f"A message with visible_at cannot be combined with {what}: send it for itself, without {what}.",
        field="visible_at",
    )


def size_faults(columns: MessageColumns) -> list[Fault]:
    """The faults of data that is too large for a delayed message: these lie in small rows, whatever the hub is set to."""
    sizes = np.diff(offsets_of(columns.data))
    rows = np.flatnonzero(sizes > DATA_BYTES_MAX)
    detail = f"a message with visible_at has at most {DATA_BYTES_MAX} bytes of data"
    return [Fault(index=int(row), code=InvalidMessage.code, detail=detail, field="data", id=None) for row in rows]


def rows_of(columns: MessageColumns, now: int) -> list[DelayedRow]:
    """A row of each message; those without a time of their own are due at once."""
    visible_at = columns.visible_at
    assert visible_at is not None, "some are delayed"
    ids = np.ascontiguousarray(columns.id)
    recipient, origin, kind = _spelt(columns.recipient), _spelt(columns.origin), _spelt(columns.kind)
    document_type, media_type = _spelt(columns.document_type), _spelt(columns.media_type)
    data, properties = columns.data.to_pylist(), columns.properties.to_pylist()
    return [
        DelayedRow(
            max(int(visible_at[row]), now),
            now,
            ids[row].tobytes(),
            recipient[row],
            origin[row],
            kind[row],
            document_type[row],
            media_type[row],
            int(columns.weight[row]),
            bool(columns.bundleable[row]),
            bool(columns.inline[row]),
            data[row] or b"",
            properties[row] or b"",
            int(columns.expires_at[row]),
        )
        for row in range(len(columns))
    ]


def columns_of(rows: Sequence[DelayedRow]) -> MessageColumns:
    """The messages of some rows as columns, as if they had just come."""
    count = len(rows)
    return MessageColumns(
        id=np.frombuffer(b"".join(row.id for row in rows), np.uint64).reshape(count, 2),
        made_id=np.zeros(count, np.bool_),
        recipient=_texts([row.recipient for row in rows]),
        origin=_texts([row.origin for row in rows]),
        kind=_texts([row.kind for row in rows]),
        document_type=_texts([row.document_type for row in rows]),
        media_type=_texts([row.media_type for row in rows]),
        weight=np.array([row.weight for row in rows], np.int32),
        bundleable=np.array([row.bundleable for row in rows], np.bool_),
        inline=np.array([row.inline for row in rows], np.bool_),
        data=pa.array([row.data for row in rows], pa.large_binary()),
        properties=pa.array([row.properties for row in rows], pa.binary()),
        expires_at=np.array([row.expires_at for row in rows], np.int64),
    )


def _spelt(texts: Texts) -> list[str]:
    values = strings_of(texts.values)
    return [values[code] for code in texts.codes.tolist()]


def _texts(values: list[str]) -> Texts:
    distinct = list(dict.fromkeys(values))
    place = {text: code for code, text in enumerate(distinct)}
    return Texts(np.array([place[text] for text in values], np.int32), pa.array(distinct, pa.string()))
