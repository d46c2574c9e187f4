"""What is given out, against a slow exact way to say the same, and against the messages themselves."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc

from restante.limits import ANSWER_BYTES_TARGET, ANSWER_ROWS_MAX, MIB
from restante.model.columns.json_documents import is_utf8
from restante.model.columns.media_types import is_json
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA, to_messages
from restante.model.publishing.message import Message, State
from restante.wire.outgoing.base64_columns import base64_texts
from restante.wire.outgoing.outgoing import (
    arrow_bytes,
    arrow_pieces,
    bundle_cloudevents,
    bundle_json,
    columns_json,
    message_json,
    messages_json,
    page_json,
)
from restante.wire.outgoing.single_rows import table_json
from tests.model.strategies import messages, times, unhurried
from tests.wire.tables import ID, bundle_of, table_of

OPTIONAL = ("expires_at", "collected_at")


def joined(pieces: Iterable[bytes]) -> Any:
    """The value of an answer, in which every number and text is as a strict reader sees it."""
    return msgspec.json.decode(b"".join(pieces))


def moment_text(time: datetime) -> str:
    utc = time.astimezone(UTC)
    return f"{utc.year:04}-{utc.month:02}-{utc.day:02}T{utc:%H:%M:%S}.{utc.microsecond:06}Z"


def slow_message(row: dict[str, Any]) -> dict[str, Any]:
    """One row of a table as the contract says it, made value by value."""
    shown = {name: row[name] for name in ("sequence_number", "recipient", "origin", "kind", "document_type", "weight")}
    shown |= {name: row[name] for name in ("bundleable", "media_type", "state")}
    digits = row["id"].hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    shown["id"] = row["text_id"] or uuid
    shown["properties"] = dict(row["properties"] or ())
    shown["published_at"] = moment_text(row["published_at"])
    shown |= {name: moment_text(row[name]) for name in OPTIONAL if row[name] is not None}
    data = row["data"]
    if data is not None and is_json(row["media_type"]):
        shown["data"] = msgspec.json.decode(data)
    elif data is not None and row["media_type"] == "text/plain" and is_utf8(data):
        shown["text"] = data.decode()
    elif data is not None:
        shown["data_base64"] = base64.b64encode(data).decode()
    return shown


def slow_messages(table: pa.Table) -> list[dict[str, Any]]:
    return [slow_message(row) for row in table.to_pylist()]


@unhurried
@given(st.lists(messages(), min_size=1, max_size=6), st.sampled_from([State.WAITING, State.COLLECTED, State.SET_ASIDE]))
def test_rows_written_one_by_one_are_what_the_columns_become(sent: list[Message], state: State) -> None:
    table = table_of(*sent, state=state)
    assert table_json(table) == b"".join(columns_json(table))


@unhurried
@given(st.lists(messages(), max_size=6), st.sampled_from([State.WAITING, State.COLLECTED, State.SET_ASIDE]))
def test_messages_are_what_the_slow_way_says(sent: list[Message], state: State) -> None:
    table = table_of(*sent, state=state)
    expected = slow_messages(table)
    assert joined(messages_json(table)) == expected
    assert joined(messages_json(pa.concat_tables([table.slice(0, 2), table.slice(2)]))) == expected
    assert joined(messages_json(table.slice(1))) == expected[1:]
    assert joined(page_json(table, 7)) == {"messages": expected, "next": 7}
    if sent:
        assert msgspec.json.decode(message_json(table)) == expected[0]


@unhurried
@given(st.lists(messages(), max_size=6))
def test_a_bundle_in_json_holds_the_same_messages_as_in_process(sent: list[Message]) -> None:
    table = table_of(*sent)
    answer = joined(bundle_json(bundle_of(table)))
    read = msgspec.convert(answer.pop("messages"), list[dict[str, Any]])
    assert answer == {
        "bundle_id": ID,
        "origin": 'the "post"',
        "kind": "letter",
        "document_types": ["letter", "card"],
    }
    assert [read_message(row) for row in read] == list(to_messages(table))


def read_message(row: dict[str, Any]) -> Message:
    """As any client would read a message."""
    fields = dict(row)
    if "text" in fields:
        fields["data"] = fields["text"]
    if "data_base64" in fields:
        fields["data"] = base64.b64decode(fields.pop("data_base64"), validate=True)
    for name in ("expires_at", "published_at", "collected_at"):
        if name in fields:
            fields[name] = datetime.fromisoformat(fields[name])
    return Message(**{**fields, "state": State(fields["state"])})


def test_the_bytes_of_json_data_are_given_out_as_they_are() -> None:
    kept = [b'{ "a" : 1.00 }', b"1e999", b"123456789012345678901234567890", b'"\\u0041"']
    table = table_of(*[Message(recipient="a", data=data, media_type="application/json") for data in kept])
    answer = b"".join(messages_json(table))
    for data in kept:
        assert b',"data":' + data + b"}" in answer


def test_an_answer_without_messages_is_still_whole() -> None:
    table = table_of()
    assert joined(messages_json(table)) == []
    assert joined(page_json(table, None)) == {"messages": [], "next": None}
    assert joined(bundle_json(bundle_of(table)))["messages"] == []
    assert joined(bundle_cloudevents(bundle_of(table))) == []


def test_a_small_answer_is_one_piece() -> None:
    table = table_of(Message(recipient="a", data=b"x"), Message(recipient="b"))
    assert len(list(bundle_json(bundle_of(table)))) == 1


def test_many_rows_and_much_data_are_made_in_pieces() -> None:
    many = table_of(*[Message(recipient="a", data=n) for n in range(ANSWER_ROWS_MAX + 1)])
    pieces = list(messages_json(many))
    assert len(pieces) == 2
    assert [row["data"] for row in joined(pieces)] == list(range(ANSWER_ROWS_MAX + 1))
    heavy = table_of(*[Message(recipient="a", data=bytes([n]) * MIB) for n in range(10)])
    pieces = list(messages_json(heavy))
    assert len(pieces) > 2
    assert max(map(len, pieces)) < 2 * ANSWER_BYTES_TARGET
    assert joined(pieces) == slow_messages(heavy)


@unhurried
@given(st.lists(times, min_size=1, max_size=5), st.booleans())
def test_times_are_in_utc_with_microseconds(moments: list[datetime], with_none: bool) -> None:
    sent = [Message(recipient="a", data=b"", expires_at=time) for time in moments]
    sent += [Message(recipient="a", data=b"")] * with_none
    shown = joined(messages_json(table_of(*sent)))
    assert [row.get("expires_at") for row in shown] == [moment_text(time) for time in moments] + [None] * with_none


@unhurried
@given(st.lists(st.binary(max_size=40), max_size=20))
def test_base64_of_a_column_is_that_of_each_row(rows: list[bytes]) -> None:
    column: Any = pa.array([b"before", *rows], pa.large_binary())
    assert base64_texts(column[1:]).to_pylist() == [base64.b64encode(row).decode() for row in rows]


@unhurried
@given(st.lists(messages(), max_size=5))
def test_an_arrow_stream_holds_the_table(sent: list[Message]) -> None:
    table = table_of(*sent)
    read = ipc.open_stream(pa.py_buffer(arrow_bytes(table))).read_all()
    assert read.schema.equals(MESSAGE_SCHEMA)
    assert to_messages(read) == to_messages(table)


@unhurried
@given(st.lists(messages(), max_size=5), st.integers(0, 3))
def test_an_arrow_stream_in_pieces_is_the_same_stream(sent: list[Message], first: int) -> None:
    table = table_of(*sent).slice(first)
    assert b"".join(arrow_pieces(table)) == bytes(arrow_bytes(table))


def test_a_large_column_is_a_piece_and_is_not_copied() -> None:
    table = table_of(*[Message(recipient="ada", data=bytes(1_000))] * 300)
    pieces = arrow_pieces(table)
    assert b"".join(pieces) == bytes(arrow_bytes(table))
    data: Any = table.column("data").chunk(0)
    assert data.buffers()[2].address in [pa.py_buffer(piece).address for piece in pieces]


@pytest.mark.parametrize("answer", [messages_json, lambda table: bundle_cloudevents(bundle_of(table))])
def test_texts_that_need_escaping_are_escaped(answer: Any) -> None:
    nasty = 'a"b\\c\n\x00\x1f\u2028é😀'
    name = 'a"b\\c\u2028é😀'
    table = table_of(
        Message(recipient=name, id=name, kind=nasty, text=nasty, properties={"text": name, "other": nasty}),
        Message(recipient=name, data=b"\xff", media_type="text/plain"),
    )
    row, other = joined(answer(table))
    assert (row["recipient"], row["id"]) == (name, name)
    assert row.get("text" if "properties" in row else "data") == nasty
    assert other["data_base64"] == "/w=="
    properties = row.get("properties", row)
    assert properties["text"] == name
    # An event has no attribute with control characters.
    assert properties.get("other") == (nasty if "properties" in row else None)
