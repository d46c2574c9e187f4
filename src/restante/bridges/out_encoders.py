"""Forms of records of a page of the feed: JSON, CloudEvents, or Avro by a schema of the user's."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.bridges.out_choices import OutChanges, OutForm
from restante.bridges.out_records import OutHeaders, OutRecords, text_bytes
from restante.decoders import json_decoder
from restante.errors import ExtraMissing, InvalidRequest
from restante.model.columns.arrow import numbers_of
from restante.model.feed.feed import PUBLISHED
from restante.wire.media import CLOUDEVENT
from restante.wire.outgoing.json_columns import JSON_SHAPE, column, shape_of
from restante.wire.outgoing.outgoing_cloudevents import event_lines
from restante.wire.outgoing.outgoing_feed import change_lines

_AVRO = "application/avro"


Encode = Callable[[pa.Table], OutRecords]


def chosen_rows(table: pa.Table, after: int, changes: OutChanges) -> pa.Table:
    """The changes beyond a position that are to be written."""
    kept: NDArray[np.bool_] = numbers_of(column(table, "sequence_number")) > after
    if changes is OutChanges.PUBLISHED:
        published = pc.equal(column(table, "change").cast(pa.string()), pa.scalar(PUBLISHED))
        kept &= numbers_of(published)
    return table if kept.all() else table.filter(pa.array(kept))


def encoder(form: OutForm, schema: Path | None = None, *, skip_misfits: bool = False) -> Encode:
    """The function that makes records of changes."""
    if (form is OutForm.AVRO) != (schema is not None):
        raise InvalidRequest("Avro needs a schema file, and nothing else does.", parameter="schema")
    if schema is not None:
        return _AvroForm(schema, skip_misfits=skip_misfits).encode
    return _ENCODERS[form]


def _json(table: pa.Table) -> OutRecords:
    return OutRecords(_keys(table), text_bytes(change_lines(table)), np.arange(table.num_rows))


def _events(table: pa.Table) -> OutRecords:
    told: OutHeaders = [("content-type", CLOUDEVENT)]
    rows = np.arange(table.num_rows)
    return OutRecords(_keys(table), text_bytes(event_lines(table)), rows, [told] * len(rows))


def _binary_events(table: pa.Table) -> OutRecords:
    """The data is the value, and the attributes are headers `ce_…`."""
    parts = [_binary_event(line) for line in text_bytes(event_lines(table))]
    values, headers = [value for value, _ in parts], [told for _, told in parts]
    return OutRecords(_keys(table), values, np.arange(table.num_rows), headers)


def _binary_event(line: bytes) -> tuple[bytes, OutHeaders]:
    fields = _event_decoder.decode(line)
    encoded, data = fields.pop("data_base64", None), fields.pop("data", msgspec.Raw(b""))
    media_type = fields.pop("datacontenttype", None)
    attributes = {name: msgspec.json.decode(value) for name, value in fields.items()}
    told: OutHeaders = [(f"ce_{name}", _attribute(value)) for name, value in attributes.items()]
    content_type = None if media_type is None else json_decoder(str).decode(media_type)
    if content_type is not None:
        told.append(("content-type", content_type))
    if encoded is not None:
        return json_decoder(bytes).decode(encoded), told
    if content_type is not None and shape_of(content_type) == JSON_SHAPE:
        return bytes(data), told
    return (json_decoder(str).decode(data).encode() if bytes(data) else b""), told


def _attribute(value: object) -> str:
    """Booleans and numbers as CloudEvents write them in texts."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_event_decoder = json_decoder(dict[str, msgspec.Raw])
_ENCODERS: dict[OutForm, Encode] = {
    OutForm.JSON: _json,
    OutForm.CLOUDEVENTS: _events,
    OutForm.CLOUDEVENTS_BINARY: _binary_events,
}


def _keys(table: pa.Table) -> Sequence[bytes]:
    recipients = column(table, "recipient").cast(pa.string()).fill_null("")
    return text_bytes(recipients)


class _AvroForm:
    """Changes as Avro data without a container: the fields of the schema are taken from the change as it is in JSON."""

    def __init__(self, path: Path, *, skip_misfits: bool) -> None:
        try:
            import fastavro  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ExtraMissing(f"Avro needs fastavro ({error}): pip install 'restante[kafka]'.") from error
        self._library: Any = fastavro
        self._skip = skip_misfits
        try:
            self._schema: Any = fastavro.parse_schema(msgspec.json.decode(path.read_bytes()))
        except (OSError, msgspec.MsgspecError, fastavro.schema.SchemaParseException, ValueError) as error:
            raise InvalidRequest(f"{path} is no Avro schema: {error}.", parameter="schema") from error

    def encode(self, table: pa.Table) -> OutRecords:
        keys, values, rows, misfits = [], [], [], 0
        for row, (key, line) in enumerate(zip(_keys(table), text_bytes(change_lines(table)), strict=True)):
            try:
                value = self._datum(msgspec.json.decode(line))
            except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
                if not self._skip:
                    raise InvalidRequest(
                        f"A change does not fit the Avro schema ({error}): {line[:200].decode(errors='replace')}. Correct the "
                        "schema, or pass over such changes with --misfits skip."
                    ) from error
                misfits += 1
            else:
                keys.append(key)
                values.append(value)
                rows.append(row)
        told: OutHeaders = [("content-type", _AVRO)]
        return OutRecords(keys, values, np.array(rows, np.int64), [told] * len(rows), misfits)

    def _datum(self, change: Any) -> bytes:  # noqa: ANN401 - a value of JSON
        sink = io.BytesIO()
        self._library.schemaless_writer(sink, self._schema, change)
        return sink.getvalue()
