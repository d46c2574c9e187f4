"""What came live and was not shown yet: each message once, in order, and what is missing is asked for."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from restante.client.live.live_inbox import Fetch, Inbox
from restante.limits import LIVE_UNREAD_BYTES_MAX, LIVE_UNREAD_MESSAGES_MAX
from restante.model.mailboxes.answers import HistoryPage
from restante.model.publishing.message import Message, State


def letter(number: int, state: State = State.WAITING) -> Message:
    return Message(recipient="ada", data=number, sequence_number=number, state=state)


def page(*numbers: int, following: int | None = None, state: State = State.WAITING) -> HistoryPage:
    return HistoryPage(messages=tuple(letter(number, state) for number in numbers), next=following)


def connected(after: int | None = 0, number: int = 0) -> Inbox:
    inbox = Inbox(after)
    inbox.connected(number)
    return inbox


def shown(inbox: Inbox) -> list[int]:
    """All that can be shown without anything being fetched."""
    numbers = []
    while isinstance(found := inbox.take(), Message):
        assert found.sequence_number == inbox.position
        numbers.append(found.data)
    assert found is None
    return numbers


def test_messages_are_shown_in_the_order_they_came() -> None:
    inbox = connected()
    for counter, number in enumerate((3, 8, 9), 1):
        inbox.put(counter, letter(number), 10)
    assert shown(inbox) == [3, 8, 9]
    assert (inbox.position, inbox.received, inbox.gaps_recovered) == (9, 9, 0)


def test_it_begins_where_the_hub_says_unless_it_was_told_where() -> None:
    assert connected(None, 41).position == 41
    assert connected(7, 41).position == 7


def test_a_later_connection_does_not_move_the_beginning() -> None:
    inbox = connected(None, 41)
    inbox.connected(50)
    assert (inbox.position, inbox.received) == (41, 41)


def test_a_missing_counter_is_fetched_from_history_before_the_message_is_shown() -> None:
    inbox = connected()
    inbox.put(1, letter(3), 10)
    inbox.put(4, letter(9), 10)
    assert inbox.take() == letter(3)
    assert inbox.take() == Fetch(after=3, before=9)
    assert inbox.take() == Fetch(after=3, before=9), "as long as it was not fetched"
    inbox.filled(page(5, 7))
    assert shown(inbox) == [5, 7, 9]
    assert inbox.gaps_recovered == 1


def test_a_gap_of_many_pages_is_fetched_page_by_page() -> None:
    inbox = connected()
    inbox.put(900, letter(1_000), 10)
    assert inbox.take() == Fetch(0, 1_000)
    inbox.filled(page(1, 2, following=2))
    assert [inbox.take(), inbox.take()] == [letter(1), letter(2)]
    assert inbox.take() == Fetch(2, 1_000)
    inbox.filled(page())
    assert shown(inbox) == [1_000]
    assert inbox.gaps_recovered == 1


@pytest.mark.parametrize("state", [State.WITHDRAWN, State.EXPIRED, State.SET_ASIDE])
def test_of_history_only_what_waits_or_was_collected_is_shown(state: State) -> None:
    inbox = connected()
    inbox.put(4, letter(9), 10)
    inbox.take()
    inbox.filled(HistoryPage(messages=(letter(1, state), letter(2, State.COLLECTED), letter(3)), next=None))
    assert shown(inbox) == [2, 3, 9]


def test_what_comes_twice_at_the_seam_of_two_connections_is_shown_once() -> None:
    inbox = connected()
    inbox.put(1, letter(3), 10)
    inbox.put(2, letter(5), 10)
    inbox.connected(5)
    inbox.put(1, letter(5), 10)
    inbox.put(2, letter(6), 10)
    assert shown(inbox) == [3, 5, 6]


def test_a_hub_that_does_not_reach_so_far_has_it_begin_at_its_end() -> None:
    inbox = Inbox(99)
    assert inbox.connected(50)
    assert (inbox.position, inbox.received) == (50, 50)
    inbox.put(1, letter(51), 10)
    assert shown(inbox) == [51]
    assert not inbox.connected(51)


def test_what_came_from_a_hub_that_reached_further_is_shown_before_what_is_new() -> None:
    inbox = connected(97, 97)
    inbox.put(1, letter(98), 10)
    inbox.put(2, letter(99), 10)
    assert inbox.connected(50)
    inbox.put(3, letter(55), 10)
    assert [inbox.take(), inbox.take()] == [letter(98), letter(99)]
    assert inbox.take() == Fetch(after=50, before=55)
    inbox.filled(page(52))
    assert shown(inbox) == [52, 55]
    assert inbox.position == 55


def test_of_a_hub_that_was_set_back_nothing_is_fetched_that_it_is_going_to_push() -> None:
    inbox = connected(40, 40)
    inbox.put(3, letter(99), LIVE_UNREAD_BYTES_MAX)
    inbox.reading_on = True
    inbox.put(4, letter(100), 10)
    assert inbox.connected(50)
    inbox.put(1, letter(51), 10)
    assert inbox.take() == Fetch(after=40, before=51)
    inbox.filled(page(45))
    assert [inbox.take(), inbox.take()] == [letter(45), letter(99)]
    assert inbox.take() == Fetch(after=50, before=52), "it had no room"
    inbox.filled(page(51))
    assert shown(inbox) == [51]


def test_a_hub_that_was_set_back_while_a_gap_was_fetched_is_asked_up_to_its_end() -> None:
    inbox = connected(0, 0)
    inbox.put(90, letter(99), 10)
    assert inbox.take() == Fetch(0, 99)
    inbox.filled(page(1, following=1))
    assert inbox.connected(50)
    assert inbox.take() == letter(1)
    assert inbox.take() == Fetch(1, 51)
    inbox.filled(page(2))
    assert shown(inbox) == [2, 99]
    assert inbox.position == 50
    inbox.put(1, letter(51), 10)
    assert shown(inbox) == [51]


def test_the_first_message_of_a_connection_may_be_missing_too() -> None:
    inbox = connected(5, 5)
    inbox.put(2, letter(9), 10)
    assert inbox.take() == Fetch(5, 9)


def test_there_is_no_room_for_more_than_the_bounds() -> None:
    inbox = connected()
    room = []
    for counter in range(1, LIVE_UNREAD_MESSAGES_MAX + 1):
        room.append(inbox.has_room)
        inbox.put(counter, letter(counter), 1)
    assert all(room)
    full = (inbox.has_room, inbox.is_low)
    inbox.take()
    assert (full, inbox.has_room, inbox.is_low) == ((False, False), True, False)
    heavy = connected()
    heavy.put(1, letter(1), LIVE_UNREAD_BYTES_MAX)
    assert not heavy.has_room


def test_what_has_no_room_while_somebody_waits_for_an_answer_is_fetched_later() -> None:
    inbox = connected()
    inbox.put(1, letter(1), LIVE_UNREAD_BYTES_MAX)
    inbox.reading_on = True
    for counter in (2, 3, 4):
        inbox.put(counter, letter(counter), 10)
    assert inbox.received == 4
    assert inbox.take() == letter(1)
    assert inbox.take() == Fetch(after=1, before=5)
    inbox.filled(page(2, 3, 4))
    assert shown(inbox) == [2, 3, 4]


def test_what_comes_behind_messages_that_had_no_room_is_shown_behind_them() -> None:
    inbox = connected()
    inbox.put(1, letter(1), LIVE_UNREAD_BYTES_MAX)
    inbox.reading_on = True
    inbox.put(2, letter(2), 10)
    assert inbox.take() == letter(1)
    inbox.put(3, letter(3), 10)
    assert inbox.take() == Fetch(after=1, before=3)
    inbox.filled(page(2))
    assert shown(inbox) == [2, 3]


class Hub:
    """A hub that pushes, drops and loses connections by chance, in the order that a real one keeps."""

    def __init__(self, chance: random.Random, inbox: Inbox) -> None:
        self.numbers: list[int] = []
        self._chance = chance
        self._inbox = inbox
        self._counter = 0
        self._pushed = 0

    def publish(self) -> None:
        self.numbers.append((self.numbers[-1] if self.numbers else 0) + self._chance.randint(1, 3))

    def connect(self) -> None:
        self._counter, self._pushed = 0, self._inbox.received or 0
        self._inbox.connected(self._pushed)

    def push(self) -> None:
        for number in [number for number in self.numbers if number > self._pushed][: self._chance.randint(0, 4)]:
            self._counter, self._pushed = self._counter + 1, number
            last = number == self.numbers[-1]
            if (self._inbox.has_room or self._inbox.reading_on) and (last or self._chance.random() < 0.7):
                self._inbox.put(self._counter, letter(number), LIVE_UNREAD_BYTES_MAX // 5)

    def history(self, asked: Fetch) -> HistoryPage:
        inside = [number for number in self.numbers if asked.after < number < asked.before]
        return page(*inside[:2], following=inside[1] if len(inside) > 2 else None)


def take_some(hub: Hub, inbox: Inbox, most: int) -> Sequence[int]:
    numbers: list[int] = []
    for _ in range(most):
        found = inbox.take()
        if isinstance(found, Fetch):
            inbox.filled(hub.history(found))
        elif found is not None:
            numbers.append(found.data)
    return numbers


@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_dropped_and_cut_each_message_is_shown_once_and_in_order(seed: int) -> None:
    chance, inbox = random.Random(seed), Inbox(0)
    hub, got = Hub(chance, inbox), list[int]()
    hub.connect()
    for _ in range(300):
        match chance.randint(0, 5):
            case 0 | 1:
                hub.publish()
            case 2 | 3:
                hub.push()
            case 4:
                got += take_some(hub, inbox, chance.randint(1, 4))
            case _ if chance.random() < 0.3:
                hub.connect()
            case _:
                inbox.reading_on = not inbox.reading_on
    inbox.reading_on = False
    while got != hub.numbers:
        before = len(got)
        hub.connect()
        hub.push()
        got += take_some(hub, inbox, 1_000)
        assert got == hub.numbers[: len(got)]
        assert len(got) >= before
    assert got == sorted(set(got))
