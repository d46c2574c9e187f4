"""Messages as CloudEvents: the same columns under other names, and properties that are attributes again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from restante.model.columns.arrow import Column, string_array, strings_of, words_of
from restante.model.columns.text_ids import shown_ids
from restante.wire.cloudevents import (
    ORIGINAL_ID,
    RESERVED,
    SPECVERSION,
    has_no_controls,
    is_attribute_name,
    is_original_id,
    is_time,
)
from restante.wire.outgoing.json_columns import (
    FieldWriter,
    Text,
    column,
    data_writer,
    id_writer,
    number_writer,
    row_lines,
    same,
    text_writer,
    time_writer,
)


def event_writers(table: pa.Table) -> list[FieldWriter]:
    """The fields of an event in JSON, by the mapping that incoming events have."""
    return [
        _event_id_writer(table),
        same(f',"specversion":"{SPECVERSION}"'),
        text_writer(table, "origin", key="source"),
        text_writer(table, "kind", key="type"),
        text_writer(table, "recipient", key="recipient"),
        text_writer(table, "document_type", key="documenttype"),
        number_writer(table, "weight", key="weight"),
        number_writer(table, "bundleable", key="bundleable"),
        text_writer(table, "media_type", key="datacontenttype"),
        time_writer(table, "expires_at", key="expirytime"),
        _attributes_writer(table),
        data_writer(table, text_key="data"),
    ]


def _has_properties(table: pa.Table) -> bool:
    maps = column(table, "properties")
    return bool(maps.null_count < len(maps))


def _event_id_writer(table: pa.Table) -> FieldWriter:
    """The id that the event came with, a UUID or any other text."""
    if not _has_properties(table):
        return id_writer(table)
    words, texts, maps = words_of(column(table, "id")), column(table, "text_id"), column(table, "properties")
    sources = column(table, "origin")

    def write(rows: slice) -> Sequence[Text]:
        ids = strings_of(shown_ids(words[rows], texts[rows]))
        given = map(_event_id, ids, sources[rows].to_pylist(), _listed(maps[rows]))
        return (string_array([f'"id":{msgspec.json.encode(text).decode()}' for text in given]),)

    return write


def _event_id(own_id: str, source: str, properties: list[tuple[str, str]] | None) -> str:
    original = dict(properties or ()).get(ORIGINAL_ID)
    return own_id if original is None or not is_original_id(original, source, own_id) else original


def _attributes_writer(table: pa.Table) -> FieldWriter:
    """The properties that can be attributes of an event; the others have no place in one."""
    if not _has_properties(table):
        return same("")
    maps = column(table, "properties")
    return lambda rows: (string_array([_attributes(dict(entries or ())) for entries in _listed(maps[rows])]),)


def _listed(maps: Column) -> list[list[tuple[str, str]] | None]:
    listed: list[list[tuple[str, str]] | None] = maps.to_pylist()
    return listed


def _attributes(properties: dict[str, str]) -> str:
    legal = {name: value for name, value in properties.items() if _is_legal(name, value)}
    return "," + msgspec.json.encode(legal).decode()[1:-1] if legal else ""


def _is_legal(name: str, value: str) -> bool:
    if name in RESERVED or not is_attribute_name(name) or not has_no_controls(value):
        return False
    if name == "time":
        return is_time(value)
    return bool(value) or name not in {"subject", "dataschema"}


def event_lines(table: pa.Table) -> Column:
    """Each message as a CloudEvent in JSON, as a column of texts."""
    return row_lines(table, event_writers(table)) if table.num_rows else string_array([])
