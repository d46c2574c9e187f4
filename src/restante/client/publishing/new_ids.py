"""Ids for messages before they are published, set once and kept, so that a repetition never stores a message twice."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from restante.errors import InvalidOperation
from restante.model.columns.arrays import Words
from restante.model.columns.arrow_checks import check_sound
from restante.model.columns.uuids import made_uuids, uuid_column, uuid_texts
from restante.model.publishing.few_or_many import Few, few_or_many
from restante.model.publishing.message import Message
from restante.model.uuid_text import RANDOM_BYTES_PER_ID, made_ids

_ID = pa.binary(16)


def identify_messages(messages: Sequence[Message]) -> int:
    """Set ids on the messages that have none; return how many."""
    missing = [message for message in messages if message.id is None]
    if not missing:
        return 0
    if isinstance(few_or_many(missing), Few):
        texts = made_ids(len(missing), os.urandom, time.time_ns() // 1_000_000)
    else:
        texts = uuid_texts(_made(len(missing)))
    set_each(missing, "id", texts)
    if [message.id for message in missing] != texts:
        set_each(missing, "id", repeat(None))
        raise InvalidOperation(
            "The same message is in it twice, and has no id. Make a second Message if it is to be stored twice."
        )
    return len(missing)


def set_each(messages: Iterable[Message], field: str, values: Iterable[object]) -> None:
    """Set a field of each message to its own value, as fast as Python can."""
    deque(map(msgspec.structs.force_setattr, messages, repeat(field), values), maxlen=0)


def identified_table(table: pa.Table) -> tuple[pa.Table, int]:
    """The same columns with ids where they were missing, and how many were added. Invalid ids are left to the rules."""
    place = table.schema.get_field_index("id")
    if place < 0 and "text_id" in table.column_names:
        table = table.rename_columns({"text_id": "id"})
        place = table.schema.get_field_index("id")
    if place < 0:
        return table.append_column("id", _binary(_made(table.num_rows))), table.num_rows
    check_sound(table)
    given: Any = table.column(place)
    column = _filled(given) if given.null_count else None
    return (table, 0) if column is None else (table.set_column(place, "id", column), given.null_count)


def _filled(given: Any) -> Any:  # noqa: ANN401 - columns of Arrow
    """The column with new ids in place of nulls; None if it is not a column of ids."""
    kind = given.type.storage_type if isinstance(given.type, pa.BaseExtensionType) else given.type
    plain = given.cast(kind)
    if pa.types.is_dictionary(kind):
        plain = plain.cast(kind.value_type)
    made = _made(len(given))
    if pa.types.is_null(kind):
        return _binary(made)
    if pa.types.is_fixed_size_binary(plain.type) and plain.type.byte_width == _ID.byte_width:
        return pc.coalesce(plain, _binary(made))
    if any(test(plain.type) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        return pc.coalesce(plain.cast(pa.large_string()), uuid_column(made).cast(pa.large_string()))
    return None


def _made(count: int) -> Words:
    return made_uuids(count, now_ms=time.time_ns() // 1_000_000, random=os.urandom(count * RANDOM_BYTES_PER_ID))


def _binary(words: Words) -> Any:  # noqa: ANN401 - a column of Arrow
    content: Any = pa.py_buffer(words.tobytes())
    return pa.Array.from_buffers(_ID, len(words), [None, content])
