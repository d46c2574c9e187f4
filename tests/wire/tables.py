"""Tables as the hub gives them out, and bodies taken in as the hub takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from restante.errors import Fault, InvalidMessage
from restante.model.columns.texts import Texts
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.mailboxes.message_tables import to_table
from restante.model.publishing import intake
from restante.model.publishing.message import NEVER, Message, MessageColumns, State
from restante.wire.incoming.incoming import Body, Sent, decode_messages
from restante.wire.incoming.shapes import sound

PUBLISHED = datetime(2030, 1, 1, 12, 30, 15, 7, tzinfo=UTC)
MICROSECONDS = 1_893_501_015_000_007
ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def columns_of(sent: Sequence[Message]) -> MessageColumns:
    columns, faults = intake.from_messages(sent, claim_check_origins=None)
    assert faults == []
    return intake.fill_made_ids(columns, now_ms=1, random=bytes(8 * len(sent)))


def table_of(*sent: Message, state: State = State.WAITING) -> pa.Table:
    columns = columns_of(sent)
    n = len(columns)
    collected = MICROSECONDS + 1 if state is State.COLLECTED else NEVER
    return to_table(
        columns,
        sequence_number=np.arange(5, n + 5),
        published_at=np.full(n, MICROSECONDS),
        collected_at=np.full(n, collected),
        state=Texts.constant(state.value, n),
    )


def bundle_of(table: pa.Table) -> BundleAnswer:
    return BundleAnswer(
        bundle_id=ID,
        recipient="anna",
        origin='the "post"',
        kind="letter",
        document_types=("letter", "card"),
        message_count=table.num_rows,
        columns=table,
    )


def taken_in(
    body: Body, content_type: str | None, headers: Mapping[str, str] | None = None
) -> tuple[MessageColumns, list[Fault]]:
    """A body through the decoder and the rules of the model, as a server does it."""
    return judged(decode_messages(body, content_type=content_type, headers=headers or {}))


def judged(sent: Sent) -> tuple[MessageColumns, list[Fault]]:
    """What was decoded, through the rules of the model."""
    if isinstance(sent, pa.Table):
        return intake.from_arrow(sent, claim_check_origins=None)
    return intake.from_messages(sound(sent), claim_check_origins=None)


def faults_of(error: InvalidMessage) -> list[tuple[int, str | None]]:
    """Which fields of which messages are wrong."""
    return [(fault.index, fault.field) for fault in error.faults]
