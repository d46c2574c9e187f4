"""What is easy to get wrong: rules that meet filing, reopening, expiry, retention and regrouping."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from restante import errors
from restante.client.surface.surface import Hub, Reason, Receipt
from restante.model.publishing.message import Message, State
from tests.cluster.several import SeveralHub
from tests.hub.conftest import HubOpener
from tests.hub.engines import FakeClock, WireHub
from tests.hub.letters import (
    ALONE,
    RETENTION_SECONDS,
    SETTINGS,
    STRICT,
    at,
    history,
    id_of,
    letter,
    letters,
    numbers_of,
    peeked,
    states,
    taken,
)

MAILBAGS = 40
PAST_RETENTION = RETENTION_SECONDS + 1
SECONDS = 60.0
PUBLISHERS = 64


def fill(hub: Hub, start: int = 0, count: int = MAILBAGS) -> None:
    """So many mailbags of two cabinets, a message each."""
    for number in range(start, start + count):
        hub.producer.send([letter(2 * number, kind="a"), letter(2 * number + 1, kind="b")])


def evens(start: int, end: int) -> list[int]:
    return list(range(2 * start, 2 * end, 2))


# Filing in between.


def test_filing_between_peek_and_dequeue_changes_nothing(hub: Hub) -> None:
    fill(hub)
    first = peeked(hub)
    hub.file()
    assert numbers_of(first.messages) == numbers_of(peeked(hub).messages) == evens(0, MAILBAGS)
    first.dequeue()
    hub.file()
    assert taken(hub) == [number + 1 for number in evens(0, MAILBAGS)]


def test_filing_and_mail_between_peeks_lose_no_order(hub: Hub) -> None:
    fill(hub)
    got = taken(hub, max_messages=7)
    for turn in range(1, 5):
        hub.file()
        fill(hub, start=turn * MAILBAGS)
        got += taken(hub, origins=["default"], max_messages=7) if turn % 2 else taken(hub, max_messages=50)
    assert sorted(got) == sorted(set(got))
    kinds = [[number for number in got if number % 2 == parity] for parity in (0, 1)]
    assert [sorted(kind) for kind in kinds] == kinds


def test_filing_keeps_what_was_settled_out_of_turn(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1), letter(2, expires_at=at(5)), letter(3)])
    hub.producer.send([letter(4), letter(5), letter(6)])
    hub.recipient("ada").withdraw(id_of(4))
    hub.recipient("ada").set_aside(id_of(5))
    clock.advance(6)
    before = history(hub)
    hub.file()
    assert history(hub) == before
    assert taken(hub) == [1, 3, 6]


def test_a_bundle_over_shelves_and_mailbags_is_dequeued_once_and_for_ever(open_hub: HubOpener) -> None:
    hub = open_hub()
    fill(hub)
    hub.file()
    fill(hub, start=MAILBAGS)
    bundle = peeked(hub)
    assert numbers_of(bundle.messages) == evens(0, 2 * MAILBAGS)
    hub = open_hub()
    assert numbers_of(peeked(hub).messages) == evens(0, 2 * MAILBAGS)
    assert hub.recipient("ada").dequeue(bundle.bundle_id).messages == 2 * MAILBAGS
    hub = open_hub()
    assert hub.recipient("ada").find(id_of(0)).state is State.COLLECTED
    assert taken(hub)[0] == 1
    with pytest.raises(errors.BundleUnknown):
        hub.recipient("ada").dequeue(bundle.bundle_id)


def test_a_release_to_the_end_survives_filing_and_reopening(open_hub: HubOpener) -> None:
    hub = open_hub()
    hub.producer.send(letters([1, 2, 3]))
    hub.recipient("ada").set_aside(id_of(1))
    assert taken(hub, max_messages=1) == [2]
    hub.recipient("ada").release(id_of(1))
    hub.producer.send(letter(4))
    hub.file()
    hub = open_hub()
    assert numbers_of(hub.recipient("ada").history().messages) == [2, 3, 1, 4]
    assert hub.producer.send(letters([1, 2, 3, 4])).duplicates == 4
    assert taken(hub) == [3, 1, 4]


# Expiry.


def test_expiry_in_the_middle_of_a_cabinet(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(number, expires_at=at(5) if 3 <= number < 6 else None) for number in range(9)])
    clock.advance(6)
    assert taken(hub, max_messages=4) == [0, 1, 2, 6]
    assert hub.expire() == 0
    assert taken(hub) == [7, 8]
    assert states(hub)[3:6] == [State.EXPIRED] * 3


def test_expiry_of_the_rest_of_a_cabinet_leaves_nothing_waiting(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1), letter(2, expires_at=at(5)), letter(3, expires_at=at(5))])
    assert taken(hub, max_messages=1) == [1]
    clock.advance(6)
    assert hub.recipient("ada").peek() is None
    assert hub.recipient("ada").explain().reason is Reason.NOTHING_WAITING


def test_expiry_in_an_open_bundle_is_undone_by_nothing_and_collected_at_last(
    open_hub: HubOpener, clock: FakeClock
) -> None:
    hub = open_hub()
    hub.producer.send([letter(1), letter(2, expires_at=at(5)), letter(3, expires_at=at(5))])
    bundle = peeked(hub, max_messages=2)
    clock.advance(6)
    assert hub.expire() == 1
    hub.file()
    hub = open_hub()
    assert states(hub) == [State.WAITING, State.WAITING, State.EXPIRED]
    assert numbers_of(peeked(hub).messages) == [1, 2]
    assert hub.recipient("ada").dequeue(bundle.bundle_id).messages == 2
    assert states(hub) == [State.COLLECTED, State.COLLECTED, State.EXPIRED]


def test_expiry_of_a_mailbox_nobody_peeks_ends_with_its_retention(open_hub: HubOpener, clock: FakeClock) -> None:
    hub = open_hub()
    for number in range(MAILBAGS):
        hub.producer.send(letter(number, "nobody", expires_at=at(5)))
    hub.file()
    hub = open_hub()
    clock.advance(6)
    assert hub.expire() == MAILBAGS
    clock.advance(PAST_RETENTION)
    assert hub.retain() == MAILBAGS
    assert hub.recipient("nobody").explain().reason is Reason.RECIPIENT_UNKNOWN


def test_what_expired_unsettled_is_still_to_be_settled_after_reopening(open_hub: HubOpener, clock: FakeClock) -> None:
    hub = open_hub()
    hub.producer.send([letter(1, expires_at=at(5)), letter(2)])
    clock.advance(6)
    hub = open_hub()
    assert states(hub) == [State.EXPIRED, State.WAITING]
    assert hub.expire() == 1


# Many publishes in one commit.


def at_once(acts: list[Callable[[], Receipt]]) -> list[Receipt | errors.RestanteError]:
    """All of them released together; what became of each."""
    together = Barrier(len(acts))

    def run(act: Callable[[], Receipt]) -> Receipt | errors.RestanteError:
        together.wait(SECONDS)
        try:
            return act()
        except errors.RestanteError as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return [each.result(SECONDS) for each in [pool.submit(run, act) for act in acts]]


def sender(hub: Hub, messages: list[Message]) -> Callable[[], Receipt]:
    return lambda: hub.producer.send(messages)


def _of_the_same_shard(hub: Hub) -> str:
    """Another recipient than ada, whose messages are stored with hers or not at all: with several shards, one of her shard."""
    if not (isinstance(hub, WireHub) and isinstance(hub.running, SeveralHub)):
        return "ben"
    own = hub.partition_of("ada")
    return next(name for number in range(1_000) if hub.partition_of(name := f"ben {number}") == own)


def test_of_conflicting_publishes_at_once_exactly_one_is_stored(hub: Hub) -> None:
    """Publisher n sends its own message and, with seven others, one of eight that are in conflict."""
    shared, other = PUBLISHERS // 8, _of_the_same_shard(hub)
    sends = [
        [letter(1_000 + n), letter(n % shared, data=f"by {n}".encode()), letter(2_000 + n, other)]
        for n in range(PUBLISHERS)
    ]
    outcomes = at_once([sender(hub, messages) for messages in sends])
    accepted = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Receipt)]
    refused = [outcome for outcome in outcomes if not isinstance(outcome, Receipt)]
    assert sorted(n % shared for n in accepted) == list(range(shared))
    assert all(isinstance(outcome, errors.MessageConflict) for outcome in refused)
    stored = {number for number, _ in history(hub)}
    assert stored == {*range(shared), *(1_000 + n for n in accepted)}
    assert {number for number, _ in history(hub, other)} == {2_000 + n for n in accepted}
    assert {hub.recipient("ada").find(id_of(n % shared)).data for n in accepted} == {
        f"by {n}".encode() for n in accepted
    }


def test_of_equal_publishes_at_once_one_is_stored_and_the_others_are_duplicates(hub: Hub) -> None:
    outcomes = at_once([sender(hub, letters([1, 2, 3])) for _ in range(PUBLISHERS)])
    receipts = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    assert len(receipts) == PUBLISHERS
    assert sum(receipt.accepted for receipt in receipts) == 3
    assert sum(receipt.duplicates for receipt in receipts) == 3 * (PUBLISHERS - 1)
    assert history(hub) == [(number, State.WAITING) for number in (1, 2, 3)]


def test_publishes_at_once_have_their_own_contiguous_numbers(hub: Hub) -> None:
    outcomes = at_once([sender(hub, letters(range(5 * n, 5 * n + 5))) for n in range(PUBLISHERS)])
    messages = hub.recipient("ada").history(limit=1_000).messages
    number_of = {
        message.sequence_number: number for message, number in zip(messages, numbers_of(messages), strict=True)
    }
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, Receipt)
        (own,) = outcome.partitions
        numbers = range(own.first_sequence_number, own.last_sequence_number + 1)
        assert [number_of[number] for number in numbers] == list(range(5 * n, 5 * n + 5))


def test_a_bad_publish_among_many_at_once_spoils_no_other(hub: Hub) -> None:
    sends = [[letter(n), *([letter(500, weight=0)] if n % 4 == 0 else [])] for n in range(PUBLISHERS)]
    outcomes = at_once([sender(hub, messages) for messages in sends])
    refused = {n for n, outcome in enumerate(outcomes) if isinstance(outcome, errors.InvalidMessage)}
    assert refused == set(range(0, PUBLISHERS, 4))
    assert {number for number, _ in history(hub)} == set(range(PUBLISHERS)) - refused


# Retention.


def test_a_retention_that_ends_while_a_bundle_is_open(open_hub: HubOpener, clock: FakeClock) -> None:
    hub = open_hub()
    hub.producer.send([letter(1), letter(2, expires_at=at(5)), letter(3), letter(4)])
    taken(hub, max_messages=1)
    clock.advance(6)
    bundle = peeked(hub, max_messages=1)
    clock.advance(PAST_RETENTION)
    assert hub.retain() == 2
    hub.file()
    hub = open_hub()
    assert history(hub) == [(3, State.WAITING), (4, State.WAITING)]
    assert numbers_of(peeked(hub).messages) == [3]
    hub.recipient("ada").dequeue(bundle.bundle_id)
    assert history(hub) == [(3, State.COLLECTED), (4, State.WAITING)]
    assert taken(hub) == [4]
    clock.advance(PAST_RETENTION)
    assert hub.retain() == 2
    assert history(hub) == []


def test_retention_does_not_reach_messages_that_lie_before_what_goes(hub: Hub, clock: FakeClock) -> None:
    """Set aside before the head, and withdrawn only later: each goes by its own time."""
    hub.producer.send(letters([1, 2, 3]))
    hub.recipient("ada").set_aside(id_of(1))
    hub.recipient("ada").set_aside(id_of(2))
    assert taken(hub) == [3]
    clock.advance(60)
    hub.recipient("ada").withdraw(id_of(1))
    clock.advance(60)
    assert hub.retain() == 1
    assert history(hub) == [(1, State.WITHDRAWN), (2, State.SET_ASIDE)]
    clock.advance(60)
    assert hub.retain() == 1
    assert history(hub) == [(2, State.SET_ASIDE)]
    hub.recipient("ada").release(id_of(2))
    assert taken(hub) == [2]


def test_an_id_used_again_after_retention_is_a_new_message(open_hub: HubOpener, clock: FakeClock) -> None:
    hub = open_hub()
    hub.producer.send(letters([1, 2], bundleable=False))
    taken(hub)
    clock.advance(PAST_RETENTION)
    hub.retain()
    hub.producer.send(letter(1, data=b"again"))
    hub.file()
    hub = open_hub()
    assert history(hub) == [(2, State.WAITING), (1, State.WAITING)]
    assert hub.recipient("ada").find(id_of(1)).data == b"again"
    with pytest.raises(errors.MessageConflict):
        hub.producer.send(letter(1))
    assert hub.producer.send(letter(1, data=b"again")).duplicates == 1


# Regrouping.


def test_regrouping_with_open_bundles_puts_no_message_in_two(open_hub: HubOpener) -> None:
    hub = open_hub(settings=ALONE)
    hub.producer.send([letter(1, origin="points"), letter(2, origin="charges"), letter(3, origin="points")])
    first = peeked(hub, origins=["points"], max_messages=1)
    second = peeked(hub, origins=["charges"])
    hub = open_hub(settings=SETTINGS)
    assert peeked(hub).bundle_id == first.bundle_id
    assert peeked(hub, origins=["charges"]).bundle_id == second.bundle_id
    groups = {bundle.origin_group for bundle in hub.recipient("ada").explain().open_bundles}
    assert groups == {"master"}
    hub.recipient("ada").dequeue(first.bundle_id)
    assert hub.recipient("ada").peek(origins=["points"]) is None
    assert hub.recipient("ada").explain(origins=["points"]).reason is Reason.BUNDLE_OPEN_IN_GROUP
    hub.recipient("ada").dequeue(second.bundle_id)
    assert taken(hub) == [3]


def test_ungrouping_with_an_open_bundle_frees_the_others(open_hub: HubOpener) -> None:
    hub = open_hub(settings=SETTINGS)
    hub.producer.send([letter(1, origin="points"), letter(2, origin="charges"), letter(3, origin="points")])
    held = peeked(hub, max_messages=1)
    hub = open_hub(settings=ALONE)
    assert numbers_of(peeked(hub, origins=["charges"]).messages) == [2]
    assert peeked(hub, origins=["points"]).bundle_id == held.bundle_id


def test_an_open_bundle_does_not_change_when_order_becomes_strict(open_hub: HubOpener) -> None:
    hub = open_hub(settings=SETTINGS)
    hub.producer.send([letter(1, origin="points"), letter(2, origin="charges"), letter(3, origin="points")])
    bundle = peeked(hub)
    assert numbers_of(bundle.messages) == [1, 3]
    hub = open_hub(settings=STRICT)
    assert numbers_of(peeked(hub).messages) == [1, 3]
    assert hub.recipient("ada").dequeue(bundle.bundle_id).messages == 2
    assert taken(hub) == [2]


# The same publish again.


@pytest.mark.parametrize("between", ["nothing", "filing", "reopening", "filing and reopening"])
def test_the_same_publish_again_is_all_duplicates(open_hub: HubOpener, between: str) -> None:
    hub = open_hub()
    parcels = [
        [letter(10 * n + at_, name, kind="ab"[at_ % 2]) for at_ in range(10) for name in ("ada", "ben")]
        for n in range(12)
    ]
    for parcel in parcels:
        hub.producer.send(parcel)
    if "filing" in between:
        hub.file()
    if "reopening" in between:
        hub = open_hub()
    before = [history(hub, name) for name in ("ada", "ben")]
    receipts = [hub.producer.send(parcel) for parcel in [*parcels, parcels[0] + parcels[-1]]]
    assert [(receipt.accepted, receipt.partitions) for receipt in receipts] == [(0, ())] * len(receipts)
    assert [history(hub, name) for name in ("ada", "ben")] == before


@pytest.mark.parametrize("settled", ["collected", "withdrawn", "moved to the end"])
def test_the_same_publish_again_brings_back_nothing_that_was_settled(open_hub: HubOpener, settled: str) -> None:
    hub = open_hub()
    hub.producer.send(letters([1, 2]))
    if settled == "withdrawn":
        hub.recipient("ada").withdraw(id_of(1))
    else:
        hub.recipient("ada").set_aside(id_of(1 if settled == "moved to the end" else 2))
        taken(hub)
    if settled == "moved to the end":
        hub.recipient("ada").release(id_of(1))
    hub.file()
    hub = open_hub()
    before = hub.recipient("ada").history().messages
    assert hub.producer.send(letters([1, 2])).duplicates == 2
    assert hub.recipient("ada").history().messages == before
