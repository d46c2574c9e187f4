"""Messages into columns: whatever a sender gives, checked by the one set of rules, with every fault named.

A faulty message keeps its row, with harmless values in place of what was wrong, so that row i is always message i.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.errors import Fault, InvalidRequest
from restante.limits import DATA_BYTES_MAX
from restante.model.columns.texts import Texts
from restante.model.columns.uuids import made_uuids
from restante.model.publishing.intake_arrow import draft_of_arrow
from restante.model.publishing.intake_messages import draft_of_messages
from restante.model.publishing.intake_rules import checked
from restante.model.publishing.message import Message, MessageColumns
from restante.model.publishing.validation import Faults
from restante.model.uuid_text import RANDOM_BYTES_PER_ID

__all__ = ["RANDOM_BYTES_PER_ID", "concat", "fill_made_ids", "from_arrow", "from_messages"]


def from_messages(
    messages: Sequence[Message],
    *,
    claim_check_origins: Collection[str] | None,
    data_bytes_max: int = DATA_BYTES_MAX,
    own: bool = False,
) -> tuple[MessageColumns, list[Fault]]:
    """Columns of Python messages. Only these origins may send claim checks; None allows all.

    `data_bytes_max` bounds the data of each; `own`: the hub sends them.
    """
    faults = Faults()
    try:
        draft = draft_of_messages(messages, faults)
        return checked(draft, faults, claim_check_origins=claim_check_origins, data_bytes_max=data_bytes_max, own=own)
    except pa.ArrowException as error:
        raise InvalidRequest(f"the messages do not fit in columns: {error}") from error


def from_arrow(
    source: object, *, claim_check_origins: Collection[str] | None, data_bytes_max: int = DATA_BYTES_MAX
) -> tuple[MessageColumns, list[Fault]]:
    """Columns of a table, a batch, a reader, or anything with the Arrow stream interface, such as a frame.

    Only these origins may send claim checks; None allows all.
    """
    try:
        faults = Faults()
        draft = draft_of_arrow(source, faults, data_bytes_max)
        return checked(draft, faults, claim_check_origins=claim_check_origins, data_bytes_max=data_bytes_max)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"the Arrow data cannot be read: {error}") from error


def concat(parts: Sequence[MessageColumns]) -> MessageColumns:
    """The messages of all parts, one after another."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return from_messages((), claim_check_origins=None)[0]
    return MessageColumns(
        id=np.concatenate([part.id for part in parts]),
        made_id=np.concatenate([part.made_id for part in parts]),
        recipient=Texts.concat([part.recipient for part in parts]),
        origin=Texts.concat([part.origin for part in parts]),
        kind=Texts.concat([part.kind for part in parts]),
        document_type=Texts.concat([part.document_type for part in parts]),
        media_type=Texts.concat([part.media_type for part in parts]),
        weight=np.concatenate([part.weight for part in parts]),
        bundleable=np.concatenate([part.bundleable for part in parts]),
        inline=np.concatenate([part.inline for part in parts]),
        data=pa.concat_arrays([part.data for part in parts]),
        properties=pa.concat_arrays([part.properties for part in parts]),
        expires_at=np.concatenate([part.expires_at for part in parts]),
        visible_at=_delays(parts),
        source_position=_positions(parts),
    )


def _delays(parts: Sequence[MessageColumns]) -> NDArray[np.int64] | None:
    if all(part.visible_at is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(len(part), np.int64) if part.visible_at is None else part.visible_at for part in parts]
    )


def _positions(parts: Sequence[MessageColumns]) -> NDArray[np.int64] | None:
    if all(part.source_position is None for part in parts):
        return None
    return np.concatenate(
        [np.full(len(part), -1, np.int64) if part.source_position is None else part.source_position for part in parts]
    )


def fill_made_ids(columns: MessageColumns, *, now_ms: int, random: bytes) -> MessageColumns:
    """The same messages, with ascending UUIDv7s where the sender gave no id, and nobody has made one before.

    `random` holds at least `RANDOM_BYTES_PER_ID` bytes for each of them (`columns.made_id.sum()`).
    """
    missing = columns.made_id & ~columns.id.any(axis=1)
    count = int(missing.sum())
    if count == 0:
        return columns
    ids = columns.id.copy()
    ids[missing] = made_uuids(count, now_ms=now_ms, random=random)
    return replace(columns, id=ids)
