"""What is staged is cut into pieces of about a parcel, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from restante import errors
from restante.client.consignments.pieces import Piece, piece_of, pieces_of
from restante.client.publishing.new_ids import identified_table
from restante.model.columns.arrow import binaries_of
from restante.model.publishing.message import Message

SIZE = 100_000


def tables(sent: object, size: int = SIZE) -> list[pa.Table]:
    found = list(pieces_of(sent, size=size))
    assert all(isinstance(piece, pa.Table) for piece in found)
    return [piece for piece in found if isinstance(piece, pa.Table)]


def rows(piece: Piece) -> int:
    return len(piece) if isinstance(piece, list) else piece.num_rows


def columns(count: int, kind: pa.DataType) -> pa.Table:
    data = pa.array([b"x" * (place % 300) for place in range(count)], pa.binary())
    return pa.table({"recipient": [f"r{place}" for place in range(count)], "data": data.cast(kind)})


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_columns_are_cut_by_their_bytes_in_order(kind: pa.DataType) -> None:
    table = columns(5_000, kind)
    cut = tables(table)
    assert len(cut) > 5
    assert max(sum(map(len, binaries_of(piece["data"]))) for piece in cut) <= SIZE
    assert pa.concat_tables(cut).equals(table)


def test_columns_that_lie_are_refused_before_they_are_cut() -> None:
    beyond: Any = pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int32()), pa.array(["a"]), safe=False)
    ends = pa.py_buffer(np.array([0, 1_000, 3], np.int32).tobytes())
    outside: Any = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"abc")])
    for lie in (beyond, outside):
        table = pa.table({"recipient": lie, "id": lie, "data": [b"x" * SIZE] * 2})
        for sent in (table, table.to_reader()):
            with pytest.raises(errors.InvalidRequest, match="cannot be read"):
                list(pieces_of(sent, size=SIZE))
        with pytest.raises(errors.InvalidRequest, match="cannot be read"):
            identified_table(table)


def test_a_slice_of_a_table_is_cut_by_its_own_bytes() -> None:
    table = columns(5_000, pa.binary()).slice(1_000, 2_000)
    assert pa.concat_tables(tables(table)).equals(table)
    assert len(tables(table.slice(0, 100))) == 1


def test_a_few_large_messages_among_many_small_ones_do_not_share_a_piece() -> None:
    data = [b"x"] * 10_000 + [b"y" * SIZE] * 5
    table = pa.table({"recipient": ["r"] * len(data), "data": data})
    assert [piece.num_rows for piece in tables(table)][-5:] == [1] * 5


def test_properties_count_as_well() -> None:
    properties = pa.array([[("key", "v" * 1_000)]] * 1_000, pa.map_(pa.string(), pa.string()))
    cut = tables(pa.table({"recipient": ["r"] * 1_000, "properties": properties}).slice(100))
    assert max(piece.num_rows for piece in cut) < 100
    assert sum(piece.num_rows for piece in cut) == 900


def test_a_large_dictionary_does_not_go_along_with_each_piece() -> None:
    names = [f"recipient {place}" for place in range(10_000)]
    table = pa.table({"recipient": pa.array(names).dictionary_encode(), "data": [b"x" * 50] * 10_000})
    cut = tables(table)
    assert cut[0]["recipient"].type == pa.string()
    assert [name for piece in cut for name in piece["recipient"].to_pylist()] == names


def test_a_reader_is_cut_as_it_goes_on() -> None:
    asked: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(20):
            asked.append(number)
            yield batch

    batch = columns(100, pa.binary()).to_batches()[0]
    reader = pa.RecordBatchReader.from_batches(batch.schema, batches())
    pieces = pieces_of(reader, size=SIZE // 5)
    first = next(pieces)
    assert len(asked) < 10
    assert rows(first) + sum(map(rows, pieces)) == 2_000


def test_messages_are_cut_as_they_come() -> None:
    made: list[Message] = []

    def messages() -> Iterator[Message]:
        for place in range(1_000):
            made.append(Message(recipient="r", data="x" * 1_000, id=None, kind=f"k{place}"))
            yield made[-1]

    pieces = pieces_of(messages(), size=SIZE)
    first = next(pieces)
    assert len(made) < 100
    rest = list(pieces)
    assert isinstance(first, list)
    assert first == made[: len(first)]
    assert len(first) + sum(map(rows, rest)) == 1_000


def test_what_is_little_is_one_piece() -> None:
    message = Message(recipient="r", data=1)
    table = pa.table({"recipient": ["r"]})
    assert list(pieces_of(message)) == [[message]]
    assert list(pieces_of([message, message])) == [[message, message]]
    assert [rows(piece) for piece in pieces_of(table)] == [1]
    assert [rows(piece) for piece in pieces_of(table.to_batches()[0])] == [1]


@pytest.mark.parametrize("nothing", [[], pa.table({"recipient": pa.array([], pa.string())}), iter(())])
def test_nothing_is_one_empty_piece(nothing: object) -> None:
    assert [rows(piece) for piece in pieces_of(nothing)] == [0]


def test_one_piece_may_be_of_any_size() -> None:
    assert rows(piece_of(columns(100_000, pa.binary()))) == 100_000
    assert rows(piece_of(Message(recipient="r", data="x" * 900_000) for _ in range(10))) == 10
    assert rows(piece_of(Message(recipient="r"))) == 1


@pytest.mark.parametrize("wrong", ["text", b"bytes", 3, None, ["text"], [None]])
def test_what_is_no_message_is_refused(wrong: object) -> None:
    for cut in (lambda: list(pieces_of(wrong)), lambda: piece_of(wrong)):
        with pytest.raises(errors.InvalidRequest):
            cut()


def test_data_that_cannot_be_said_is_refused_as_when_it_is_sent() -> None:
    with pytest.raises(errors.InvalidMessage):
        list(pieces_of([Message(recipient="r", data=object())]))
