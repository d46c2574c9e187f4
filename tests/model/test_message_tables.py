"""Columns back into messages: what was sent comes back, completed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from restante.model.columns.arrow import Column
from restante.model.columns.json_documents import is_utf8
from restante.model.columns.media_types import is_json
from restante.model.columns.text_ids import shown_id
from restante.model.columns.texts import Texts
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA, decode_properties, to_messages, to_table
from restante.model.publishing.intake import RANDOM_BYTES_PER_ID, fill_made_ids, from_arrow, from_messages
from restante.model.publishing.message import NEVER, Message, MessageColumns, State, text_of
from restante.model.publishing.validation import READ_ONLY
from tests.model.strategies import listed, messages, unhurried

PUBLISHED = datetime(2030, 1, 1, tzinfo=UTC)
MICROSECONDS = 1_893_456_000 * 10**6


def table_of(columns: MessageColumns, state: State = State.WAITING) -> pa.Table:
    n = len(columns)
    return to_table(
        columns,
        sequence_number=np.arange(1, n + 1),
        published_at=np.full(n, MICROSECONDS),
        collected_at=np.full(n, MICROSECONDS + 1 if state is State.COLLECTED else NEVER),
        state=Texts.constant(state.value, n),
    )


def columns_of(*sent: Message) -> MessageColumns:
    columns, faults = from_messages(sent, claim_check_origins=None)
    assert faults == []
    count = int(columns.made_id.sum())
    return fill_made_ids(columns, now_ms=1, random=bytes(count * RANDOM_BYTES_PER_ID))


def there_and_back(*sent: Message) -> tuple[Message, ...]:
    return to_messages(table_of(columns_of(*sent)))


def completed(message: Message, number: int, made_id: str | None) -> Message:
    """What the hub shows of a message that it was sent."""
    text = text_of(message)
    is_value = text is None and not isinstance(message.data, (bytes, msgspec.UnsetType))
    default = "application/json" if is_value else "application/octet-stream" if text is None else "text/plain"
    media_type = message.media_type or default
    data: Any = msgspec.json.encode(message.data) if is_value else message.data if text is None else text.encode()
    size = len(data) if isinstance(data, bytes) else 0
    shown = msgspec.json.decode(data) if isinstance(data, bytes) and is_json(media_type) else data
    if isinstance(shown, bytes) and media_type == "text/plain" and is_utf8(shown):
        shown = shown.decode()
    return msgspec.structs.replace(
        message,
        data=shown,
        text=shown if media_type == "text/plain" and isinstance(shown, str) else None,
        id=shown_id(message.id) if message.id else made_id,
        document_type=message.document_type or message.kind,
        media_type=media_type,
        weight=message.weight or max(1, -(-size // 1024)),
        sequence_number=number,
        published_at=PUBLISHED,
        state=State.WAITING,
    )


@unhurried
@given(st.lists(messages(), max_size=6))
@example([Message(recipient="anna", data="x")])
def test_what_was_sent_comes_back_completed(sent: list[Message]) -> None:
    shown = there_and_back(*sent)
    expected = [completed(message, row + 1, shown[row].id) for row, message in enumerate(sent)]
    assert list(shown) == expected
    for message, before in zip(shown, sent, strict=True):
        assert message.id is not None
        assert before.id is not None or str(UUID(message.id)) == message.id


@unhurried
@given(st.lists(messages(), max_size=6))
def test_what_the_hub_gives_out_may_be_sent_again(sent: list[Message]) -> None:
    columns = columns_of(*sent)
    again, faults = from_arrow(table_of(columns).drop_columns(list(READ_ONLY)), claim_check_origins=None)
    assert faults == []
    columns.made_id[:] = False
    assert listed(again) == listed(columns)


def test_a_table_has_the_columns_that_are_promised() -> None:
    table = table_of(columns_of(Message(recipient="anna", data=b"x")))
    assert table.schema.equals(MESSAGE_SCHEMA)
    table.validate(full=True)
    # What is stored has been published: only a delayed message, which is not, is shown with its time.
    fields = {*Message.__struct_fields__} - {"published_sequence_number", "text", "visible_at", "source_position"}
    assert set(MESSAGE_SCHEMA.names) == fields | {"text_id"}
    assert table_of(columns_of()).num_rows == 0
    assert there_and_back() == ()


def test_nulls_are_claim_checks_no_properties_and_no_times() -> None:
    table = table_of(columns_of(Message(recipient="anna"), Message(recipient="anna", data=b"")))
    assert table.column("data").to_pylist() == [None, b""]
    for name in ("properties", "expires_at", "collected_at"):
        assert table.column(name).null_count == 2
    first, second = to_messages(table)
    assert (first.data, second.data) == (msgspec.UNSET, b"")
    assert (first.properties, first.expires_at, first.collected_at) == ({}, None, None)


def test_json_data_is_shown_as_its_value_text_as_text_and_other_data_as_bytes() -> None:
    shown = there_and_back(
        Message(recipient="a", data=None),
        Message(recipient="a", data=b'{"a": 1}', media_type="application/vnd.x+json; v=1"),
        Message(recipient="a", data=b'{"a": 1}', media_type="text/plain"),
        Message(recipient="a", data=b"[1]"),
        Message(recipient="a", data=b"\xff", media_type="text/plain"),
        Message(recipient="a", text="Gr\u00fc\u00dfe"),
    )
    assert [message.data for message in shown] == [None, {"a": 1}, '{"a": 1}', b"[1]", b"\xff", "Gr\u00fc\u00dfe"]
    assert [message.text for message in shown] == [None, None, '{"a": 1}', None, None, "Gr\u00fc\u00dfe"]
    assert shown[-1].media_type == "text/plain"


def test_json_that_python_cannot_say_is_shown_as_its_bytes_and_spoils_no_other() -> None:
    shown = there_and_back(
        Message(recipient="a", data=b"1e999", media_type="application/json"),
        Message(recipient="a", data=b"[1]", media_type="application/json"),
    )
    assert [message.data for message in shown] == [b"1e999", [1]]


def test_a_collected_message_says_when_and_that_it_is() -> None:
    table = table_of(columns_of(Message(recipient="anna", data=b"")), State.COLLECTED)
    (message,) = to_messages(table)
    assert message.state is State.COLLECTED
    assert message.collected_at == PUBLISHED + timedelta(microseconds=1)
    assert message.collected_at.tzinfo is UTC


def test_tables_in_chunks_and_slices_give_the_same_messages() -> None:
    sent = [Message(recipient=f"r{n % 3}", data={"n": n}, kind=f"k{n}", properties={"n": str(n)}) for n in range(7)]
    table = table_of(columns_of(*sent))
    whole = to_messages(table)
    assert to_messages(pa.concat_tables([table.slice(0, 2), table.slice(2, 1), table.slice(3)])) == whole
    assert to_messages(table.slice(2, 3)) == whole[2:5]
    plain = table.set_column(
        table.column_names.index("recipient"), "recipient", table.column("recipient").cast(pa.string())
    )
    assert to_messages(plain) == whole


def test_messages_share_no_properties() -> None:
    first, second = there_and_back(Message(recipient="a", data=b""), Message(recipient="a", data=b""))
    first.properties["a"] = "b"
    assert second.properties == {}


@unhurried
@given(st.lists(st.dictionaries(st.text(), st.text(), max_size=3), max_size=5))
def test_decoded_properties_are_those_that_were_encoded(maps: list[dict[str, str]]) -> None:
    encoded = [msgspec.json.encode(entries) if entries else b"" for entries in maps]
    decoded: Column = decode_properties(pa.array([b"", *encoded], pa.binary())[1:])
    decoded.validate(full=True)
    assert [dict(entries) if entries is not None else {} for entries in decoded.to_pylist()] == maps
    assert decoded.null_count == sum(not entries for entries in maps)
