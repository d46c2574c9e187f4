"""Arrow columns into message columns: every type that is taken, every one that is not, and agreement with messages."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.errors import Fault, InvalidRequest
from restante.model.columns.arrow import Column, map_array, strings_of
from restante.model.columns.uuids import uuid_texts
from restante.model.publishing.intake import from_arrow, from_messages
from restante.model.publishing.message import NEVER, Message, MessageColumns, text_of
from tests.model.strategies import listed, messages, unhurried

ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
MAP = pa.map_(pa.string(), pa.string())
TEXT_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_string()),
]


def columns_of(source: object) -> MessageColumns:
    columns, faults = from_arrow(source, claim_check_origins=None)
    assert faults == []
    return columns


def faults_of(source: object, origins: tuple[str, ...] | None = None) -> list[Fault]:
    return from_arrow(source, claim_check_origins=origins)[1]


def table(**columns: Any) -> pa.Table:
    """A table of as many messages as the columns have, to anna unless they say otherwise."""
    n = max(map(len, columns.values()), default=1)
    given_columns: dict[str, Any] = {"recipient": ["anna"] * n, "data": [b""] * n} | columns
    return pa.table(given_columns)


def broken_text(*values: bytes) -> Any:
    """A text array of bytes that need not be UTF-8."""
    return pa.array(values, pa.binary()).view(pa.string())


def test_missing_columns_and_nulls_take_the_defaults() -> None:
    fields = ("id", "origin", "kind", "document_type", "media_type")
    nulls: dict[str, Any] = {name: pa.array([None], pa.string()) for name in fields}
    nulls["weight"] = pa.array([None], pa.int64())
    nulls["bundleable"] = pa.array([None], pa.bool_())
    nulls["properties"] = pa.array([None], MAP)
    nulls["expires_at"] = pa.array([None], pa.timestamp("us", "UTC"))
    missing = listed(columns_of(table()))
    assert listed(columns_of(table(**nulls))) == missing
    assert listed(columns_of(table(**{name: pa.nulls(1) for name in nulls}))) == missing
    assert missing == listed(from_messages([Message(recipient="anna", data=b"")], claim_check_origins=None)[0])


def test_null_or_missing_data_is_a_claim_check() -> None:
    columns = columns_of(table(data=pa.array([b"x", None, b""], pa.binary())))
    assert columns.inline.tolist() == [True, False, True]
    assert columns.data.to_pylist() == [b"x", b"", b""]
    assert columns_of(pa.table({"recipient": ["anna"]})).inline.tolist() == [False]
    assert [fault.index for fault in faults_of(table(data=pa.array([b"x", None], pa.binary())), origins=())] == [1]


def test_bytes_behind_a_null_are_not_kept() -> None:
    hidden = pa.Array.from_buffers(
        pa.binary(),
        2,
        [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([0, 1, 9], np.int32).tobytes()), pa.py_buffer(b"x" * 9)],
    )
    columns = columns_of(table(data=hidden))
    assert columns.data.to_pylist() == [b"x", b""]
    assert columns.data.null_count == 0


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_texts_may_have_any_text_type(kind: pa.DataType) -> None:
    recipients = pa.array(["anna", "bo", "anna"]).cast(kind)
    ids = pa.array([ID, None, ID.upper()]).cast(kind)
    kinds = pa.array([None, "bill", None]).cast(kind)
    columns = columns_of(table(recipient=recipients, id=ids, kind=kinds))
    assert columns.recipient.to_array().to_pylist() == ["anna", "bo", "anna"]
    assert columns.kind.to_array().to_pylist() == ["default", "bill", "default"]
    assert uuid_texts(columns.id) == [ID, str(UUID(int=0)), ID]
    assert columns.made_id.tolist() == [False, True, False]


def test_a_dictionary_may_repeat_values_hold_nulls_and_hold_values_that_nobody_uses() -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([3, 0, None, 2, 1]), pa.array(["a", None, "b", "a", " "]))
    columns, faults = from_arrow(table(kind=texts), claim_check_origins=None)
    assert columns.kind.to_array().to_pylist() == ["a", "a", "default", "b", "default"]
    assert sorted(strings_of(columns.kind.values)) == ["a", "b", "default"]
    assert faults == []


@pytest.mark.parametrize("kind", [pa.binary(16), pa.uuid()], ids=str)
def test_an_id_may_be_sixteen_bytes(kind: Any) -> None:
    ids: Column = pa.array([UUID(ID).bytes, None], pa.binary(16))
    ids = ids if kind == pa.binary(16) else pa.ExtensionArray.from_storage(kind, ids)
    columns = columns_of(table(id=ids))
    assert uuid_texts(columns.id) == [ID, str(UUID(int=0))]
    assert columns.made_id.tolist() == [False, True]
    assert uuid_texts(columns_of(table(id=ids.slice(0, 1))).id) == [ID]


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()],
    ids=str,
)
def test_data_may_be_binary_or_text(kind: Any) -> None:
    column = pa.array([b"one", None, b"three"], pa.binary()).cast(kind)
    assert columns_of(table(data=column)).data.to_pylist() == [b"one", b"", b"three"]
    assert columns_of(table(data=column.slice(2))).data.to_pylist() == [b"three"]
    assert str(columns_of(table(data=column)).data.type) == "large_binary"


def test_data_of_one_chunk_is_not_copied() -> None:
    column = pa.array([b"one", b"two"], pa.binary())
    data = columns_of(table(data=column)).data
    assert data.buffers()[2].address == column.buffers()[2].address  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64()], ids=str)
def test_a_weight_may_have_any_integer_type(kind: Any) -> None:
    assert columns_of(table(weight=pa.array([1, None, 7], kind))).weight.tolist() == [1, 1, 7]


def test_weights_out_of_range_are_faults() -> None:
    signed = pa.array([0, -1, 2**31, -(2**63), 2**63 - 1, 2**31 - 1], pa.int64())
    assert [(fault.index, fault.field) for fault in faults_of(table(weight=signed))] == [
        (n, "weight") for n in range(5)
    ]
    assert [fault.index for fault in faults_of(table(weight=pa.array([2**64 - 1, 2**63, 1], pa.uint64())))] == [0, 1]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_an_expiry_may_have_any_unit(unit: str, factor: int) -> None:
    times = pa.array([1_893_456_000 * factor, None, -5 * factor], pa.timestamp(unit, "UTC"))  # type: ignore[call-overload]
    assert columns_of(table(expires_at=times)).expires_at.tolist() == [1_893_456_000 * 10**6, NEVER, -5 * 10**6]


def test_an_expiry_outside_of_the_calendar_is_a_fault() -> None:
    for unit in ("s", "ms", "us"):
        times = pa.array([2**63 - 1, -(2**63), 0], pa.int64()).view(pa.timestamp(unit, "UTC"))
        assert [fault.index for fault in faults_of(table(expires_at=times))] == [0, 1]


@pytest.mark.parametrize(
    "kind", [pa.map_(pa.string(), pa.string()), pa.map_(pa.large_string(), pa.string_view())], ids=str
)
def test_properties_are_maps(kind: Any) -> None:
    maps: Column = pa.array([[("a", "1"), ("b", '"')], None, [], [("c", "é")]], MAP)
    cast = (
        maps
        if kind == MAP
        else pa.MapArray.from_arrays(
            maps.offsets, maps.keys.cast(pa.large_string()), maps.items.cast(pa.string_view()), mask=maps.is_null()
        )
    )
    expected = [b'{"a":"1","b":"\\""}', b"", b"", '{"c":"é"}'.encode()]
    assert columns_of(table(properties=cast)).properties.to_pylist() == expected
    assert columns_of(table(properties=maps.slice(2))).properties.to_pylist() == expected[2:]


def test_entries_behind_a_null_map_are_neither_kept_nor_checked() -> None:
    keys, items = pa.array(["a", "a", "b"]), pa.array(["1", None, "3"])
    maps = map_array(np.array([0, 2, 3]), keys, items, np.array([True, False]))
    assert columns_of(table(properties=maps)).properties.to_pylist() == [b"", b'{"b":"3"}']


def test_properties_that_break_a_rule_are_faults() -> None:
    rows = [
        [("a", "1")],
        [("a", "1"), ("a", "2")],
        [("a", None)],
        [(str(n), "") for n in range(65)],
        [("k", "x" * 2**14)],
        [("b", "1")],
    ]
    columns, faults = from_arrow(table(properties=pa.array(rows, MAP)), claim_check_origins=None)
    assert [(fault.index, fault.field) for fault in faults] == [(n, "properties") for n in (1, 2, 3, 4)]
    assert columns.properties.to_pylist() == [b'{"a":"1"}', b"", b"", b"", b"", b'{"b":"1"}']


def test_text_that_is_no_utf8_is_a_fault_of_its_message() -> None:
    bad = broken_text(b"good", b"\xff", b"\xed\xa0\x80")
    for field in ("recipient", "origin", "kind", "document_type", "media_type"):
        column = broken_text(b"a/b", b"\xff", b"\xed\xa0\x80") if field == "media_type" else bad
        assert [(fault.index, fault.field) for fault in faults_of(table(**{field: column}))] == [(1, field), (2, field)]
        encoded = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1]), column)
        assert [fault.index for fault in faults_of(table(**{field: encoded}))] == [1, 2]
    assert [fault.index for fault in faults_of(table(id=broken_text(b"\xff" * 36, ID.encode())))] == [0]
    maps = map_array(np.arange(4), pa.array(["a", "b", "c"]), bad)
    assert [(fault.index, fault.field) for fault in faults_of(table(properties=maps))] == [
        (1, "properties"),
        (2, "properties"),
    ]


@pytest.mark.parametrize("name", ["data", "text"])
def test_data_that_is_called_text_must_be_utf8(name: str) -> None:
    (fault,) = faults_of(table(**{name: broken_text(b"\xff")}))
    assert (fault.index, fault.field) == (0, name)


@pytest.mark.parametrize(
    ("column", "media_type", "stored"),
    [
        (pa.array(["hello"]), "text/plain", b"hello"),
        (pa.array(["hello"], pa.string_view()), "text/plain", b"hello"),
        (pa.array([b"hello"]), "application/octet-stream", b"hello"),
        (pa.array([7]), "application/json", b"7"),
        (pa.array([b"hello"], pa.binary(5)), "application/octet-stream", b"hello"),
        (pa.array([1.5]), "application/json", b"1.5"),
        (pa.array([1.5], pa.float64()).cast(pa.float16()), "application/json", b"1.5"),
        (pa.array([Decimal("1.50")], pa.decimal256(50, 2)), "application/json", b'"1.50"'),
        (pa.array([True]), "application/json", b"true"),
        (pa.array([{"a": 1, "b": [None, "x"]}]), "application/json", b'{"a":1,"b":[null,"x"]}'),
        (pa.array([[1, 2]]), "application/json", b"[1,2]"),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), "application/json", b"[1,2]"),
        (pa.array([[("k", [1])]], pa.map_(pa.string(), pa.list_(pa.int8()))), "application/json", b'{"k":[1]}'),
    ],
)
def test_the_type_of_the_data_says_its_media_type(column: Column, media_type: str, stored: bytes) -> None:
    sent = pa.table({"recipient": ["anna"], "data": column})
    columns = columns_of(sent)
    assert columns.media_type.to_array().to_pylist() == [media_type]
    assert columns.data.to_pylist() == [stored]
    said = columns_of(sent.append_column("media_type", pa.array(["application/x"])))
    assert said.media_type.to_array().to_pylist() == ["application/x"]


def test_text_is_a_column_of_its_own_and_what_has_none_is_a_claim_check() -> None:
    columns = columns_of(
        pa.table(
            {
                "recipient": ["a", "b", "c"],
                "data": pa.array([{"n": 1}, None, None]),
                "text": pa.array([None, "hello", None], pa.string()),
            }
        )
    )
    assert columns.data.to_pylist() == [b'{"n":1}', b"hello", b""]
    assert columns.inline.tolist() == [True, True, False]
    types = ["application/json", "text/plain", "application/octet-stream"]
    assert columns.media_type.to_array().to_pylist() == types


def test_data_and_text_in_one_row_are_a_fault() -> None:
    (fault,) = faults_of(pa.table({"recipient": ["a", "a"], "data": [b"x", None], "text": ["x", "y"]}))
    assert (fault.index, fault.field) == (0, "text")


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([{"a": b"bytes"}]), "JSON can say"),
        (pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))), "lie inside others"),
        (pa.array([{"a": "text"}], pa.struct([pa.field("a", pa.string_view())])), "lie inside others"),
        (pa.array([datetime(2030, 1, 1, tzinfo=UTC)]), "expected is binary, utf8"),
        (pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int8())), "cannot be read as values"),
    ],
)
def test_values_that_json_cannot_say_are_named(column: Column, match: str) -> None:
    with pytest.raises(InvalidRequest, match=match) as caught:
        faults_of(pa.table({"recipient": ["a"], "data": column}))
    assert caught.value.details == {"column": "data"}


def test_a_number_that_json_has_not_is_a_fault_of_its_message() -> None:
    faults = faults_of(pa.table({"recipient": ["a", "b"], "data": pa.array([[1.0], [float("nan")]])}))
    assert [(fault.index, fault.field) for fault in faults] == [(1, "data")]


def test_many_values_in_few_bytes_are_counted_before_they_are_made() -> None:
    count = limits.DATA_BYTES_MAX + 1
    nothing = pa.ListArray.from_arrays(pa.array([0, 3, count], pa.int32()), pa.nulls(count))
    faults = faults_of(pa.table({"recipient": ["a", "b"], "data": nothing}))
    assert [(fault.index, fault.field) for fault in faults] == [(1, "data")]
    (fault,) = faults_of(pa.table({"recipient": ["a"], "data": pa.array([[0] * (limits.DATA_BYTES_MAX // 2 + 1)])}))
    assert fault.field == "data"


@pytest.mark.parametrize("wrapped", ["lists", "structs"])
def test_millions_of_values_that_take_no_bytes_are_refused_before_any_is_made(wrapped: str) -> None:
    """A body of 5 kB took half a minute: the JSON is bounded, but each pair of its brackets was an object first."""
    nested: Column = pa.nulls(100_000)
    for _ in range(40):
        if wrapped == "lists":
            nested = pa.FixedSizeListArray.from_arrays(nested, 1)
        else:
            nested = pa.StructArray.from_arrays([nested], [""])
    with pytest.raises(InvalidRequest, match="values that take no bytes in Arrow") as caught:
        faults_of(pa.table({"recipient": ["a"] * len(nested), "data": nested}))
    assert caught.value.details == {"column": "data"}


def test_arrow_data_that_lies_about_itself_makes_no_sense() -> None:
    offsets = pa.py_buffer(np.array([0, 1000, 3], np.int32).tobytes())
    beyond = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    outside = pa.DictionaryArray.from_arrays(pa.array([5]), pa.array(["a"]), safe=False)
    for lie in (beyond, outside):
        with pytest.raises(InvalidRequest, match="cannot be read"):
            faults_of(table(recipient=lie))
    with pytest.raises(InvalidRequest, match="cannot be read"):
        faults_of(table(data=beyond))


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(InvalidRequest, match="the column receiver is unknown"):
        faults_of(table(receiver=["anna"]))


@pytest.mark.parametrize("name", ["sequence_number", "published_at", "collected_at", "state"])
def test_a_read_only_column_is_named(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"the column {name} is read only"):
        faults_of(table(**{name: [1]}))


def test_a_column_twice_or_no_recipient_makes_no_sense() -> None:
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["recipient", "recipient"])
    with pytest.raises(InvalidRequest, match="recipient is there twice"):
        faults_of(twice)
    with pytest.raises(InvalidRequest, match="the column recipient is missing"):
        faults_of(pa.table({"data": [b""]}))


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [
        ("recipient", pa.array([1]), "recipient is of type int64: expected is utf8"),
        ("recipient", pa.array([b"a"]), "recipient is of type binary"),
        ("id", pa.array([b"a" * 8], pa.binary(8)), r"id is of type fixed_size_binary\[8\]: expected is fixed_size_bin"),
        ("id", pa.array([1]), "id is of type int64"),
        ("weight", pa.array([1.0]), "weight is of type double: expected is an integer"),
        ("bundleable", pa.array([1]), "bundleable is of type int64: expected is bool"),
        ("data", pa.array([1], pa.duration("s")), "data is of type duration.s.: expected is binary"),
        ("properties", pa.array([{"a": "b"}]), "properties is of type struct<.*expected is map<utf8, utf8>"),
        (
            "properties",
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
            "properties is of type map<string, int8",
        ),
        (
            "expires_at",
            pa.array([datetime.fromisoformat("2030-01-01")]),
            r"expires_at is of type timestamp\[us\]: expected is timestamp",
        ),
        ("expires_at", pa.array(["2030-01-01T00:00:00Z"]), "expires_at is of type string"),
    ],
)
def test_a_column_of_a_wrong_type_is_named_with_what_is_expected(name: str, column: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        faults_of(table(**{name: column}))


@pytest.mark.parametrize("senseless", [5, "anna", [1], None, {"recipient": ["anna"]}])
def test_what_is_not_arrow_makes_no_sense(senseless: object) -> None:
    with pytest.raises(InvalidRequest, match="Arrow columns"):
        faults_of(senseless)


def stream(content: pa.Table, rows: int = 2) -> pa.RecordBatchReader:
    """The same as an IPC stream of small batches."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, content.schema) as writer:
        writer.write_table(content, max_chunksize=rows)
    return pa.ipc.open_stream(sink.getvalue())


def full_table() -> pa.Table:
    return table(
        recipient=pa.array(["anna", "bo", "anna", "cy", "bo"]).dictionary_encode(),
        id=pa.array([ID, None, ID, None, None]),
        kind=pa.array(["a", None, "b", "a", "a"], pa.large_string()),
        data=pa.array([b"1", b"2", None, b"4", b"5"], pa.binary()),
        weight=pa.array([1, None, 3, 4, 5], pa.int16()),
        bundleable=pa.array([True, False, None, True, True]),
        properties=pa.array([None, [("a", "1")], [], None, [("b", "2"), ("c", "3")]], MAP),
        expires_at=pa.array([None, 5, 6, 7, None], pa.timestamp("ms", "UTC")),
    )


def test_a_table_a_batch_a_reader_and_chunks_say_the_same() -> None:
    whole = full_table()
    rows = listed(columns_of(whole))
    assert [row[1] for row in rows] == ["anna", "bo", "anna", "cy", "bo"]
    assert listed(columns_of(whole.to_batches()[0])) == rows
    assert listed(columns_of(stream(whole))) == rows
    assert listed(columns_of(pa.concat_tables([whole.slice(0, 2), whole.slice(2, 0), whole.slice(2)]))) == rows
    assert listed(columns_of(whole.slice(1, 3))) == rows[1:4]
    assert listed(columns_of(whole.slice(0, 0))) == []
    assert listed(columns_of(stream(whole.slice(0, 0)))) == []
    assert listed(columns_of(whole.schema.empty_table())) == []


def test_chunks_may_have_different_dictionaries() -> None:
    parts = [table(recipient=pa.array(names).dictionary_encode()) for names in (["a", "b"], ["c", "b"], ["b"])]
    assert columns_of(pa.concat_tables(parts)).recipient.to_array().to_pylist() == ["a", "b", "c", "b", "b"]


def test_pandas_and_polars_frames_are_taken_as_they_are() -> None:
    fields: dict[str, Any] = {
        "recipient": ["anna", "bo"],
        "id": [ID, None],
        "data": [b"1", None],
        "weight": [1, 2],
        "bundleable": [True, False],
        "expires_at": [datetime(2030, 1, 1, tzinfo=UTC), None],
    }
    expected = [(ID, "anna", True), (str(UUID(int=0)), "bo", False)]
    pandas_frame = pd.DataFrame(fields).assign(kind=pd.Series(["x", "y"], dtype="category"))
    polars_frame = pl.DataFrame(fields).with_columns(kind=pl.Series(["x", "y"]).cast(pl.Categorical))
    for frame in (pandas_frame, polars_frame, pa.table(pandas_frame), pa.table(polars_frame)):
        columns = columns_of(frame)
        assert [(row[0], row[1], row[9]) for row in listed(columns)] == [(a, b, c) for a, b, c in expected]
        assert columns.kind.to_array().to_pylist() == ["x", "y"]
        assert columns.expires_at.tolist() == [1_893_456_000 * 10**6, NEVER]


def test_a_stream_is_left_as_soon_as_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    fields: Any = {"recipient": pa.string(), "data": pa.binary()}
    schema = pa.schema(fields)
    batch = pa.record_batch([pa.array(["anna"] * 4), pa.array([bytes(1000)] * 4, pa.binary())], schema=schema)

    def endless() -> Any:
        while True:
            yield batch

    monkeypatch.setattr(limits, "SEND_MESSAGES_MAX", 10)
    with pytest.raises(InvalidRequest, match="12 messages are too many"):
        faults_of(pa.RecordBatchReader.from_batches(schema, endless()))
    monkeypatch.setattr(limits, "SEND_MESSAGES_MAX", 1_000_000)
    monkeypatch.setattr(limits, "SEND_BYTES_MAX", 10_000)
    with pytest.raises(InvalidRequest, match="bytes are too much"):
        faults_of(pa.RecordBatchReader.from_batches(schema, endless()))


def test_a_stream_that_breaks_off_makes_no_sense() -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, full_table().schema) as writer:
        writer.write_table(full_table())
    with pytest.raises(InvalidRequest, match="cannot be read"):
        faults_of(pa.ipc.open_stream(sink.getvalue()[:-200]))


def as_arrow(sent: list[Message]) -> pa.Table:
    """The same messages as a sender of Arrow would give them."""
    texts = [text_of(m) for m in sent]
    values = [None if m.data is msgspec.UNSET or t is not None else m.data for m, t in zip(sent, texts, strict=True)]
    is_value = [
        t is None and m.data is not msgspec.UNSET and not isinstance(m.data, bytes)
        for m, t in zip(sent, texts, strict=True)
    ]
    data = [msgspec.json.encode(v) if json else v for v, json in zip(values, is_value, strict=True)]
    default = {True: "application/json", False: None}
    media_types = [
        default[json] if m.media_type is None else m.media_type for m, json in zip(sent, is_value, strict=True)
    ]
    return pa.table(
        {
            "id": pa.array([m.id for m in sent], pa.string()),
            "recipient": pa.array([m.recipient for m in sent], pa.string()),
            "origin": pa.array([m.origin for m in sent], pa.string()),
            "kind": pa.array([m.kind for m in sent], pa.string()),
            "document_type": pa.array([m.document_type for m in sent], pa.string()),
            "weight": pa.array([m.weight for m in sent], pa.int64()),
            "bundleable": pa.array([m.bundleable for m in sent], pa.bool_()),
            "data": pa.array(data, pa.binary()),
            "text": pa.array(texts, pa.string()),
            "media_type": pa.array(media_types, pa.string()),
            "properties": pa.array([list(m.properties.items()) for m in sent], MAP),
            "expires_at": pa.array([m.expires_at for m in sent], pa.timestamp("us", "UTC")),
        }
    )


@unhurried
@given(st.lists(messages(), max_size=6))
def test_messages_and_arrow_columns_agree(sent: list[Message]) -> None:
    by_value, faults = from_messages(sent, claim_check_origins=None)
    by_column, faults_by_column = from_arrow(as_arrow(sent), claim_check_origins=None)
    assert faults == faults_by_column == []
    assert listed(by_value) == listed(by_column)


texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=70) | st.sampled_from(["x" * 257, ID, "a/b"])


@unhurried
@given(
    st.lists(
        st.tuples(texts, texts, texts, st.none() | st.integers(-2, 2**40), st.none() | st.binary(max_size=5)),
        max_size=5,
    )
)
def test_messages_and_arrow_columns_agree_on_what_is_faulty(rows: list[tuple[Any, ...]]) -> None:
    sent = [
        Message(
            recipient="" if recipient is None else recipient,
            id=id_text,
            media_type=media_type,
            weight=weight,
            data=msgspec.UNSET if data is None else data,
        )
        for recipient, id_text, media_type, weight, data in rows
    ]
    by_value, faults = from_messages(sent, claim_check_origins=())
    by_column, faults_by_column = from_arrow(as_arrow(sent), claim_check_origins=())
    assert faults == faults_by_column
    assert listed(by_value) == listed(by_column)


@pytest.mark.parametrize("name", ["expires_at", "zone"])
def test_names_that_are_no_unicode_make_no_sense(name: str) -> None:
    sink = pa.BufferOutputStream()
    sent = table(expires_at=pa.array([1], pa.timestamp("us", "zone")))
    with pa.ipc.new_stream(sink, sent.schema) as writer:
        writer.write_table(sent)
    broken = sink.getvalue().to_pybytes().replace(name.encode(), b"\xff" * len(name))
    with pytest.raises(InvalidRequest, match="valid Unicode"):
        from_arrow(pa.ipc.open_stream(broken).read_all(), claim_check_origins=None)
