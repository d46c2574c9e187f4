"""What can be seen without changing anything: history, a message by its id, recipients, partitions."""

from __future__ import annotations

from typing import Literal

import pytest

from restante import errors
from restante.client.surface.surface import Hub
from restante.model.publishing.message import State
from tests.hub.engines import FakeClock
from tests.hub.letters import at, history, id_of, letter, letters, numbers_of, peeked, taken

STALE_SECONDS = 6
"""A list of recipients is at most 5 s old."""


# History.


def test_history_pages_ascend_and_say_where_the_next_begins(hub: Hub) -> None:
    hub.producer.send(letters(range(7)))
    ada = hub.recipient("ada")
    pages, after = [], None
    while True:
        page = ada.history(after=after, limit=3)
        pages.append(numbers_of(page.messages))
        if page.next is None:
            break
        after = page.next
    assert [page for page in pages if page] == [[0, 1, 2], [3, 4, 5], [6]]


def test_history_before_a_number_gives_the_page_just_below_it(hub: Hub) -> None:
    hub.producer.send(letters(range(7)))
    ada = hub.recipient("ada")
    last = ada.history().messages[-1].sequence_number
    page = ada.history(before=last, limit=3)
    assert numbers_of(page.messages) == [3, 4, 5]
    assert numbers_of(ada.history(before=page.next, limit=3).messages) == [0, 1, 2]


def test_history_between_two_numbers(hub: Hub) -> None:
    hub.producer.send(letters(range(7)))
    ada = hub.recipient("ada")
    numbers = [message.sequence_number for message in ada.history().messages]
    assert numbers_of(ada.history(after=numbers[1], before=numbers[5]).messages) == [2, 3, 4]


def test_history_of_one_state(hub: Hub) -> None:
    hub.producer.send(letters(range(6), bundleable=False))
    taken(hub)
    taken(hub)
    hub.recipient("ada").set_aside(id_of(3))
    hub.recipient("ada").withdraw(id_of(5))
    found = {state: numbers_of(hub.recipient("ada").history(state=state).messages) for state in State}
    assert found == {
        State.WAITING: [2, 4],
        State.COLLECTED: [0, 1],
        State.EXPIRED: [],
        State.WITHDRAWN: [5],
        State.SET_ASIDE: [3],
        State.DELAYED: [],
    }


def test_a_page_of_one_state_goes_on_where_it_ended(hub: Hub) -> None:
    hub.producer.send([letter(number, kind="ab"[number % 2]) for number in range(8)])
    taken(hub, max_messages=3)
    ada = hub.recipient("ada")
    first = ada.history(state=State.COLLECTED, limit=2)
    assert numbers_of(first.messages) == [0, 2]
    assert numbers_of(ada.history(state=State.COLLECTED, limit=2, after=first.next).messages) == [4]


def test_history_has_a_hundred_to_a_page_unless_told(hub: Hub) -> None:
    hub.producer.send(letters(range(150)))
    assert len(hub.recipient("ada").history().messages) == 100


def test_history_is_the_recipients_own(hub: Hub) -> None:
    hub.producer.send([letter(1, "ada"), letter(2, "dora"), letter(3, "ada")])
    assert history(hub, "dora") == [(2, State.WAITING)]
    assert history(hub, "nobody") == []


def test_find_gives_a_message_in_whatever_state(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    taken(hub, max_messages=1)
    ada = hub.recipient("ada")
    assert [ada.find(id_of(number)).state for number in (1, 2)] == [State.COLLECTED, State.WAITING]
    with pytest.raises(errors.MessageUnknown):
        ada.find(id_of(3))
    with pytest.raises(errors.MessageUnknown):
        hub.recipient("dora").find(id_of(1))


# Recipients.


def listed(hub: Hub, order: Literal["waiting", "oldest"]) -> list[tuple[str, int]]:
    return [(one.recipient, one.waiting) for one in hub.recipients(order=order).recipients]


def test_recipients_are_listed_by_what_waits_or_by_age(hub: Hub, clock: FakeClock) -> None:
    for recipient, count in (("dora", 2), ("ada", 1), ("ben", 3), ("cleo", 1)):
        hub.producer.send(letters(range(count), recipient=recipient))
        clock.advance(1)
    clock.advance(STALE_SECONDS)
    assert listed(hub, "waiting") == [("ben", 3), ("dora", 2), ("ada", 1), ("cleo", 1)]
    assert listed(hub, "oldest") == [("dora", 2), ("ada", 1), ("ben", 3), ("cleo", 1)]


def test_recipients_without_waiting_messages_are_not_listed(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1, "ada"), letter(2, "ben", expires_at=at(3)), letter(3, "cleo"), letter(4, "dora")])
    taken(hub, "ada")
    hub.recipient("cleo").withdraw(id_of(3))
    clock.advance(STALE_SECONDS)
    hub.expire()
    assert listed(hub, "waiting") == [("dora", 1)]


def test_recipients_are_listed_with_what_an_open_bundle_holds(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2]))
    peeked(hub, max_messages=1)
    clock.advance(STALE_SECONDS)
    (one,) = hub.recipients().recipients
    assert (one.recipient, one.waiting, one.oldest, one.partition) == ("ada", 2, at(0), hub.partition_of("ada"))


@pytest.mark.parametrize("order", ["waiting", "oldest"])
def test_recipients_come_in_pages(hub: Hub, clock: FakeClock, order: Literal["waiting", "oldest"]) -> None:
    names = [f"recipient {number:02}" for number in range(25)]
    hub.producer.send([letter(1, name) for name in names])
    clock.advance(STALE_SECONDS)
    found: list[str] = []
    page = hub.recipients(order=order, limit=10)
    found += [one.recipient for one in page.recipients]
    while page.next is not None:
        page = hub.recipients(order=order, limit=10, after=page.next)
        found += [one.recipient for one in page.recipients]
    assert found == names


def test_partitions_tell_what_waits_in_them(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1, "ada"), letter(2, "dora"), letter(3, "ben")])
    taken(hub, "dora")
    clock.advance(STALE_SECONDS)
    assert [(one.partition, one.waiting) for one in hub.partitions()] == [(0, 1), (1, 1)]
    numbers = [message.sequence_number or 0 for message in hub.recipient("dora").history().messages]
    assert hub.partitions()[1].visible_sequence > max(numbers)
