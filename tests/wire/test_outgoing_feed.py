"""Changes and snapshots as JSON, against a slow exact way to say the same."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.limits import ANSWER_BYTES_TARGET, ANSWER_ROWS_MAX, MIB
from restante.model.columns.json_documents import is_utf8
from restante.model.columns.media_types import is_json
from restante.model.feed.feed import FEED_SCHEMA
from restante.model.publishing.message import Message, State
from restante.wire.outgoing.outgoing_feed import changes_json, needed_columns, snapshot_json
from tests.model.strategies import messages, unhurried
from tests.wire.tables import ID, table_of
from tests.wire.test_outgoing import joined, moment_text, slow_messages

BATCH = bytes(range(16))
KEY = 'the "night" \n run'
OTHERS = ("collected", "expired", "withdrawn", "set_aside", "released")


def uuid_text(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def slow_change(row: dict[str, Any]) -> dict[str, Any]:
    """One row of changes as the contract says it, made value by value."""
    shown = {name: value for name, value in row.items() if value is not None}
    shown |= {name: uuid_text(shown[name]) for name in ("id", "bundle_id", "batch") if name in shown}
    text_id = shown.pop("text_id", None)
    if text_id is not None:
        shown["id"] = text_id
    shown |= {name: moment_text(shown[name]) for name in ("at", "expires_at") if name in shown}
    if "properties" in shown and not shown["properties"]:
        del shown["properties"]
    elif "properties" in shown:
        shown["properties"] = dict(shown["properties"])
    data = shown.pop("data", None)
    if data is not None and is_json(shown["media_type"]):
        shown["data"] = msgspec.json.decode(data)
    elif data is not None and shown["media_type"] == "text/plain" and is_utf8(data):
        shown["text"] = data.decode()
    elif data is not None:
        shown["data_base64"] = base64.b64encode(data).decode()
    return shown


def row_of(message: dict[str, Any], change: str, number: int) -> dict[str, Any]:
    """The row of a change of this message."""
    row: dict[str, Any] = dict.fromkeys(FEED_SCHEMA.names)
    row |= {"sequence_number": number, "change": change, "at": message["published_at"]}
    if change == "batch_completed":
        return row | {"batch": BATCH, "key": KEY}
    kept = FEED_SCHEMA.names if change == "published" else ("id", "text_id", "recipient", "origin", "kind")
    row |= {name: message[name] for name in kept if name in message and name != "sequence_number"}
    bundle = {"bundle_id": bytes(reversed(BATCH))} if change == "collected" else {}
    return row | {"message_sequence_number": message["sequence_number"]} | bundle


def feed_table(sent: list[Message], kinds: list[str]) -> pa.Table:
    rows = table_of(*sent).to_pylist()
    made = [row_of(row, kind, 100 + place) for place, (row, kind) in enumerate(zip(rows, kinds, strict=False))]
    return pa.Table.from_pylist(made, FEED_SCHEMA)


CHANGES = st.lists(st.sampled_from(["published", "published", "batch_completed", *OTHERS]), min_size=8, max_size=8)


@unhurried
@given(st.lists(messages(), max_size=8), CHANGES)
def test_changes_are_what_the_slow_way_says(sent: list[Message], kinds: list[str]) -> None:
    table = feed_table(sent, kinds)
    expected = [slow_change(row) for row in table.to_pylist()]
    assert joined(changes_json(table)) == {"changes": expected}
    halves = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    assert joined(changes_json(halves)) == {"changes": expected}
    assert joined(changes_json(table.slice(1))) == {"changes": expected[1:]}


@unhurried
@given(
    st.lists(messages(), min_size=1, max_size=8),
    CHANGES,
    st.lists(st.sampled_from(FEED_SCHEMA.names), min_size=1, max_size=5, unique=True),
)
def test_of_chosen_columns_only_these_are_written(sent: list[Message], kinds: list[str], chosen: list[str]) -> None:
    whole = feed_table(sent, kinds)
    wanted = {*needed_columns(tuple(chosen)), "change"}
    table = whole.select([name for name in FEED_SCHEMA.names if name in wanted])
    kept = {*chosen, "sequence_number", "change", *(("text", "data_base64") if "data" in chosen else ())}
    expected = [{name: value for name, value in slow_change(row).items() if name in kept} for row in whole.to_pylist()]
    assert joined(changes_json(table, chosen)) == {"changes": expected}


def test_whether_data_is_json_is_seen_without_the_media_type_being_shown() -> None:
    table = feed_table([Message(recipient="a", data={"n": 1}), Message(recipient="a", data=b"\xff")], ["published"] * 2)
    chosen = table.select(["sequence_number", "change", "data", "media_type"])
    assert joined(changes_json(chosen, ("data",))) == {
        "changes": [
            {"sequence_number": 100, "change": "published", "data": {"n": 1}},
            {"sequence_number": 101, "change": "published", "data_base64": "/w=="},
        ]
    }


@pytest.mark.parametrize(
    ("chosen", "needed"),
    [
        ((), ()),
        (("kind",), ("kind", "sequence_number")),
        (("data",), ("data", "sequence_number", "media_type")),
        (("data", "media_type", "sequence_number"), ("data", "media_type", "sequence_number")),
        (("id",), ("id", "sequence_number", "text_id")),
    ],
)
def test_data_needs_its_media_type_and_an_id_its_text(chosen: tuple[str, ...], needed: tuple[str, ...]) -> None:
    assert needed_columns(chosen) == needed


@unhurried
@given(st.lists(messages(), max_size=6), st.sampled_from([State.WAITING, State.COLLECTED, State.SET_ASIDE]))
def test_the_messages_of_a_snapshot_are_those_of_history(sent: list[Message], state: State) -> None:
    table = table_of(*sent, state=state)
    expected = slow_messages(table)
    assert joined(snapshot_json(table, "7-a")) == {"messages": expected, "next": "7-a"}
    assert joined(snapshot_json(table, None)) == {"messages": expected, "next": None}
    some = table.select(["sequence_number", "kind", "collected_at"])
    kept = ("sequence_number", "kind", "collected_at")
    assert joined(snapshot_json(some, None, ("kind", "collected_at")))["messages"] == [
        {name: value for name, value in row.items() if name in kept} for row in expected
    ]


def test_answers_without_rows_are_still_whole() -> None:
    assert joined(changes_json(FEED_SCHEMA.empty_table())) == {"changes": []}
    assert joined(snapshot_json(table_of(), None)) == {"messages": [], "next": None}


def test_the_bytes_of_json_data_are_given_out_as_they_are() -> None:
    kept = [b'{ "a" : 1.00 }', b"1e999", b"123456789012345678901234567890"]
    sent = [Message(recipient="a", data=data, media_type="application/json") for data in kept]
    answer = b"".join(changes_json(feed_table(sent, ["published"] * 3)))
    for data in kept:
        assert b',"data":' + data + b"," in answer


def test_many_rows_and_much_data_are_made_in_pieces() -> None:
    many = feed_table([Message(recipient="a", data=n) for n in range(ANSWER_ROWS_MAX + 1)], ["published"] * 10**6)
    assert len(list(changes_json(many))) == 4
    without = many.select(["sequence_number", "change", "id"])
    pieces = list(changes_json(without))
    assert len(pieces) == 4
    assert len(joined(pieces)["changes"]) == ANSWER_ROWS_MAX + 1
    heavy = feed_table([Message(recipient="a", data=bytes([n]) * MIB) for n in range(10)], ["published"] * 10)
    pieces = list(changes_json(heavy))
    assert len(pieces) > 4
    assert max(map(len, pieces)) < 2 * ANSWER_BYTES_TARGET
    assert joined(pieces)["changes"] == [slow_change(row) for row in heavy.to_pylist()]


def test_ids_are_uuids() -> None:
    (change,) = joined(changes_json(feed_table([Message(id=ID, recipient="a", data=1)], ["collected"])))["changes"]
    assert (change["id"], change["bundle_id"]) == (ID, "0f0e0d0c-0b0a-0908-0706-050403020100")
