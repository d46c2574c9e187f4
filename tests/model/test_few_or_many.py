"""`few_or_many`: one threshold, by the number of messages; columns are many, however short."""

from __future__ import annotations

import pyarrow as pa
import pytest

from restante.limits import FEW_MESSAGES_MAX
from restante.model.publishing.broadcast import Broadcast, spread
from restante.model.publishing.few_or_many import Few, Many, few_or_many
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed

ONE = Message(recipient="ada", data=1)


def test_a_message_is_few() -> None:
    assert few_or_many(ONE) == Few((ONE,))


@pytest.mark.parametrize("kind", [list, tuple])
def test_messages_are_few_up_to_the_bound(kind: type[list[Message]]) -> None:
    assert few_or_many(kind([])) == Few(())
    assert few_or_many(kind([ONE] * FEW_MESSAGES_MAX)) == Few((ONE,) * FEW_MESSAGES_MAX)
    many = kind([ONE] * (FEW_MESSAGES_MAX + 1))
    assert few_or_many(many) == Many(many)


def test_what_is_few_does_not_change_with_the_list_that_was_given() -> None:
    given = [ONE]
    few = few_or_many(given)
    given.append(ONE)
    assert few == Few((ONE,))


@pytest.mark.parametrize(
    "sent",
    [pa.table({"recipient": ["ada"]}), Flawed([ONE], []), "", b"", "text", iter([ONE]), None, 5],
    ids=["table", "flawed", "no text", "no bytes", "text", "iterator", "none", "number"],
)
def test_anything_else_is_many(sent: object) -> None:
    assert few_or_many(sent) == Many(sent)


def test_a_broadcast_is_many_until_it_is_spread() -> None:
    broadcast = Broadcast(recipients=("ada", "bob"), data=1)
    assert few_or_many(broadcast) == Many((broadcast,))
    assert few_or_many([ONE, broadcast]) == Many([ONE, broadcast])
    assert isinstance(few_or_many(spread([ONE, broadcast])), Few)
