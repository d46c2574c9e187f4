"""The digest of a parcel: the same however it came, another for anything that its sender said otherwise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.limits import FEW_MESSAGES_MAX
from restante.model.producers.parcel_digest import Digests, digests_of_columns, digests_of_letters
from restante.model.publishing.few_or_many import few_or_many
from restante.model.publishing.intake import from_arrow, from_messages
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import Message
from restante.wire.incoming.incoming import decode_messages
from restante.wire.media import ARROW
from restante.wire.publish import encode_publish, stream_bytes
from tests.model.strategies import messages, unhurried

KEY = 0x1234_5678_9ABC_DEF0
ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def digest(sent: list[Message]) -> Digests:
    columns, faults = from_messages(sent, claim_check_origins=None)
    assert not faults
    return digests_of_columns(columns, KEY)


def arrow_digest(sent: object) -> Digests:
    columns, faults = from_arrow(sent, claim_check_origins=None)
    assert not faults
    return digests_of_columns(columns, KEY)


@given(st.lists(messages(), min_size=1, max_size=5))
@unhurried
def test_letters_and_columns_have_the_same_digest(sent: list[Message]) -> None:
    letters = [letter_of(message, claim_check_origins=None) for message in sent]
    plain = [letter for letter in letters if letter is not None]
    if len(plain) == len(sent):
        assert digests_of_letters(plain, KEY) == digest(sent)


@given(st.lists(messages(), min_size=1, max_size=5))
@unhurried
def test_an_arrow_body_has_the_digest_of_the_messages(sent: list[Message]) -> None:
    many = [msgspec.structs.replace(message, id=ID) for message in sent] * (FEW_MESSAGES_MAX + 1)
    content_type, body = encode_publish(few_or_many(many), random=bytes, now_ms=0)
    assert content_type == ARROW
    assert arrow_digest(decode_messages(body, content_type=ARROW, headers={})) == digest(many)


def test_an_arrow_body_without_ids_has_the_digest_of_messages_without_ids() -> None:
    sent = [
        Message(recipient=f"r{number}", data={"n": number}, properties={"a": "b"})
        for number in range(FEW_MESSAGES_MAX + 6)
    ]
    _, body = encode_publish(few_or_many(sent), random=bytes, now_ms=0)
    table = decode_messages(body, content_type=ARROW, headers={})
    without = table.drop_columns(["id"])  # type: ignore[union-attr]  # an Arrow body gives a table
    again = decode_messages(stream_bytes(without), content_type=ARROW, headers={})
    assert arrow_digest(again) == digest(sent)


FIRST = Message(recipient="ada", id=ID, data=b"12", properties={"a": "b"}, media_type="text/plain")
OTHERS: dict[str, Any] = {
    "recipient": "eva",
    "id": ID.replace("0198", "0199"),
    "origin": "series",
    "kind": "letters",
    "document_type": "paper",
    "weight": 2,
    "bundleable": False,
    "data": b"13",
    "text": "13",
    "media_type": "text/html",
    "properties": {"a": "c"},
    "expires_at": datetime(2030, 1, 1, tzinfo=UTC),
}


def otherwise(field: str) -> Message:
    alone = {"data": msgspec.UNSET} if field == "text" else {}
    return msgspec.structs.replace(FIRST, **alone, **{field: OTHERS[field]})


@pytest.mark.parametrize("field", OTHERS)
def test_whatever_a_sender_says_otherwise_gives_another_digest(field: str) -> None:
    other = otherwise(field)
    second = Message(recipient="eva", data=b"34")
    assert digest([FIRST, second]).whole != digest([other, second]).whole


def test_every_field_of_a_sender_is_in_the_digest() -> None:
    read_only = {"sequence_number", "published_at", "collected_at", "state", "published_sequence_number"}
    never_numbered = {"visible_at", "source_position"}
    assert {*OTHERS} == {*Message.__struct_fields__} - read_only - never_numbered


def test_an_id_that_is_left_out_is_not_one_of_zeros() -> None:
    zeros = msgspec.structs.replace(FIRST, id="00000000-0000-0000-0000-000000000000")
    assert digest([zeros]).whole != digest([msgspec.structs.replace(FIRST, id=None)]).whole


def test_the_content_is_the_same_whatever_the_ids() -> None:
    other = msgspec.structs.replace(FIRST, id=OTHERS["id"])
    without = msgspec.structs.replace(FIRST, id=None)
    digests = [digest([FIRST, one]) for one in (FIRST, other, without)]
    assert len({one.content for one in digests}) == 1
    assert len({one.whole for one in digests}) == 3


@pytest.mark.parametrize("field", [field for field in OTHERS if field != "id"])
def test_the_content_is_another_for_anything_but_the_ids(field: str) -> None:
    other = otherwise(field)
    assert digest([FIRST]).content != digest([other]).content


def test_the_order_of_messages_counts() -> None:
    second = msgspec.structs.replace(FIRST, data=b"other")
    assert digest([FIRST, second]).content != digest([second, FIRST]).content


def test_bytes_cannot_move_from_one_message_to_its_neighbour() -> None:
    def pair(first: bytes, second: bytes) -> list[Message]:
        return [Message(recipient="ada", data=first), Message(recipient="ada", data=second)]

    assert digest(pair(b"ab", b"c")).content != digest(pair(b"a", b"bc")).content
