"""A letter is what the rules for columns make of a message; whatever they would refuse is none."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import example, given

from restante import limits
from restante.model.publishing.intake import from_messages
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import Message
from restante.model.storage.rows import BUNDLEABLE, INLINE, MADE_ID
from tests.model.strategies import listed, messages, spoilt, unhurried

ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def as_row(message: Message) -> tuple[object, ...] | None:
    """The letter of a message in the form of a row of columns."""
    letter = letter_of(message, claim_check_origins=None)
    if letter is None:
        return None
    return (
        str(uuid.UUID(bytes=letter.id or bytes(16))),
        letter.recipient,
        letter.origin,
        letter.kind,
        letter.document_type,
        letter.media_type,
        bool(letter.flags & MADE_ID),
        letter.weight,
        bool(letter.flags & BUNDLEABLE),
        bool(letter.flags & INLINE),
        letter.expires_at,
        letter.data,
        letter.properties,
    )


@given(messages())
@example(Message(recipient="ada", data=None))
@example(Message(recipient="ada", data=b"x" * 1024, weight=1))
@example(Message(recipient="ada", data={"a": [1, "ä", True]}, properties={"a": 'b"\\\n', "ä": "", "\x7f": "\u2028"}))
@unhurried
def test_a_letter_says_what_columns_say(message: Message) -> None:
    columns, faults = from_messages([message], claim_check_origins=None)
    assert not faults
    assert as_row(message) in (None, listed(columns)[0])


@given(spoilt())
@unhurried
def test_a_faulty_message_is_no_letter(message_and_field: tuple[Message, str]) -> None:
    assert letter_of(message_and_field[0], claim_check_origins=None) is None


ORDINARY = [
    Message(recipient="ada", data=b"x"),
    Message(recipient="Ærø 12", data=b"", id=ID, origin="o", kind="k", document_type="d", media_type="a/b; c=d"),
    Message(recipient="ada", data={"a": 1}, weight=7, bundleable=False, properties={"k": "v"}),
    Message(recipient="ada", data="text", media_type="application/vnd.x+json"),
    Message(recipient="ada", text="hello", id="order/7", properties={"k": "v"}),
    Message(recipient="ada", data="<a/>", media_type="application/xml", id=" " + ID[1:]),
    Message(recipient="ada", id=ID.upper(), expires_at=datetime(2030, 1, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize("message", ORDINARY)
def test_ordinary_messages_go_the_short_way(message: Message) -> None:
    columns, _ = from_messages([message], claim_check_origins=None)
    assert as_row(message) == listed(columns)[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a\x1f"},
        {"id": ".."},
        {"id": "x" * 257},
        {"text": "both"},
        {"recipient": "\u2028"},
        {"recipient": "\x1f"},
        {"weight": 0},
        {"data": bytes(1025), "weight": 1},
        {"data": bytes(limits.DATA_BYTES_MAX + 1)},
        {"data": b"{", "media_type": "application/json"},
        {"data": b'"\xff"', "media_type": "application/json"},
        {"data": {"a": msgspec.Raw(b"{")}},
        {"expires_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))},
        {"properties": {"a" * 9_000: "b" * 9_000}},
    ],
)
def test_what_the_rules_refuse_is_no_letter(wrong: dict[str, object]) -> None:
    message = msgspec.structs.replace(Message(recipient="ada", data=b"x"), **wrong)
    assert from_messages([message], claim_check_origins=None)[1]
    assert letter_of(message, claim_check_origins=None) is None


def test_a_claim_check_is_a_letter_only_from_an_origin_that_may_send_it() -> None:
    message = Message(recipient="ada", origin="far")
    assert letter_of(message, claim_check_origins={"near"}) is None
    assert letter_of(message, claim_check_origins={"far"}) is not None
    assert letter_of(message, claim_check_origins=None) is not None
