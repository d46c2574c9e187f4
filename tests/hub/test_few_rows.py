"""A bundle of few messages is the same as letters and as columns."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import restante
from restante.calls.mailboxes import Dequeue, Peek
from restante.client.surface.surface import Hub
from restante.hub.mailboxes import peek
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.publishing.message import Message
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from restante.wire.outgoing.outgoing import bundle_cloudevents, bundle_json
from tests.crash.seen import inside
from tests.model.strategies import messages, unhurried


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    settings = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
    with restante.open(None, store=MemoryStore(), settings=settings) as opened:
        yield opened


def peeked(hub: Hub, recipient: str) -> BundleAnswer:
    answer = inside(hub).call(Peek(recipient))
    assert isinstance(answer, BundleAnswer)
    return answer


def check_alike(hub: Hub, recipient: str) -> BundleAnswer:
    """The bundle as letters, which was found to be the same as columns."""
    few = peeked(hub, recipient)
    with patch.object(peek, "_LETTERS_MAX", 0):
        columns = peeked(hub, recipient)
    assert few.few
    assert not columns.few
    assert few.table.schema == columns.table.schema
    assert few.table.to_pylist() == columns.table.to_pylist()
    for written in (bundle_json, bundle_cloudevents):
        ours, theirs = (msgspec.json.decode(b"".join(written(answer))) for answer in (few, columns))
        assert ours == theirs
    return few


@given(st.lists(messages(), min_size=1, max_size=4))
@unhurried
def test_few_messages_are_alike_as_letters_and_as_columns(hub: Hub, sent: list[Message]) -> None:
    own = [
        msgspec.structs.replace(message, recipient="ada", id=None, expires_at=None, visible_at=None)
        for message in sent
        if message.data is not msgspec.UNSET or message.text is not None
    ]
    if own:
        hub.producer.send(own)
        while isinstance(found := inside(hub).call(Peek("ada")), BundleAnswer):
            check_alike(hub, "ada")
            inside(hub).call(Dequeue("ada", found.bundle_id))


def test_ids_that_are_texts_and_several_runs_are_shown(hub: Hub) -> None:
    for number in range(3):
        hub.producer.send(Message(recipient="ben", id=f"order/{number}", text="hi", properties={"a": "b"}))
    found = check_alike(hub, "ben")
    assert [own.number for own in found.few] == found.table["sequence_number"].to_pylist()
    bundle = hub.recipient("ben").peek()
    assert bundle is not None
    assert [message.id for message in bundle.messages] == ["order/0", "order/1", "order/2"]


def test_many_messages_are_columns(hub: Hub) -> None:
    hub.producer.send([Message(recipient="cleo", data=number) for number in range(65)])
    found = peeked(hub, "cleo")
    assert not found.few
    assert found.table.num_rows == 65


def test_a_few_large_messages_are_columns(hub: Hub) -> None:
    hub.producer.send([Message(recipient="dora", data=bytes(40_000)) for _ in range(2)])
    assert not peeked(hub, "dora").few
