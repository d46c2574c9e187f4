"""What becomes of messages that are not simply collected: expiry, retention, withdrawal, setting aside, erasure."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from restante import errors
from restante.client.surface.surface import Hub, Reason
from restante.model.publishing.message import State
from tests.hub.conftest import HubOpener
from tests.hub.engines import FakeClock
from tests.hub.letters import RETENTION_SECONDS, at, history, id_of, letter, letters, numbers_of, peeked, states, taken

PAST_RETENTION = RETENTION_SECONDS + 1
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


@pytest.mark.parametrize("verb", VERBS)
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
    with pytest.raises(errors.MessageUnknown):
        getattr(hub.recipient("ada"), verb)("seventeen")
    with pytest.raises(errors.InvalidRequest):
        getattr(hub.recipient("ada"), verb)("an end of line\n")


@pytest.mark.parametrize("verb", ["set_aside", "release"])
def test_what_no_longer_waits_cannot_be_set_aside_or_released(hub: Hub, clock: FakeClock, verb: str) -> None:
    hub.producer.send([letter(1), letter(2, expires_at=at(5))])
    hub.recipient("ada").withdraw(id_of(1))
    clock.advance(6)
    for number in (1, 2):
        with pytest.raises(errors.MessageSettled):
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
    assert hub.recipient("ada").purge(all=True) == 4
    collected, held, expired, *purged = states(hub)
    assert (collected, held, expired) == (State.COLLECTED, State.WAITING, State.EXPIRED)
    assert purged == [State.WITHDRAWN] * 4
    assert hub.recipient("ada").purge(all=True) == 0


def test_a_purge_may_be_of_one_origin_one_kind_or_before_a_time(hub: Hub, clock: FakeClock) -> None:
    furnish(hub, clock)
    ada = hub.recipient("ada")
    assert ada.purge(origin="series", dry_run=True) == 1
    assert ada.purge(kind="b", dry_run=True) == 1
    assert ada.purge(origin="series", kind="b", dry_run=True) == 0
    assert ada.purge(before=at(6)) == 1
    assert [number for number, state in history(hub) if state is State.WITHDRAWN] == [4]


def test_a_purge_without_a_filter_must_say_that_it_is_of_all(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    ada = hub.recipient("ada")
    wrong: list[dict[str, Any]] = [
        {},
        {"all": True, "kind": "default"},
        {"all": True, "dry_run": True, "before": at(5)},
    ]
    for options in wrong:
        with pytest.raises(errors.InvalidRequest):
            ada.purge(**options)
    assert states(hub) == [State.WAITING, State.WAITING]
    assert ada.purge(dry_run=True) == ada.purge(all=True, dry_run=True) == ada.purge(all=True) == 2


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
