"""Actions are not pushed to those who follow a mailbox: not when they are stored, and not from history."""

from __future__ import annotations

from collections.abc import Sequence

from restante.calls.publishing import Publish
from restante.model.live.committed_mail import Elsewhere, Handed, Mail
from restante.model.publishing.message import Message
from restante.server.live.replay import read_page
from tests.actions.action_world import ActionWorld, inside


def _pushed(world: ActionWorld, messages: Sequence[Message]) -> list[str]:
    seen: list[str] = []

    def take(mail: Sequence[Mail]) -> None:
        for own in mail:
            assert not isinstance(own, Elsewhere)
            kinds = [letter.kind for letter in own.letters] if isinstance(own, Handed) else _kinds(own.arrivals.columns)
            seen.extend(kinds)

    with world.hub.pushing(take):
        world.hub.call(Publish.of(messages))
    return seen


def _kinds(columns: object) -> list[str]:
    kind = columns.kind  # type: ignore[attr-defined]
    return [str(kind.values[code].as_py()) for code in kind.codes.tolist()]


@inside
def test_neither_few_nor_many_nor_history_push_an_action(world: ActionWorld) -> None:
    few = [Message(recipient="item", kind=kind, data=1) for kind in ("action", "mail")]
    assert _pushed(world, few) == ["mail"]
    many = [Message(recipient="item", kind="action" if n % 2 else "mail", data=n) for n in range(2_000)]
    assert _pushed(world, many) == ["mail"] * 1_000
    page = read_page(world.hub, "item", 0, 100, 1_000_000)
    assert len(page.rows) == 50
    assert len(world.handed()) == 1_001
