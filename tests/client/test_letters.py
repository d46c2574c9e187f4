"""Bundles of few messages as the Python client takes them: the same as columns would give, to whoever asks, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import restante
from restante import Message
from restante.client.transport.address import address_of
from restante.client.transport.column_answers import bundle_of
from restante.client.transport.exchange import Response
from restante.errors import RestanteError
from restante.model.mailboxes.few_rows import StoredLetter, messages_of, table_of
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.letters import letter_of
from restante.server.serve import ServedHub, start
from restante.settings import Settings
from restante.wire.bundle_letters import decode_letters, encode_letters
from restante.wire.media import ARROW, LETTERS

SENT = (
    Message(recipient="ada", data={"a": [1, 2.5, None, "ü"]}),
    Message(recipient="ada", text="Grüße", properties={"a": "1", "ü": '"'}),
    Message(recipient="ada", data=b"\x00\xff", media_type="application/octet-stream"),
    Message(recipient="ada", data="{", media_type="text/plain", id="order 17"),
    Message(
        recipient="ada",
        data=None,
        weight=7,
        bundleable=False,
        document_type="x",
        expires_at=datetime(2999, 1, 1, tzinfo=UTC),
    ),
    Message(recipient="ada", data=b"1e999", media_type="application/json", id="01a1ea59-17be-7bc2-80a2-eb4a0771e668"),
    Message(recipient="ada", data=b"\xff", media_type="text/plain"),
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    folder: Path = tmp_path_factory.mktemp("letters")
    with start(folder / "data", Settings(), port=0) as running:
        yield running


def stored() -> tuple[StoredLetter, ...]:
    letters = [letter_of(message, claim_check_origins=("default",)) for message in SENT]
    found = [
        StoredLetter(own, bytes(range(number, number + 16)), number, 1_700_000_000_000_000)
        for number, own in enumerate(letters, 1)
        if own
    ]
    assert len(found) >= 5
    return tuple(found)


def test_letters_are_the_same_messages_as_columns() -> None:
    assert messages_of(stored()) == to_messages(table_of(stored()))
    assert decode_letters(encode_letters(stored())) == stored()


def test_a_bundle_of_few_is_what_was_sent(hub: ServedHub) -> None:
    with restante.connect(hub.url) as own:
        own.send([*SENT, Message(recipient="ada", text="gone", expires_at=datetime.now(UTC) + timedelta(hours=1))])
        bundle = own.recipient("ada").peek()
        assert bundle is not None
        assert [(one.data, one.text, one.properties) for one in bundle.messages][:4] == [
            ({"a": [1, 2.5, None, "ü"]}, None, {}),
            ("Grüße", "Grüße", {"a": "1", "ü": '"'}),
            (b"\x00\xff", None, {}),
            ("{", "{", {}),
        ]
        assert bundle.messages == to_messages(bundle.raw_table)
        assert bundle.messages[3].id == "order 17"


def answer(hub: ServedHub, recipient: str, accept: str) -> tuple[str | None, bytes]:
    parts = urlsplit(hub.url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    connection.request("GET", f"/v1/recipients/{recipient}/peek", headers={"Accept": accept})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    assert response.status == 200
    return response.getheader("content-type"), body


def test_only_who_names_letters_gets_them(hub: ServedHub) -> None:
    with restante.connect(hub.url) as own:
        own.send(recipient="bob", text="hello")
        own.send([{"recipient": "crowd", "data": number} for number in range(100)])
    assert answer(hub, "bob", "*/*")[0] == "application/json"
    assert answer(hub, "bob", "application/*")[0] == "application/json"
    assert answer(hub, "bob", ARROW)[0] == ARROW
    kind, body = answer(hub, "bob", f"{LETTERS}, {ARROW}")
    assert kind == LETTERS
    assert [one.data for one in messages_of(decode_letters(body))] == ["hello"]
    assert answer(hub, "crowd", f"{LETTERS}, {ARROW}")[0] == ARROW, "many messages are columns"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x90",
        b"\xff" * 100,
        encode_letters(stored())[:-3],
        encode_letters([stored()[0]._replace(id=b"short")]),
    ],
    ids=range(6),
)
def test_bytes_that_are_no_letters_are_said_to_be(body: bytes) -> None:
    headers = {
        "content-type": LETTERS,
        "restante-bundle-id": "b",
        "restante-origin": "o",
        "restante-kind": "k",
        "restante-document-types": "d",
        "restante-message-count": "1",
    }
    with pytest.raises(RestanteError):
        bundle_of(Response(200, headers, memoryview(body)), "ada", address_of("http://127.0.0.1:1"))
