"""Sends of a client: messages as a body, with ids given before the first attempt, so that it may be repeated.

A few messages become JSON, which is quickest for them, and are judged by the hub. Many messages, and values that JSON cannot
say, go through the model's own rules into columns and become an Arrow stream; so a fault is the same error wherever it is
found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.errors import InvalidRequest
from restante.limits import LARGE_DATA_BYTES_MAX
from restante.model.columns.arrow import Column, column_of
from restante.model.columns.texts import Texts
from restante.model.mailboxes.message_tables import time_column, to_table
from restante.model.publishing import intake
from restante.model.publishing.broadcast import has_broadcast, spread
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many
from restante.model.publishing.message import NEVER, MessageColumns, State
from restante.model.publishing.refusals import refusal
from restante.model.publishing.validation import COLUMNS
from restante.model.uuid_text import RANDOM_BYTES_PER_ID, Random
from restante.wire.media import ARROW
from restante.wire.outgoing.outgoing import arrow_bytes
from restante.wire.plain_tables import plain_table
from restante.wire.publish_json import Making, encode_few

__all__ = [
    "EncodedPublish",
    "columns_stream",
    "encode_columns",
    "encode_publish",
    "encode_sourced",
    "encode_stage",
    "stream_bytes",
]


def encode_publish(sent: Few | Many | EncodedPublish, *, random: Random, now_ms: int) -> EncodedPublish:
    """The content type and the body of what is sent: a few as JSON, many as an Arrow stream."""
    return _encode(sent, Making(random, now_ms))


def encode_stage(sent: Few | Many | EncodedPublish) -> EncodedPublish:
    """A parcel to be staged, without ids for messages that have none: a repetition is known by the name of its parcel."""
    return _encode(sent, None)


def encode_sourced(sent: Few | Many | EncodedPublish, *, random: Random, now_ms: int) -> EncodedPublish:
    """A publish of messages with a source. A table goes as it is, and the hub alone judges it.

    A repetition is known by its positions, so ids need not be made before the first attempt.
    """
    if isinstance(sent, Many) and isinstance(sent.content, pa.Table):
        return EncodedPublish(ARROW, stream_bytes(sent.content))
    return encode_publish(sent, random=random, now_ms=now_ms)


def _encode(sent: Few | Many | EncodedPublish, making: Making | None) -> EncodedPublish:
    match sent:
        case EncodedPublish():
            return sent
        case Few(messages):
            return encode_few(messages, making) or EncodedPublish(ARROW, _columns_stream(messages, making))
        case Many(content) if isinstance(content, Sequence) and has_broadcast(content):
            # JSON says the data of a broadcast once; columns would repeat it for each recipient.
            return encode_few(content, making) or EncodedPublish(ARROW, _columns_stream(spread(content), making))
        case Many(content):
            return EncodedPublish(ARROW, _columns_stream(content, making))
        case never:
            assert_never(never)


def encode_columns(sent: object, *, random: Random, now_ms: int) -> bytes:
    """A sequence of messages, or anything with Arrow columns, as an Arrow stream of what the rules made of it."""
    return bytes(_columns_stream(sent, Making(random, now_ms)))


def _columns_stream(sent: object, making: Making | None) -> memoryview:
    plain = plain_table(sent, making) if isinstance(sent, pa.Table) else None
    if plain is not None:
        return stream_bytes(plain)
    if isinstance(sent, Sequence):
        return columns_stream(
            _checked(intake.from_messages(sent, claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX)), making
        )
    return columns_stream(
        _checked(intake.from_arrow(sent, claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX)), making
    )


def _checked(taken: tuple[MessageColumns, list[Any]]) -> MessageColumns:
    columns, faults = taken
    if faults:
        raise refusal(faults)
    return columns


def columns_stream(columns: MessageColumns, making: Making | None) -> memoryview:
    """The columns as an Arrow stream, which the hub takes as they are; with `making`, with ids where there are none."""
    n, missing = len(columns), int(columns.made_id.sum())
    if making is not None:
        random = making.random(missing * RANDOM_BYTES_PER_ID)
        columns = intake.fill_made_ids(columns, now_ms=making.now_ms, random=random)
    never = np.full(n, NEVER, np.int64)
    state = Texts.constant(State.WAITING.value, n)
    table = to_table(columns, sequence_number=never, published_at=never, collected_at=never, state=state)
    table = table.select([name for name in COLUMNS if name in table.column_names])
    if columns.visible_at is not None:
        due = np.where(columns.visible_at, columns.visible_at, NEVER)
        table = table.append_column("visible_at", time_column(due))
    if columns.source_position is not None:
        table = table.append_column("source_position", _positions(columns.source_position))
    return stream_bytes(_without_ids(table, columns.made_id) if making is None and missing else table)


def _positions(positions: NDArray[np.int64]) -> Column:
    """The column of source positions; null where a message has none."""
    return pa.array(positions, mask=positions < 0)


def _without_ids(table: pa.Table, absent: NDArray[np.bool_]) -> pa.Table:
    """Null where the sender gave none."""
    place = table.schema.get_field_index("id")
    ids: Column = table.column(place)
    return table.set_column(place, "id", pc.if_else(column_of(~absent), ids, pa.scalar(None, ids.type)))


def stream_bytes(table: pa.Table) -> memoryview:
    """A whole Arrow stream."""
    try:
        return arrow_bytes(table)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"the columns cannot be sent: {error}") from error
