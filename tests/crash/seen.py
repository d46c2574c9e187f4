"""Everything that can be seen of a hub without changing it, as plain values that can be held against each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from restante.client.surface import surface
from restante.client.surface.sync import Hub as SyncHub
from restante.errors import RestanteError
from restante.hub.door.hub import OpenHub as Core
from restante.model.publishing.message import Message, State

PAGE = 500


class Mailbox(NamedTuple):
    """What a recipient can see: messages in number order, what waits, which bundles are open."""

    history: tuple[Message, ...]
    waiting: frozenset[surface.Waiting]
    open_bundles: frozenset[surface.OpenBundle]

    @property
    def numbers(self) -> list[int]:
        return [message.sequence_number or 0 for message in self.history]

    def of(self, *states: State) -> tuple[Message, ...]:
        return tuple(message for message in self.history if message.state in states)


class Seen(NamedTuple):
    """What everybody can see."""

    mailboxes: dict[str, Mailbox]
    recipients: dict[str, int]
    """Those with waiting messages, and how many."""
    partitions: tuple[tuple[int, int, int], ...]
    """Number, visible sequence, waiting messages."""


def history_of(hub: surface.Hub, name: str) -> Iterator[Message]:
    after: int | None = None
    while True:
        page = hub.recipient(name).history(after=after, limit=PAGE)
        yield from page.messages
        if page.next is None:
            return
        after = page.next


def mailbox_of(hub: surface.Hub, name: str) -> Mailbox:
    explained = hub.recipient(name).explain()
    return Mailbox(tuple(history_of(hub, name)), frozenset(explained.waiting), frozenset(explained.open_bundles))


def recipients_of(hub: surface.Hub) -> dict[str, int]:
    found: dict[str, int] = {}
    after: str | None = None
    while True:
        page = hub.recipients(after=after, limit=PAGE)
        found.update({each.recipient: each.waiting for each in page.recipients})
        if page.next is None:
            return found
        after = page.next


def partitions_of(hub: surface.Hub) -> tuple[tuple[int, int, int], ...]:
    return tuple((each.partition, each.visible_sequence, each.waiting) for each in hub.partitions())


def seen(hub: surface.Hub, names: Iterable[str]) -> Seen:
    return Seen({name: mailbox_of(hub, name) for name in names}, recipients_of(hub), partitions_of(hub))


def counted(hub: surface.Hub, names: Iterable[str]) -> Seen:
    """The same without the messages, which take most of the time to look at."""
    explained = {name: hub.recipient(name).explain() for name in names}
    mailboxes = {
        name: Mailbox((), frozenset(own.waiting), frozenset(own.open_bundles)) for name, own in explained.items()
    }
    return Seen(mailboxes, recipients_of(hub), partitions_of(hub))


def check_counters(found: Seen) -> None:
    """What the partitions count is what the mailboxes show, if all that has expired is settled; no number is used twice."""
    check_counts(found)
    check_numbers(found)


def check_numbers(found: Seen) -> None:
    """No number is used twice."""
    for mailbox in found.mailboxes.values():
        assert mailbox.numbers == sorted(set(mailbox.numbers))


def check_counts(found: Seen) -> None:
    by_mailbox = {name: sum(each.messages for each in mailbox.waiting) for name, mailbox in found.mailboxes.items()}
    assert found.recipients == {name: count for name, count in by_mailbox.items() if count}
    assert sum(waiting for _, _, waiting in found.partitions) == sum(by_mailbox.values())


def inside(hub: surface.Hub) -> Core:
    """The hub behind the surface, for tests that look inside."""
    assert isinstance(hub, SyncHub)
    link = hub._link
    assert isinstance(link, Core)
    return link


def code_of(error: RestanteError) -> str:
    return error.code
