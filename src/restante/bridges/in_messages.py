"""Records into messages: as columns where all of them are plain, else one by one, with those that do not fit named.

Every message has the offset of its record as its source position. Headers become properties, beside the key and the time
of the record. A record with CloudEvents headers, or of the type `application/cloudevents+json`, is an event.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.bridges.in_rules import (
    MEDIA_TYPES,
    REASON_CHARACTERS_MAX,
    UNREADABLE,
    DataForm,
    InRule,
    RawRecord,
    RecordMisfit,
    Tombstones,
    picker,
)
from restante.bridges.record_columns import HeaderColumns, column_picker, header_columns, key_column
from restante.bridges.topic_records import TopicRecords
from restante.decoders import json_decoder
from restante.model.columns.arrow import Column, column_of, map_array
from restante.model.publishing.message import Message
from restante.wire.incoming.incoming_cloudevents import decode_binary, shape_event

_STRUCTURED = b"application/cloudevents+json"
_BINARY = "ce_specversion"
_PLAIN = " !#$&'()*+,/:;<=>?@[]^`{|}"
"""The signs of ASCII that stand for themselves in a header of HTTP: all but quotes, backslashes and the percent sign."""
_object_decoder = json_decoder(dict[str, msgspec.Raw])
_KEY, _TIME = "kafka.key", "kafka.time"
_POISON_KIND = "poison"
_TIMESTAMP_MAX = 253_402_300_799_999
"""The end of the year 9999: producers may write any time stamp."""


@dataclass(slots=True)
class MappedRecords:
    """The messages to be sent for some records of one topic partition, and the records that do not fit."""

    sent: pa.Table | list[Message]
    rows: Sequence[int]
    """The record of each message that is sent."""
    misfits: dict[int, str] = field(default_factory=dict)
    """The reason why a record does not fit, by record."""
    tombstones: int = 0


class RecordMapper:
    """Applies the rules of one topic."""

    def __init__(self, rule: InRule) -> None:
        rule.check()
        self.rule = rule
        self._pick = picker(rule.found_by)
        self._pick_column = column_picker(rule.found_by)
        self._origin = rule.origin or rule.topic
        self._kind = rule.kind or rule.topic
        fixed = {"source": rule.origin, "type": rule.kind}
        self._fixed = {name: value for name, value in fixed.items() if value is not None}
        """Attributes of events that are as the rule says, whatever the event says."""

    def mapped(self, records: TopicRecords, refused: Mapping[int, str] | None = None) -> MappedRecords:
        """The messages of these records; `refused` are those that the hub did not take, by their places, with the reasons."""
        if not refused:
            plain = self._columns(records)
            if plain is not None:
                return MappedRecords(plain, range(len(records)))
        return self._one_by_one(records, refused or {})

    def poison(self, record: RawRecord, reason: str, source: str, *, with_data: bool = True) -> Message:
        """The message that keeps a record which does not fit, for a person to look at."""
        properties = {
            "kafka.source": source,
            "kafka.offset": str(record.offset),
            "kafka.reason": reason[:REASON_CHARACTERS_MAX],
            _TIME: _time(record.timestamp_ms),
        }
        key = _utf8(record.key)
        if key is not None and len(key) <= REASON_CHARACTERS_MAX:
            properties[_KEY] = key
        return Message(
            recipient=self.rule.poison,
            origin=self._origin,
            kind=_POISON_KIND,
            data=(record.value or b"") if with_data else b"",
            properties=properties,
            source_position=record.offset,
        )

    def _columns(self, records: TopicRecords) -> pa.Table | None:
        """The messages of all records as columns; None if some records need a closer look."""
        headers = header_columns(records.headers, len(records))
        if records.values.null_count or headers is None:
            return None
        recipients, properties = self._pick_column(records, headers), self._property_columns(records, headers)
        if recipients is None or properties is None:
            return None
        count = len(records)
        table = {
            "recipient": recipients,
            "origin": _constant(self._origin, count),
            "kind": _constant(self._kind, count),
            "data": records.values,
            "media_type": _constant(MEDIA_TYPES[self.rule.values], count),
            "properties": properties,
            "source_position": column_of(records.offsets),
        }
        return pa.table(table)

    def _property_columns(self, records: TopicRecords, headers: HeaderColumns) -> pa.MapArray[Any, Any] | None:
        """Headers, then the key, then the time; None if only some of the keys are texts."""
        count, times = len(records), _time_column(records.timestamps_ms)
        with_keys = self.rule.found_by != "key" and records.keys.null_count < count
        keys = key_column(records) if with_keys else None
        if keys is None and with_keys:
            return None
        if keys is None and not len(headers.names):
            return map_array(np.arange(count + 1), pa.repeat(pa.scalar(_TIME), count), times)
        added = [(_TIME, times)] if keys is None else [(_KEY, keys.cast(pa.string())), (_TIME, times)]
        ends = np.cumsum(headers.counts + len(added))
        order = np.argsort(_places(ends, headers.counts, len(added)))
        names = pa.concat_arrays([headers.names, *(pa.repeat(pa.scalar(name), count) for name, _ in added)])
        values = pa.concat_arrays([headers.values, *(column for _, column in added)])
        starts = np.concatenate(([0], ends))
        return map_array(starts, names.take(column_of(order)), values.take(column_of(order)))

    def _one_by_one(self, records: TopicRecords, refused: Mapping[int, str]) -> MappedRecords:
        sent: list[Message] = []
        rows: list[int] = []
        found = MappedRecords(sent, rows)
        for row, record in enumerate(records):
            if record.value is None and self.rule.tombstones is Tombstones.SKIP:
                found.tombstones += 1
                continue
            try:
                if row in refused:
                    raise RecordMisfit(refused[row])
                sent.append(self._message(record))
                rows.append(row)
            except RecordMisfit as error:
                found.misfits[row] = str(error)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                found.misfits[row] = f"The record cannot be read: {error}"
        return found

    def _message(self, record: RawRecord) -> Message:
        if record.value is None:
            raise RecordMisfit("The record has no value: it is a tombstone.")
        if record.headers == UNREADABLE:
            raise RecordMisfit("The name of a header is no UTF-8.")
        media_type = record.header("content-type")
        if media_type is not None and media_type.split(b";")[0].strip().lower() == _STRUCTURED:
            return self._event(record, record.value)
        if record.header(_BINARY) is not None:
            return self._binary_event(record, media_type)
        given = _utf8(media_type)
        return Message(
            recipient=self._pick(record),
            origin=self._origin,
            kind=self._kind,
            data=record.value,
            media_type=given or MEDIA_TYPES[self.rule.values],
            properties=_properties(record, with_key=self.rule.found_by != "key"),
            source_position=record.offset,
        )

    def _binary_event(self, record: RawRecord, media_type: bytes | None) -> Message:
        """The attributes are headers `ce_…`; those of HTTP have another sign, and are percent-encoded."""
        given = {name[3:].lower(): _utf8(value) for name, value in record.headers if name.lower().startswith("ce_")}
        attributes = {name: value for name, value in given.items() if value}
        attributes |= self._attributes_for(record, attributes)
        headers = {f"ce-{name}": _encoded(value) for name, value in attributes.items()}
        found = decode_binary(record.value or b"", content_type=_utf8(media_type), headers=headers)
        if not isinstance(found, list | tuple):
            raise RecordMisfit(found.faults[0].detail)  # type: ignore[union-attr]  # then it is `Flawed`
        return self._placed(record, found[0])

    def _event(self, record: RawRecord, value: bytes) -> Message:
        with suppress(msgspec.ValidationError):  # no object: then its shape says so
            given = _object_decoder.decode(value)
            there = [name for name, own in given.items() if bytes(own) != b"null"]
            value = msgspec.json.encode({**given, **self._attributes_for(record, there)})
        shaped = shape_event(0, msgspec.Raw(value))
        if shaped.faults:
            raise RecordMisfit(shaped.faults[0][1])
        return self._placed(record, shaped.message)

    def _attributes_for(self, record: RawRecord, given: Container[str]) -> dict[str, str]:
        """The attributes of an event that the rule decides: those that are fixed, and a recipient if the event has none."""
        if self.rule.recipient is None and "recipient" in given:
            return self._fixed
        return {**self._fixed, "recipient": self._pick(record)}

    def _placed(self, record: RawRecord, message: Message) -> Message:
        return msgspec.structs.replace(message, source_position=record.offset)


def _places(ends: NDArray[np.int64], counts: NDArray[np.int64], added: int) -> NDArray[np.int64]:
    """Where each header stands among the properties of all records, and after them what is added to each record."""
    starts = ends - counts - added
    before = np.cumsum(counts) - counts
    headers = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return np.concatenate([headers, *(starts + counts + number for number in range(added))])


def _encoded(value: str) -> str:
    """A text as a header of HTTP carries it: percent-encoded, so that no sign in it means anything there."""
    return quote(value, safe=_PLAIN)


def _constant(text: str, count: int) -> Column:
    return pa.DictionaryArray.from_arrays(column_of(np.zeros(count, np.int32)), pa.array([text]))


def _properties(record: RawRecord, *, with_key: bool) -> dict[str, str]:
    """The headers as texts (what is no UTF-8 as base64), the time, and the key unless it is the recipient."""
    found: dict[str, str] = {}
    for name, value in record.headers:
        text = _utf8(value)
        if value is not None and text is None:
            found[f"{name}.base64"] = msgspec.json.decode(msgspec.json.encode(value))
        elif text is not None and name.lower() != "content-type":
            found[name] = text
    key = _utf8(record.key)
    if with_key and key is not None:
        found[_KEY] = key
    # A header of the same name must not say another time.
    found[_TIME] = _time(record.timestamp_ms)
    return found


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _time_column(timestamps_ms: NDArray[np.int64]) -> Column:
    """`_time` of each timestamp, as a column. Many records have the same millisecond, which is written once."""
    moments: Column = column_of(timestamps_ms).dictionary_encode()
    distinct: Column = pc.min_element_wise(
        pc.max_element_wise(moments.dictionary, pa.scalar(0)), pa.scalar(_TIMESTAMP_MAX)
    )
    texts: Column = distinct.cast(pa.timestamp("ms")).cast(pa.string())
    dated: Column = pc.utf8_replace_slice(texts, 10, 11, "T")
    return pc.binary_join_element_wise(dated, pa.scalar("Z"), pa.scalar("")).take(moments.indices)


def _time(timestamp_ms: int) -> str:
    seconds, milliseconds = divmod(min(max(timestamp_ms, 0), _TIMESTAMP_MAX), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


__all__ = ["DataForm", "MappedRecords", "RecordMapper"]
