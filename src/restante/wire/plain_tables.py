"""Tables that a client sends as they are: their columns are of plain types, and the hub applies to them the rules that the client would.

Anything else goes through these rules in the client, which makes plain columns of it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from restante.limits import SEND_BYTES_MAX, SEND_MESSAGES_MAX
from restante.model.columns.arrow import Column
from restante.model.columns.arrow_checks import size_of
from restante.model.columns.uuids import made_uuids
from restante.model.mailboxes.message_tables import id_column
from restante.model.uuid_text import RANDOM_BYTES_PER_ID
from restante.wire.publish_json import Making

_CHUNKS_MAX = 64
"""Tables in more pieces go through the rules, which bring them together."""
_NAMES = frozenset({"recipient", "origin", "kind", "document_type", "media_type"})
"""Texts that are the same in many rows: each goes once."""
_KNOWN = _NAMES | {"id", "data"}
_ID_TYPE = pa.binary(16)
_DATA_TYPES = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())


def plain_table(table: pa.Table, making: Making | None) -> pa.Table | None:
    """The table as it is to be sent, with ids if they are to be made; None if it needs a closer look."""
    names = table.column_names
    if len(set(names)) < len(names) or not {"recipient", "data"} <= set(names) <= _KNOWN:
        return None
    if not 0 < table.num_rows <= SEND_MESSAGES_MAX or size_of(table) > SEND_BYTES_MAX // 2:
        return None
    columns: dict[str, Any] = {name: _plain_column(name, table.column(name)) for name in names}
    if any(column is None for column in columns.values()):
        return None
    if "id" not in columns and making is not None:
        random = making.random(table.num_rows * RANDOM_BYTES_PER_ID)
        columns["id"] = id_column(made_uuids(table.num_rows, now_ms=making.now_ms, random=random))
    return pa.table(columns)


def _plain_column(name: str, column: Column) -> Column | None:
    """The column as it is to be sent; None if it is not plain."""
    if column.num_chunks > _CHUNKS_MAX:
        return None
    if name == "id":
        return column if column.type == _ID_TYPE and not column.null_count else None
    if name == "data":
        return column if any(column.type == kind for kind in _DATA_TYPES) else None
    return _names(column)


def _names(column: Column) -> Column | None:
    kind = column.type
    if kind == pa.string():
        return pc.dictionary_encode(column).combine_chunks()
    if not pa.types.is_dictionary(kind) or kind.value_type != pa.string() or column.num_chunks != 1:
        return None
    names: Column = column.chunk(0)
    return names if len(names.dictionary) <= len(names) else None
