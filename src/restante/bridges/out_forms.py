"""What records a page of the feed becomes: JSON, CloudEvents, or Avro by a schema of the user's."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.bridges.out_choices import OutChanges, OutForm
from restante.errors import ExtraMissing, InvalidRequest
from restante.model.columns.arrow import Column, binaries_of, numbers_of
from restante.model.feed.feed import PUBLISHED
from restante.wire.media import CLOUDEVENT
from restante.wire.outgoing.json_columns import column
from restante.wire.outgoing.outgoing_cloudevents import event_lines
from restante.wire.outgoing.outgoing_feed import change_lines

_AVRO = "application/avro"


class OutRecords(NamedTuple):
    """Keys and values, one for each record; the key of a change that concerns no recipient is empty."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    content_type: str | None
    """The header of each; None: no header."""
    misfits: int = 0
    """How many changes could not be written."""


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
    return _events if form is OutForm.CLOUDEVENTS else _json


def _json(table: pa.Table) -> OutRecords:
    return OutRecords(_keys(table), _binaries(change_lines(table)), None)


def _events(table: pa.Table) -> OutRecords:
    return OutRecords(_keys(table), _binaries(event_lines(table)), CLOUDEVENT)


def _keys(table: pa.Table) -> Sequence[bytes]:
    recipients = column(table, "recipient").cast(pa.string()).fill_null("")
    return _binaries(recipients)


def _binaries(texts: Column) -> Sequence[bytes]:
    return binaries_of(texts.cast(pa.large_string()).view(pa.large_binary()))


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
        keys, values, misfits = [], [], 0
        for key, line in zip(_keys(table), _binaries(change_lines(table)), strict=True):
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
        return OutRecords(keys, values, _AVRO, misfits)

    def _datum(self, change: Any) -> bytes:  # noqa: ANN401 - a value of JSON
        sink = io.BytesIO()
        self._library.schemaless_writer(sink, self._schema, change)
        return sink.getvalue()
