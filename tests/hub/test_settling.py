"""What becomes of messages that are not simply collected, and what can be seen of them: history, lists, removal."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import pytest

from restante import errors
from restante.client.surface import Hub, Reason
from restante.model.message import State
from tests.hub.conftest import HubOpener
from tests.hub.engines import FakeClock
from tests.hub.letters import RETENTION_SECONDS, at, history, id_of, letter, letters, numbers_of, peeked, states, taken

PAST_RETENTION = RETENTION_SECONDS + 1
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


# Expiry.


def test_what_has_expired_is_no_longer_delivered(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1, expires_at=at(5)), letter(2), letter(3, expires_at=at(6)), letter(4)])
    clock.advance(5)
    assert numbers_of(peeked(hub).messages) == [2, 3, 4]
    assert history(hub)[0] == (1, State.EXPIRED)


def test_an_open_bundle_keeps_what_expires_in_it(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1, expires_at=at(5)), letter(2)])
    bundle = peeked(hub)
    clock.advance(6)
    assert hub.expire() == 0
    assert states(hub) == [State.WAITING, State.WAITING]
    assert numbers_of(peeked(hub).messages) == [1, 2]
    assert bundle.dequeue().messages == 2
    assert states(hub) == [State.COLLECTED, State.COLLECTED]


def test_expire_settles_what_nobody_peeks_and_counts_it_once(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(number, name, expires_at=at(5)) for number in range(3) for name in ("ada", "ben")])
    assert hub.expire() == 0
    clock.advance(5)
    assert states(hub) == [State.EXPIRED] * 3
    assert hub.expire() == 6
    assert hub.expire() == 0


def test_a_message_published_after_its_time_is_expired_at_once(hub: Hub, clock: FakeClock) -> None:
    clock.advance(10)
    assert hub.producer.send(letter(1, expires_at=at(5))).accepted == 1
    assert states(hub) == [State.EXPIRED]
    assert hub.recipient("ada").peek() is None


# Retention.


def settle(hub: Hub, clock: FakeClock, how: str) -> None:
    """Message 1, of which message 2 is the neighbour, is settled at second 5."""
    hub.producer.send([letter(1, expires_at=at(5)), letter(2)])
    if how == "collected":
        bundle = peeked(hub, max_messages=1)
        clock.advance(5)
        bundle.dequeue()
        return
    clock.advance(5 if how == "expired" else 4)
    if how == "withdrawn":
        hub.recipient("ada").withdraw(id_of(1))
        clock.advance(1)
    assert hub.expire() == (how == "expired")


SETTLED = ["collected", "expired", "withdrawn"]


@pytest.mark.parametrize("how", SETTLED)
def test_what_was_settled_goes_when_its_retention_has_passed(hub: Hub, clock: FakeClock, how: str) -> None:
    settle(hub, clock, how)
    clock.advance(RETENTION_SECONDS - 2)
    assert hub.retain() == 0
    clock.advance(4)
    assert len(history(hub)) == 2
    assert hub.retain() == 1
    assert history(hub) == [(2, State.WAITING)]
    assert hub.retain() == 0


@pytest.mark.parametrize("how", SETTLED)
def test_an_identity_goes_with_its_message(hub: Hub, clock: FakeClock, how: str) -> None:
    settle(hub, clock, how)
    clock.advance(PAST_RETENTION)
    assert hub.producer.send(letter(1)).duplicates == 1
    hub.retain()
    with pytest.raises(errors.MessageUnknown):
        hub.recipient("ada").find(id_of(1))
    assert hub.producer.send(letter(1, data=b"other")).accepted == 1
    assert history(hub) == [(2, State.WAITING), (1, State.WAITING)]


@pytest.mark.parametrize("how", SETTLED)
def test_what_went_stays_away_when_its_neighbours_are_collected(hub: Hub, clock: FakeClock, how: str) -> None:
    settle(hub, clock, how)
    clock.advance(PAST_RETENTION)
    hub.retain()
    assert taken(hub) == [2]
    assert history(hub) == [(2, State.COLLECTED)]


def test_a_bundle_goes_with_its_messages(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2], bundleable=False))
    peeked(hub, bundle_id=id_of(100)).dequeue()
    clock.advance(PAST_RETENTION)
    hub.retain()
    with pytest.raises(errors.BundleUnknown) as caught:
        hub.recipient("ada").dequeue(id_of(100))
    assert caught.value.details.get("dequeued_at") is None
    assert numbers_of(peeked(hub, bundle_id=id_of(100)).messages) == [2]


def test_what_waits_or_was_set_aside_stays(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2, 3]))
    hub.recipient("ada").set_aside(id_of(2))
    peeked(hub, max_messages=1)
    clock.advance(PAST_RETENTION)
    assert hub.retain() == 0
    assert states(hub) == [State.WAITING, State.SET_ASIDE, State.WAITING]


def test_a_recipient_whose_messages_all_went_is_unknown(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letter(1))
    taken(hub)
    assert hub.recipient("ada").explain().reason is Reason.NOTHING_WAITING
    clock.advance(PAST_RETENTION)
    hub.retain()
    assert hub.recipient("ada").explain().reason is Reason.RECIPIENT_UNKNOWN


def test_what_was_settled_out_of_turn_goes_by_its_own_time(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2, 3]))
    hub.recipient("ada").withdraw(id_of(2))
    clock.advance(60)
    assert taken(hub) == [1, 3]
    clock.advance(60)
    assert hub.retain() == 1
    assert history(hub) == [(1, State.COLLECTED), (3, State.COLLECTED)]


# Withdraw, set aside, release.


def test_a_withdrawn_message_is_not_delivered(hub: Hub) -> None:
    hub.producer.send(letters([1, 2, 3]))
    hub.recipient("ada").withdraw(id_of(2))
    hub.recipient("ada").withdraw(id_of(2))
    assert taken(hub) == [1, 3]
    assert states(hub) == [State.COLLECTED, State.WITHDRAWN, State.COLLECTED]


def test_a_message_set_aside_is_kept_and_not_delivered(hub: Hub) -> None:
    hub.producer.send(letters([1, 2, 3]))
    hub.recipient("ada").set_aside(id_of(2))
    hub.recipient("ada").set_aside(id_of(2))
    assert taken(hub) == [1, 3]
    assert states(hub) == [State.COLLECTED, State.SET_ASIDE, State.COLLECTED]


def test_a_released_message_goes_back_into_its_place(hub: Hub) -> None:
    hub.producer.send(letters([1, 2, 3]))
    before = hub.recipient("ada").history().messages
    hub.recipient("ada").set_aside(id_of(2))
    hub.recipient("ada").release(id_of(2))
    hub.recipient("ada").release(id_of(2))
    assert hub.recipient("ada").history().messages == before
    assert taken(hub) == [1, 2, 3]


def test_a_message_released_behind_the_head_goes_to_the_end_with_a_new_number(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2, 3, 4]))
    ada = hub.recipient("ada")
    ada.set_aside(id_of(1))
    assert taken(hub, max_messages=2) == [2, 3]
    clock.advance(5)
    ada.release(id_of(1))
    messages = ada.history().messages
    assert numbers_of(messages) == [2, 3, 4, 1]
    assert all((one.sequence_number or 0) < (other.sequence_number or 0) for one, other in pairwise(messages))
    assert ada.find(id_of(1)) == messages[-1]
    assert messages[-1].published_at == at(0)
    assert taken(hub) == [4, 1]


def test_a_message_released_behind_an_open_bundle_goes_to_the_end(hub: Hub) -> None:
    hub.producer.send(letters([1, 2, 3, 4]))
    ada = hub.recipient("ada")
    ada.set_aside(id_of(2))
    bundle = peeked(hub, max_messages=2)
    assert numbers_of(bundle.messages) == [1, 3]
    ada.release(id_of(2))
    assert numbers_of(peeked(hub).messages) == [1, 3]
    bundle.dequeue()
    assert taken(hub) == [4, 2]


def test_a_message_beyond_an_open_bundle_goes_back_into_its_place(hub: Hub) -> None:
    hub.producer.send(letters([1, 2, 3]))
    bundle = peeked(hub, max_messages=1)
    hub.recipient("ada").set_aside(id_of(2))
    hub.recipient("ada").release(id_of(2))
    bundle.dequeue()
    assert taken(hub) == [2, 3]


def test_a_message_set_aside_may_be_withdrawn(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    hub.recipient("ada").set_aside(id_of(1))
    hub.recipient("ada").withdraw(id_of(1))
    assert states(hub) == [State.WITHDRAWN, State.WAITING]


def test_a_message_released_after_its_time_is_expired(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letter(1, expires_at=at(5)))
    hub.recipient("ada").set_aside(id_of(1))
    clock.advance(6)
    assert (hub.expire(), states(hub)) == (0, [State.SET_ASIDE])
    hub.recipient("ada").release(id_of(1))
    assert states(hub) == [State.EXPIRED]
    assert hub.expire() == 1
    clock.advance(PAST_RETENTION)
    assert hub.retain() == 1


VERBS = ["withdraw", "set_aside", "release"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_collected_message_is_out_of_reach(hub: Hub, verb: str) -> None:
    hub.producer.send(letter(1))
    taken(hub)
    with pytest.raises(errors.MessageCollected):
        getattr(hub.recipient("ada"), verb)(id_of(1))


@pytest.mark.parametrize("verb", ["withdraw", "set_aside"])
def test_a_message_in_an_open_bundle_is_out_of_reach(hub: Hub, verb: str) -> None:
    hub.producer.send(letter(1))
    bundle = peeked(hub)
    with pytest.raises(errors.BundleOpen) as caught:
        getattr(hub.recipient("ada"), verb)(id_of(1))
    assert caught.value.details["bundle_id"] == bundle.bundle_id


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_message_is_unknown(hub: Hub, verb: str) -> None:
    hub.producer.send(letter(1, "dora"))
    with pytest.raises(errors.MessageUnknown):
        getattr(hub.recipient("ada"), verb)(id_of(1))
    with pytest.raises(errors.InvalidRequest):
        getattr(hub.recipient("ada"), verb)("seventeen")


@pytest.mark.parametrize("verb", ["set_aside", "release"])
def test_what_no_longer_waits_cannot_be_set_aside_or_released(hub: Hub, clock: FakeClock, verb: str) -> None:
    hub.producer.send([letter(1), letter(2, expires_at=at(5))])
    hub.recipient("ada").withdraw(id_of(1))
    clock.advance(6)
    for number in (1, 2):
        with pytest.raises(errors.MessageUnknown):
            getattr(hub.recipient("ada"), verb)(id_of(number))


def test_withdrawing_what_has_expired_changes_nothing(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letter(1, expires_at=at(5)))
    clock.advance(6)
    hub.recipient("ada").withdraw(id_of(1))
    assert states(hub) == [State.EXPIRED]


# Purge and erase.


def furnish(hub: Hub, clock: FakeClock) -> None:
    """One collected, one in an open bundle, one expired, one set aside, three that wait."""
    hub.producer.send([letter(1), letter(2), letter(3, expires_at=at(5)), letter(4)])
    taken(hub, max_messages=1)
    peeked(hub, max_messages=1)
    hub.recipient("ada").set_aside(id_of(4))
    clock.advance(6)
    hub.producer.send([letter(5), letter(6, kind="b"), letter(7, origin="series")])


def test_a_purge_withdraws_what_waits_or_is_set_aside(hub: Hub, clock: FakeClock) -> None:
    furnish(hub, clock)
    assert hub.recipient("ada").purge(dry_run=True) == 4
    assert states(hub).count(State.WITHDRAWN) == 0
    assert hub.recipient("ada").purge() == 4
    collected, held, expired, *purged = states(hub)
    assert (collected, held, expired) == (State.COLLECTED, State.WAITING, State.EXPIRED)
    assert purged == [State.WITHDRAWN] * 4
    assert hub.recipient("ada").purge() == 0


def test_a_purge_may_be_of_one_origin_one_kind_or_before_a_time(hub: Hub, clock: FakeClock) -> None:
    furnish(hub, clock)
    ada = hub.recipient("ada")
    assert ada.purge(origin="series", dry_run=True) == 1
    assert ada.purge(kind="b", dry_run=True) == 1
    assert ada.purge(origin="series", kind="b", dry_run=True) == 0
    assert ada.purge(before=at(6)) == 1
    assert [number for number, state in history(hub) if state is State.WITHDRAWN] == [4]


def test_erasing_leaves_nothing(hub: Hub, clock: FakeClock) -> None:
    furnish(hub, clock)
    hub.producer.send(letter(1, "dora"))
    ada = hub.recipient("ada")
    bundle_id = peeked(hub).bundle_id
    assert ada.erase(dry_run=True) == 7
    assert len(history(hub)) == 7
    assert ada.erase() == 7
    assert history(hub) == []
    assert (ada.explain().reason, ada.explain().open_bundles) == (Reason.RECIPIENT_UNKNOWN, ())
    assert ada.peek() is None
    with pytest.raises(errors.BundleUnknown):
        ada.dequeue(bundle_id)
    with pytest.raises(errors.MessageErased):
        ada.find(id_of(1))
    assert history(hub, "dora") == [(1, State.WAITING)]
    assert ada.erase() == 0


def test_an_erased_id_cannot_be_published_again_until_its_retention_has_passed(
    open_hub: HubOpener, clock: FakeClock
) -> None:
    hub = open_hub()
    hub.producer.send(letters([1, 2]))
    hub.recipient("ada").erase()
    for _ in range(2):
        with pytest.raises(errors.MessageErased) as caught:
            hub.producer.send([letter(3), letter(1)])
        assert [fault.id for fault in caught.value.faults] == [id_of(1)]
        hub = open_hub()
    assert history(hub) == []
    clock.advance(PAST_RETENTION)
    hub.retain()
    assert hub.producer.send(letters([3, 1])).accepted == 2


def test_a_recipient_may_receive_new_messages_after_erasure(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    peeked(hub)
    hub.recipient("ada").erase()
    hub.producer.send(letters([3, 4]))
    assert taken(hub) == [3, 4]


def test_erased_data_stays_away_after_filing_and_reopening(open_hub: HubOpener) -> None:
    hub = open_hub()
    for number in range(10):
        hub.producer.send([letter(number, "ada"), letter(number, "dora")])
    hub.recipient("ada").erase()
    hub.file()
    hub = open_hub()
    assert history(hub) == []
    assert len(history(hub, "dora")) == 10
