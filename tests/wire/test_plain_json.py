"""Letters straight from a body are those that its messages become."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.limits import FEW_MESSAGES_MAX
from restante.model.publishing.letters import letter_of
from restante.model.publishing.refusals import Flawed
from restante.wire.incoming.incoming_json import SentMessage, decode_json
from restante.wire.incoming.plain_json import is_bare, plain_letters
from tests.model.strategies import json_values, unhurried

ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
names = st.sampled_from(["ada", "ben", "default", "", " ", "a b", "restante", "peek", "ä", "x" * 300, "\n"])
fields = st.fixed_dictionaries(
    {},
    optional={
        "recipient": names | st.none(),
        "data": json_values,
        "id": st.sampled_from([ID, ID.upper(), "order/7", "", None, 7]),
        "origin": names,
        "kind": names,
        "text": st.sampled_from(["hello", "", "\ud800"]),
        "data_base64": st.sampled_from(["AAAA", "", "?"]),
        "document_type": names,
        "weight": st.integers(-1, 3),
        "bundleable": st.booleans(),
        "properties": st.dictionaries(st.sampled_from("ab"), st.sampled_from(["x", ""]), max_size=2),
        "media_type": st.sampled_from(["application/json", "text/plain", "no"]),
        "visible_at": st.just("2030-01-31T12:00:00Z"),
        "recipients": st.just(["ada", "ben"]),
    },
)


@given(st.lists(fields, min_size=1, max_size=3), st.booleans())
@unhurried
def test_plain_letters_are_those_of_the_messages(sent: list[dict[str, object]], spaced: bool) -> None:
    body = json.dumps({"messages": sent} if spaced else sent, separators=None if spaced else (",", ":")).encode()
    found = plain_letters(body)
    if found is not None:
        messages = decode_json(body)
        assert not isinstance(messages, Flawed)
        assert found == [letter_of(message, claim_check_origins=()) for message in messages]


@pytest.mark.parametrize(
    "message",
    [
        {"recipient": "ada", "data": 7},
        {"recipient": "ada", "data": {"a": [1, "b c"]}, "id": ID},
        {"recipient": "ada", "data": "x", "origin": "post", "kind": "card", "id": "order/7"},
        {"recipient": "ada", "text": "hello", "properties": {"a": "b"}},
        {"recipient": "ada", "text": "hällo", "id": ID},
        {"recipient": "ada", "text": ""},
        {"recipient": "ada", "data_base64": "AAAA"},
        {"recipient": "ada", "data_base64": "AAAA", "weight": 2, "bundleable": False},
    ],
)
def test_ordinary_messages_are_read_as_letters(message: dict[str, object]) -> None:
    body = json.dumps(message, indent=1).encode()
    (found,) = plain_letters(body) or (None,)
    messages = decode_json(body)
    assert not isinstance(messages, Flawed)
    (expected,) = messages
    assert found == letter_of(expected, claim_check_origins=())


BARE = {"recipient", "data", "text", "data_base64", "id", "origin", "kind"}


@pytest.mark.parametrize("name", [field.name for field in msgspec.structs.fields(SentMessage)])
def test_a_message_that_says_anything_more_is_not_bare(name: str) -> None:
    sent = SentMessage(recipient="ada", data=msgspec.Raw(b"1"))
    setattr(sent, name, False if name == "bundleable" else "given")
    assert is_bare(sent) == (name in BARE)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"messages":[]}',
        b'{"recipient":"ada"}',
        b'{"recipient":"ada","data":1,"unknown":2}',
        b'{"recipient":"ada","data":}',
        b'{"recipient":"ada","data":"\xff"}',
        b'{"recipient":"ada","data":1,"text":"x"}',
        b'{"recipient":"peek/..","data":1,"recipients":["a"]}',
        b'{"recipients":["ada","ben"],"data":1}',
        b'{"recipient":"ada","data":1,"visible_at":"2030-01-31T12:00:00Z"}',
        b'{"recipient":"ada","data":1,"origin":"restante"}',
        b'{"recipient":"ada","data":1,"source_position":7}',
        b"[" * 5_000,
        b"[" + b",".join([b'{"recipient":"ada","data":1}'] * (FEW_MESSAGES_MAX + 1)) + b"]",
    ],
)
def test_whatever_needs_a_closer_look_is_left_to_others(body: bytes) -> None:
    assert plain_letters(body) is None
