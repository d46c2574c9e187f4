"""Arrow streams in: honest ones as they are, hostile ones refused before they cost anything."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc

from restante.errors import BodyTooLarge, InvalidRequest
from restante.limits import ARROW_BATCHES_MAX, MIB, SEND_BYTES_MAX
from restante.model.columns.arrow import column_of
from restante.model.publishing import intake
from restante.model.publishing.message import Message
from restante.wire.incoming.incoming import decode_messages
from restante.wire.media import ARROW
from tests.model.strategies import listed, messages, unhurried
from tests.wire.tables import columns_of, table_of, taken_in

FIELDS = ["id", "recipient", "origin", "kind", "data", "properties", "expires_at"]


def stream(*batches: pa.Table, compression: Any = None, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    chosen = ipc.IpcWriteOptions(compression=compression, **options)
    with ipc.new_stream(sink, batches[0].schema, options=chosen) as writer:
        for batch in batches:
            writer.write_table(batch)
    return sink.getvalue().to_pybytes()


def decoded(body: bytes | bytearray | memoryview) -> pa.Table:
    found = decode_messages(body, content_type=ARROW, headers={})
    assert isinstance(found, pa.Table)
    return found


def letters(n: int, name: str = "anna") -> pa.Table:
    return pa.table(
        {"recipient": [f"{name}{row}" for row in range(n)], "data": [bytes([row % 256]) * 50 for row in range(n)]}
    )


@unhurried
@given(st.lists(messages(), max_size=6), st.sampled_from([None, "lz4", "zstd"]))
def test_columns_arrive_as_they_were_sent(sent: list[Message], compression: str | None) -> None:
    table = table_of(*sent)
    table = table.drop_columns(["sequence_number", "published_at", "collected_at", "state"])
    columns, faults = taken_in(stream(table, compression=compression), ARROW)
    assert faults == []
    expected = columns_of(sent)
    expected.made_id[:] = False
    assert listed(columns) == listed(expected)


def test_several_batches_are_one_send() -> None:
    body = stream(letters(3), letters(0), letters(2))
    assert decoded(body).num_rows == 5
    assert decoded(memoryview(b"x" + body)[1:]).num_rows == 5
    assert decoded(bytearray(body)).num_rows == 5
    assert decoded(stream(letters(0))).num_rows == 0


@pytest.mark.parametrize("deltas", [True, False])
def test_dictionaries_may_grow_or_change_between_batches(deltas: bool) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    names = [["anna", "bob"], ["anna", "bob", "cleo"]] if deltas else [["anna", "bob"], ["cleo"]]
    batches = []
    for dictionary in names:
        codes = pa.array([len(dictionary) - 1, 0], pa.int8())
        column: Any = pa.DictionaryArray.from_arrays(codes, pa.array(dictionary))
        batches.append(pa.table({"recipient": column.cast(kind), "data": [b"x", b"y"]}))
    columns, faults = taken_in(stream(*batches, emit_dictionary_deltas=deltas), ARROW)
    assert faults == []
    expected = [name for dictionary in names for name in (dictionary[-1], dictionary[0])]
    assert columns.recipient.to_array().to_pylist() == expected


@pytest.mark.parametrize("text", [b"recipient", b"Europe/Paris"])
def test_names_and_zones_that_are_no_text_are_refused(text: bytes) -> None:
    times = pa.array([0], pa.timestamp("us", tz="Europe/Paris"))
    body = stream(pa.table({"recipient": ["a"], "data": [b""], "expires_at": times}))
    with pytest.raises(InvalidRequest, match="cannot be read"):
        taken_in(body.replace(text, text[:-1] + b"\xff"), ARROW)


def test_unknown_columns_are_named_by_the_rules() -> None:
    table = letters(1).append_column("colour", pa.array(["red"]))
    with pytest.raises(InvalidRequest, match="colour"):
        taken_in(stream(table), ARROW)


def test_a_stream_that_is_cut_off_anywhere_is_refused() -> None:
    for body in (stream(letters(2), letters(1)), stream(letters(200), compression="zstd")):
        for length in range(len(body)):
            with pytest.raises(InvalidRequest):
                decoded(body[:length])


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_stream_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(compression: str) -> None:
    zeros = pa.table({"recipient": ["a"] * 65, "data": [bytes(MIB)] * 65})
    body = stream(zeros, compression=compression)
    assert len(body) < MIB
    before = pa.total_allocated_bytes()
    with pytest.raises(BodyTooLarge, match="unpacks") as refused:
        decoded(body)
    assert refused.value.details["limit"] == SEND_BYTES_MAX
    assert pa.total_allocated_bytes() - before < MIB
    assert decoded(stream(zeros.slice(0, 63), compression=compression)).num_rows == 63


def test_a_length_that_lies_is_believed_by_nobody() -> None:
    body = bytearray(stream(pa.table({"recipient": ["a" * 200] * 50, "data": [b"\0" * 200] * 50}), compression="zstd"))
    size = struct.pack("<q", 50 * 200)
    place = body.index(size)
    for lie in (2**62, -5, 2**40, 50 * 200 + 1, 50 * 200 - 1, 0):
        body[place : place + 8] = struct.pack("<q", lie)
        with pytest.raises(InvalidRequest):
            taken_in(bytes(body), ARROW)


def test_rows_that_are_not_there_are_counted_by_nobody() -> None:
    body = stream(pa.table({"recipient": pa.nulls(3), "data": pa.nulls(3)}))
    count = struct.pack("<q", 3)
    for lie in (2**40, 2**62, -1, -(2**63)):
        with pytest.raises(InvalidRequest):
            taken_in(body.replace(count, struct.pack("<q", lie)), ARROW)


def test_too_many_batches_are_refused() -> None:
    sink = pa.BufferOutputStream()
    empty = pa.record_batch({"recipient": pa.array([], pa.string())})
    with ipc.new_stream(sink, empty.schema) as writer:
        for _ in range(ARROW_BATCHES_MAX + 1):
            writer.write_batch(empty)
    with pytest.raises(InvalidRequest, match="batches"):
        decoded(sink.getvalue().to_pybytes())


def views_of_one(text: bytes, rows: int) -> pa.Array[Any]:
    """Many rows that all point to the same bytes."""
    view = np.zeros((rows, 4), np.int32)
    view[:, 0] = len(text)
    view[:, 1] = np.frombuffer(text[:4], np.int32)[0]
    parts: list[Any] = [None, pa.py_buffer(view.tobytes()), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.binary_view(), rows, parts)


def test_views_that_all_show_the_same_bytes_are_not_spelt_out_without_bound() -> None:
    rows = 1_000
    table = pa.table({"recipient": ["a"] * rows, "data": views_of_one(bytes(MIB), rows)})
    body = stream(table)
    assert len(body) < 2 * MIB
    with pytest.raises(InvalidRequest, match="too much"):
        taken_in(body, ARROW)
    columns, faults = taken_in(stream(table.slice(0, 3)), ARROW)
    assert faults == []
    assert columns.data.to_pylist() == [bytes(MIB)] * 3


def test_null_views_that_point_anywhere_are_null() -> None:
    view = np.zeros((3, 4), np.int32)
    view[0] = (2, int.from_bytes(b"hi", "little"), 0, 0)
    view[1] = (-788_529_152, 1, 7, 2**31 - 1)
    view[2] = (2**31 - 1, 1, 7, 2**31 - 1)
    parts: list[Any] = [pa.py_buffer(b"\x01"), pa.py_buffer(view.tobytes())]
    names = pa.Array.from_buffers(pa.string_view(), 3, parts)
    table = pa.table({"recipient": ["a", "b", "c"], "data": names, "document_type": names})
    columns, faults = taken_in(stream(table), ARROW)
    assert faults == []
    assert columns.inline.tolist() == [True, False, False]
    assert columns.document_type.to_array().to_pylist() == ["hi", "default", "default"]
    sliced, _ = intake.from_arrow(table.slice(1), claim_check_origins=None)
    assert sliced.inline.tolist() == [False, False]


@pytest.mark.parametrize("with_null", [True, False])
@pytest.mark.parametrize("name", ["recipient", "id"])
def test_dictionaries_are_not_spelt_out_without_bound(name: str, with_null: bool) -> None:
    rows, text = 1_000, "x" * MIB
    values = pa.array([text, None] if with_null else [text], pa.string())
    column: Any = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), values)
    table = pa.table({**({} if name == "recipient" else {"recipient": ["a"] * rows}), name: column})
    body = stream(table, table.slice(0, 1))
    before = pa.default_memory_pool().max_memory()
    outcome = _outcome(body)
    assert (pa.default_memory_pool().max_memory() or 0) - (before or 0) < SEND_BYTES_MAX
    assert outcome in {"refused", f"{rows + 1} faults"}


def _outcome(body: bytes) -> str:
    try:
        _, faults = taken_in(body, ARROW)
    except InvalidRequest:
        return "refused"
    return f"{len(faults)} faults"


def test_in_process_columns_may_still_be_large_dictionaries() -> None:
    rows = 200_000
    names = pa.array(["n" * 250, "m" * 250])
    column: Any = pa.DictionaryArray.from_arrays(np.arange(rows, dtype=np.int32) % 2, names)
    table = pa.table({"recipient": column})
    columns, faults = intake.from_arrow(pa.concat_tables([table, table]), claim_check_origins=None)
    assert faults == []
    assert len(columns) == 2 * rows


def peak_of(body: bytes) -> tuple[str, int]:
    """What became of a body, and how much memory Arrow took for it at most."""
    usual = pa.default_memory_pool()
    own = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(own)
    try:
        return _outcome(body), own.max_memory() or 0
    finally:
        pa.set_memory_pool(usual)


def test_a_dictionary_that_grows_with_every_batch_is_not_copied_without_bound() -> None:
    sink = pa.BufferOutputStream()
    schema = pa.schema({"recipient": pa.dictionary(pa.int32(), pa.string())})
    names = ["n" * MIB] * 20
    with ipc.new_stream(sink, schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for number in range(20):
            names = [*names, f"name {number}"]
            column: Any = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(names))
            writer.write_batch(pa.record_batch({"recipient": column}))
    body = sink.getvalue().to_pybytes()
    assert len(body) < 21 * MIB
    with pytest.raises(BodyTooLarge):
        decoded(body)


def test_views_in_many_batches_are_not_spelt_out_without_bound() -> None:
    rows = pa.table({"recipient": ["a"] * 50, "data": views_of_one(bytes(MIB), 50)})
    outcome, peak = peak_of(stream(rows, rows, rows))
    assert outcome == "refused"
    assert peak < MIB


def test_a_dictionary_of_many_batches_is_spelt_out_once() -> None:
    names = pa.array([f"{number}" + "n" * MIB for number in range(10)], pa.string_view())
    column: Any = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), names)
    body = stream(*[pa.table({"recipient": column})] * 50)
    assert len(body) < 11 * MIB
    outcome, peak = peak_of(body)
    assert outcome == "50 faults"
    assert peak < SEND_BYTES_MAX


def test_buffers_that_lie_in_the_same_bytes_are_counted_each() -> None:
    number = 987_654
    names = ("recipient", "weight", "expires_at", "kind", "id", "data", "origin")
    body = stream(pa.table({name: column_of(np.zeros(number, np.int64)) for name in names}))
    length = struct.pack("<q", number * 8)
    assert body.count(length) >= 7
    assert decoded(body).num_rows == number
    with pytest.raises(BodyTooLarge):
        decoded(body.replace(length, struct.pack("<q", SEND_BYTES_MAX // 7 + 8)))


@pytest.mark.parametrize(("length", "outcome"), [(MIB, "200 faults"), (MIB // 2, "refused")])
def test_the_name_of_a_field_is_not_spelt_out_for_every_row_without_bound(length: int, outcome: str) -> None:
    values: pa.StructArray = pa.StructArray.from_arrays([pa.array([1] * 200)], ["n" * length])
    body = stream(pa.table({"recipient": ["a"] * 200, "data": values}))
    tracemalloc.start()
    try:
        assert _outcome(body) == outcome
        assert tracemalloc.get_traced_memory()[1] < 2 * SEND_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_unknown_columns_are_refused_before_their_bytes_are_looked_at() -> None:
    column: pa.RunEndEncodedArray[Any, Any] = pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 10**6], pa.int32()), pa.array([None, "x"])
    )
    with pytest.raises(InvalidRequest, match="the column extra is unknown"):
        decoded(stream(pa.table({"recipient": ["a"] * 10**6, "extra": column})))


LIES: dict[str, tuple[str, pa.Array[Any], tuple[int, int]]] = {
    "weights of null": ("weight", pa.array([1, None, 3], pa.int64()), (1, 3)),
    "flags of null": ("bundleable", pa.array([True, None, True]), (1, 3)),
    "times of null": ("expires_at", pa.array([1, None, 3], pa.timestamp("us", "UTC")), (1, 2)),
    "indices of null": ("kind", pa.array(["a", None, "a"]).dictionary_encode(), (1, 2)),
    "texts of null": ("kind", pa.array(["a", None, "a"]), (1, 2)),
}


@pytest.mark.parametrize("name", LIES)
def test_a_count_of_nulls_that_lies_is_refused(name: str) -> None:
    field, column, (told, lie) = LIES[name]
    body = stream(pa.table({"recipient": ["a", "b", "c"], "data": [b""] * 3, field: column}))
    node = struct.pack("<qq", 3, told)
    assert body.count(node) == 1
    with pytest.raises(InvalidRequest):
        taken_in(body.replace(node, struct.pack("<qq", 3, lie)), ARROW)
