"""How a producer numbers what it publishes, and what it does when no answer comes."""

from __future__ import annotations

import pytest

from restante import errors
from restante.calls.producers import OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.client.producers.lane import Lane
from restante.client.producers.numbered_sends import Prepare, describing, send, send_plainly, send_sent
from restante.client.publishing.parcel import Parcel
from restante.client.transport.exchange import Pause
from restante.client.transport.options import Retrying
from restante.limits import PUBLISHED_SEQUENCE_MAX, UNRESOLVED_PARCELS_MAX
from restante.model.producers.producer import ProducerNumbers, ProducerRow
from restante.model.publishing.message import Message
from tests.client.counter import GROUP, PARTITION, Counter, Trip, lane_of, parcel_of

PATIENT = Retrying(times=3, seconds=60, first_pause=1.0, longest_pause=3.0)


def numbers_of(parcel: Parcel) -> list[int | None]:
    return [message.published_sequence_number for message in parcel.messages]


def unknown(trip: Trip, lane: Lane, *data: object, fate: str) -> Parcel:
    """A parcel whose sender was left without an answer."""
    parcel = parcel_of(*data)
    trip.fates = [*(["fine"] if not lane.agreed and not lane.unresolved else []), fate]
    with pytest.raises(errors.OutcomeUnknown) as raised:
        trip.send(lane, parcel)
    told: object = raised.value.__dict__["parcel"]
    assert told is parcel
    return parcel


def test_the_first_send_links_with_what_the_configuration_says() -> None:
    trip, lane = Trip(Counter(ProducerRow(4, 9, 0))), lane_of(GROUP, 5, 20)
    parcel = parcel_of("a", "b")
    trip.send(lane, parcel)
    assert trip.steps[0] == OpenLink(PARTITION, GROUP, 5, 20)
    assert trip.numbers == [21]
    assert numbers_of(parcel) == [21, 22]
    assert parcel.starting_published_sequence_number == 21


def test_a_lane_without_configuration_takes_what_the_hub_says() -> None:
    trip, lane = Trip(), lane_of(None, None)
    trip.send(lane, parcel_of("a"))
    assert lane.configuration == PartitionPublishingConfiguration(GROUP, 0, 0)


def test_numbers_follow_one_another_and_one_link_is_enough() -> None:
    trip, lane = Trip(), lane_of()
    for count in (1, 3, 2):
        trip.send(lane, parcel_of(*range(count)))
    assert trip.numbers == [0, 1, 4]
    assert trip.kinds == [OpenLink, Publish, Publish, Publish]
    assert lane.configuration.starting_sequence_number == 5


def test_after_the_largest_number_comes_0_within_a_parcel_too() -> None:
    last = PUBLISHED_SEQUENCE_MAX - 1
    trip, lane = Trip(Counter(ProducerRow(0, last, 0))), lane_of()
    parcel = parcel_of("a", "b", "c")
    trip.send(lane, parcel)
    assert numbers_of(parcel) == [PUBLISHED_SEQUENCE_MAX, 0, 1]
    trip.send(lane, parcel_of("d"))
    assert trip.numbers == [PUBLISHED_SEQUENCE_MAX, 2]


def test_a_refused_link_is_told_and_nothing_is_sent() -> None:
    trip, lane = Trip(Counter(ProducerRow(0, 9, 0))), lane_of(GROUP, 0, 5)
    parcel = parcel_of("a")
    with pytest.raises(errors.LinkRefused) as raised:
        trip.send(lane, parcel)
    assert raised.value.details["expected"] == 9
    assert trip.kinds == [OpenLink]
    assert not parcel.locked


def test_retries_keep_the_numbers_and_take_longer_each_time() -> None:
    trip, lane = Trip(retrying=PATIENT), lane_of()
    trip.fates = ["fine", "lost", "unreached", "silent"]
    receipt = trip.send(lane, parcel_of("a"))
    assert receipt.replayed
    assert trip.numbers == [0, 0, 0, 0]
    assert trip.pauses == [1.0, 2.0, 3.0]
    assert trip.counter.stored == ["a"]


def test_a_parcel_is_prepared_once_for_all_attempts() -> None:
    trip, lane = Trip(retrying=PATIENT), lane_of()
    trip.fates = ["fine", "lost", "lost"]
    trip.send(lane, parcel_of("a"))
    assert sum(isinstance(step, Prepare) for step in trip.steps) == 1
    prepared = [step.sent for step in trip.steps if isinstance(step, Publish)]
    assert len(prepared) == 3
    assert all(each is prepared[0] for each in prepared)


def test_the_hub_may_name_a_longer_pause() -> None:
    lane, patience = lane_of(), Trip(retrying=PATIENT).patience
    dialogue = send(lane, parcel_of("a"), patience)
    assert isinstance(next(dialogue), OpenLink)
    assert dialogue.send(errors.Overloaded("Full.", retry_after=7)) == Pause(7.0)


def test_no_attempt_begins_after_the_total_time() -> None:
    trip, lane = Trip(retrying=Retrying(times=9, seconds=4, first_pause=1, longest_pause=9)), lane_of()
    trip.fates = ["fine", *["unreached"] * 9]
    with pytest.raises(errors.Unavailable):
        trip.send(lane, parcel_of("a"))
    assert trip.pauses == [1.0, 2.0]


@pytest.mark.parametrize("kind", [errors.InvalidMessage, errors.MessageConflict, errors.Forbidden])
def test_a_refusal_is_not_retried_and_frees_the_numbers(kind: type[errors.RestanteError]) -> None:
    trip, lane = Trip(retrying=PATIENT), lane_of()
    parcel = parcel_of("a")

    def refuse() -> None:
        raise kind("No.")

    trip.before = {1: refuse}
    with pytest.raises(kind):
        trip.send(lane, parcel)
    assert (parcel.locked, parcel.numbers, trip.numbers) == (False, None, [0])
    assert parcel.messages[0].id is not None
    assert trip.send(lane, parcel).accepted == 1
    assert trip.numbers == [0, 0]


def test_a_parcel_that_cannot_be_reached_frees_its_numbers() -> None:
    trip, lane = Trip(), lane_of()
    parcel = parcel_of("a")
    trip.fates = ["fine", "unreached"]
    with pytest.raises(errors.Unavailable) as raised:
        trip.send(lane, parcel)
    assert not isinstance(raised.value, errors.OutcomeUnknown)
    assert not parcel.locked
    assert lane.unresolved == []


def test_numbers_that_the_hub_does_not_expect_are_not_retried() -> None:
    trip, lane = Trip(retrying=PATIENT), lane_of()
    trip.send(lane, parcel_of("a"))
    trip.counter.row = ProducerRow(0, 40, 0)
    with pytest.raises(errors.InvalidClientState) as raised:
        trip.send(lane, parcel_of("b"))
    assert raised.value.details["expected"] == 41
    assert trip.pauses == []
    assert trip.kinds == [OpenLink, Publish, Publish]


def test_after_a_refusal_of_its_numbers_a_producer_asks_the_hub_and_goes_on_from_there() -> None:
    trip, lane = Trip(), lane_of()
    trip.send(lane, parcel_of("a"))
    trip.counter.row = ProducerRow(0, 40, 0)
    refused = parcel_of("b")
    with pytest.raises(errors.InvalidClientState):
        trip.send(lane, refused)
    trip.send(lane, refused)
    assert trip.numbers == [0, 1, 41]
    assert trip.counter.stored == ["a", "b"]


def test_what_was_sent_after_the_state_was_saved_is_known_when_it_is_sent_again() -> None:
    """The program came back with an older number, and does again what it did: also with messages made anew."""
    trip, lane = Trip(), lane_of()
    trip.send(lane, parcel_of("a"))
    saved = lane.configuration
    trip.send(lane, parcel_of("b", "c"))
    back = Lane(PARTITION, saved)
    again = trip.send(back, parcel_of("b", "c"))
    assert again.replayed
    trip.send(back, parcel_of("d"))
    assert trip.counter.stored == ["a", "b", "c", "d"]


def test_two_messages_that_say_the_same_are_two() -> None:
    """Of two producers of a group and level; and of a late attempt and the next send."""
    trip, first, second = Trip(), lane_of(), lane_of()
    trip.send(first, parcel_of("start"))
    trip.send(second, parcel_of("tick"))
    with pytest.raises(errors.InvalidClientState):
        trip.send(first, parcel_of("tick"))
    trip.send(first, parcel_of("tick"))
    assert trip.counter.stored == ["start", "tick", "tick"]
    unknown(trip, first, "tock", fate="late")
    trip.before[len(trip.kinds) + 1] = trip.arrive
    trip.send(first, parcel_of("tock"))
    assert trip.counter.stored == ["start", "tick", "tick", "tock", "tock"]


@pytest.mark.parametrize("data", [["x", "y"], ["b"], ["b", "c", "d"]])
def test_anything_else_after_an_older_state_is_refused_as_the_link_was(data: list[str]) -> None:
    trip, lane = Trip(), lane_of()
    trip.send(lane, parcel_of("a"))
    saved = lane.configuration
    trip.send(lane, parcel_of("b", "c"))
    back = Lane(PARTITION, saved)
    for _ in range(2):
        with pytest.raises(errors.LinkRefused) as raised:
            trip.send(back, parcel_of(*data))
        assert raised.value.details == {"expected": 2}
    assert trip.counter.stored == ["a", "b", "c"]


def test_a_fenced_producer_is_told_again_without_asking() -> None:
    trip, lane = Trip(retrying=PATIENT), lane_of()
    trip.send(lane, parcel_of("a"))
    trip.counter.row = ProducerRow(2, None, 0)
    for _ in range(2):
        with pytest.raises(errors.ProducerDisconnected) as raised:
            trip.send(lane, parcel_of("b"))
        assert raised.value.details == {"received": 0, "current": 2}
    assert trip.numbers == [0, 1]
    assert trip.pauses == []


@pytest.mark.parametrize("fate", ["lost", "silent"])
def test_the_same_parcel_after_an_unknown_outcome_is_stored_once(fate: str) -> None:
    trip, lane = Trip(), lane_of()
    parcel = unknown(trip, lane, "a", "b", fate=fate)
    assert parcel.locked
    assert (parcel.published, numbers_of(parcel)) == (False, [None, None])
    receipt = trip.send(lane, parcel)
    assert receipt.replayed == (fate == "silent")
    assert receipt.accepted == 2
    assert trip.counter.stored == ["a", "b"]
    assert trip.numbers == [0, 0]
    assert parcel.published
    assert numbers_of(parcel) == [0, 1]
    assert trip.send(lane, parcel_of("c")).accepted == 1
    assert ReadProducer not in trip.kinds


def test_the_very_same_messages_after_an_unknown_outcome_are_the_same_parcel() -> None:
    trip, lane = Trip(), lane_of()
    messages = [Message(recipient="ada", data="a"), Message(recipient="ada", data="b")]
    trip.fates = ["fine", "silent"]
    with pytest.raises(errors.OutcomeUnknown):
        trip.lead(send_sent(lane, messages, trip.patience))
    assert trip.lead(send_sent(lane, list(messages), trip.patience)).replayed
    assert [message.published_sequence_number for message in messages] == [0, 1]
    assert trip.counter.stored == ["a", "b"]


def test_other_messages_after_a_stored_one_are_never_taken_for_it() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="silent")
    second = parcel_of("b")
    receipt = trip.send(lane, second)
    assert not receipt.replayed
    assert trip.counter.stored == ["a", "b"]
    assert first.published
    assert (numbers_of(first), numbers_of(second)) == ([0], [1])


def test_a_sender_who_never_heard_an_answer_may_ask_once_more() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="silent")
    trip.send(lane, parcel_of("b"))
    asked = len(trip.steps)
    receipt = trip.send(lane, first)
    assert (receipt.replayed, receipt.accepted) == (True, 1)
    assert len(trip.steps) == asked
    with pytest.raises(errors.InvalidOperation):
        trip.send(lane, first)


def test_messages_that_were_found_to_be_stored_may_be_sent_once_more() -> None:
    trip, lane = Trip(), lane_of()
    messages = [Message(recipient="ada", data="a")]
    trip.fates = ["fine", "silent"]
    with pytest.raises(errors.OutcomeUnknown):
        trip.lead(send_sent(lane, messages, trip.patience))
    trip.send(lane, parcel_of("b"))
    assert trip.lead(send_sent(lane, messages, trip.patience)).replayed
    with pytest.raises(errors.InvalidOperation):
        trip.lead(send_sent(lane, messages, trip.patience))
    assert trip.counter.stored == ["a", "b"]


def test_other_messages_after_one_that_was_lost_take_its_number() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="lost")
    trip.send(lane, parcel_of("b", "c"))
    assert trip.numbers == [0, 0]
    assert not first.locked
    trip.send(lane, first)
    assert trip.counter.stored == ["b", "c", "a"]
    assert numbers_of(first) == [2]


def test_an_attempt_that_arrives_too_late_is_refused_by_the_hub() -> None:
    trip, lane = Trip(), lane_of()
    unknown(trip, lane, "a", fate="late")
    trip.send(lane, parcel_of("b"))
    with pytest.raises(errors.InvalidClientState):
        trip.arrive()
    assert trip.counter.stored == ["b"]


@pytest.mark.parametrize("data", [["b"], ["b", "c"]])
def test_an_attempt_that_arrives_before_the_next_parcel_is_found_and_that_one_numbered_afresh(data: list[str]) -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="late")
    trip.before = {3: trip.arrive}
    second = parcel_of(*data)
    assert trip.send(lane, second).accepted == len(data)
    assert trip.counter.stored == ["a", *data]
    assert first.published
    assert numbers_of(second) == [*range(1, len(data) + 1)]
    assert [kind for kind in trip.kinds if kind is ReadProducer] == [ReadProducer, ReadProducer]


def test_of_several_with_the_same_numbers_the_hub_shows_which_one_it_has() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="late")
    trip.fates = ["fine", "late"]
    second = parcel_of("b")
    with pytest.raises(errors.OutcomeUnknown):
        trip.send(lane, second)
    assert first.numbers == second.numbers
    late = trip.late.pop()
    trip.late.insert(0, late)
    trip.arrive()
    third = parcel_of("c")
    trip.send(lane, third)
    assert trip.counter.stored == ["b", "c"]
    assert (first.published, first.locked, second.published) == (False, False, True)
    with pytest.raises(errors.InvalidClientState):
        trip.arrive()
    trip.send(lane, first)
    assert trip.counter.stored == ["b", "c", "a"]


def test_a_resent_parcel_that_was_overtaken_is_numbered_afresh() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="late")
    second = parcel_of("b")
    trip.fates = ["fine", "lost"]
    with pytest.raises(errors.OutcomeUnknown):
        trip.send(lane, second)
    trip.arrive()
    assert trip.send(lane, second).accepted == 1
    assert trip.counter.stored == ["a", "b"]
    assert first.published
    assert numbers_of(second) == [1]


def test_numbers_that_another_producer_of_the_same_level_used_are_not_taken_for_ours() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="lost")
    other = lane_of()
    Trip(trip.counter).send(other, parcel_of("x"))
    trip.send(lane, parcel_of("b"))
    assert not first.published
    assert not first.locked
    trip.send(lane, first)
    assert trip.counter.stored == ["x", "b", "a"]


def test_a_producer_of_the_same_level_that_went_on_is_followed() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="lost")
    other = lane_of()
    Trip(trip.counter).send(other, parcel_of("x", "y"))
    Trip(trip.counter).send(other, parcel_of("z"))
    trip.send(lane, parcel_of("b"))
    assert trip.counter.stored == ["x", "y", "z", "b"]
    assert first.locked
    assert lane.unresolved == []
    with pytest.raises(errors.InvalidClientState):
        trip.send(lane, first)
    trip.send(lane, first)
    assert trip.counter.stored == ["x", "y", "z", "b", "a"]


def test_a_stored_parcel_that_was_passed_is_known_by_its_ids_when_it_comes_again() -> None:
    trip, lane = Trip(), lane_of()
    trip.send(lane, parcel_of("a"))
    kept = unknown(trip, lane, "b", fate="silent").dump()
    trip.send(Lane(PARTITION, PartitionPublishingConfiguration(GROUP)), parcel_of("c"))
    again, back = Parcel.load(kept), Lane(PARTITION, PartitionPublishingConfiguration(GROUP))
    with pytest.raises(errors.InvalidClientState, match="may have been stored before"):
        trip.send(back, again)
    assert trip.send(back, again).duplicates == 1
    assert trip.counter.stored == ["a", "b", "c"]


def test_an_agreement_that_shows_a_higher_level_ends_the_lane() -> None:
    trip, lane = Trip(), lane_of()
    unknown(trip, lane, "a", fate="lost")
    trip.counter.row = ProducerRow(1, None, 0)
    for _ in range(2):
        with pytest.raises(errors.ProducerDisconnected):
            trip.send(lane, parcel_of("b"))
    assert trip.kinds.count(ReadProducer) == 1


def test_without_an_agreement_nothing_else_is_sent() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="silent")
    second = parcel_of("b")
    trip.fates = ["lost"]
    with pytest.raises(errors.Unavailable) as raised:
        trip.send(lane, second)
    assert not isinstance(raised.value, errors.OutcomeUnknown)
    assert not second.locked
    assert lane.unresolved == [first]
    trip.send(lane, second)
    assert trip.counter.stored == ["a", "b"]


def test_a_group_that_the_hub_has_forgotten_begins_anew() -> None:
    trip, lane = Trip(), lane_of()
    unknown(trip, lane, "a", fate="silent")
    trip.counter.row = None
    trip.send(lane, parcel_of("b"))
    assert trip.numbers == [0, 0]


def test_after_an_unclear_attempt_a_hub_out_of_reach_leaves_it_open() -> None:
    trip, lane = Trip(retrying=Retrying(times=1, seconds=60, first_pause=0, longest_pause=0)), lane_of()
    parcel = parcel_of("a")
    trip.fates = ["fine", "silent", "unreached"]
    with pytest.raises(errors.OutcomeUnknown):
        trip.send(lane, parcel)
    assert parcel.locked
    assert trip.send(lane, parcel).replayed


def test_a_resend_that_does_not_get_through_leaves_the_first_attempt_open() -> None:
    trip, lane = Trip(), lane_of()
    parcel = unknown(trip, lane, "a", fate="silent")
    trip.fates = ["unreached"]
    with pytest.raises(errors.OutcomeUnknown):
        trip.send(lane, parcel)
    assert parcel.locked
    trip.send(lane, parcel_of("b"))
    assert trip.counter.stored == ["a", "b"]


def test_a_hub_that_knows_only_a_lower_level_begins_anew() -> None:
    trip, lane = Trip(), lane_of(GROUP, 3, None)
    unknown(trip, lane, "a", fate="silent")
    trip.counter.row = ProducerRow(2, 9, 0)
    parcel = parcel_of("b")
    trip.send(lane, parcel)
    assert numbers_of(parcel) == [0]


def test_after_an_unclear_attempt_a_closed_door_leaves_it_open() -> None:
    trip, lane = Trip(retrying=PATIENT), lane_of()
    parcel = parcel_of("a")

    def refuse() -> None:
        raise errors.Forbidden("No.")

    trip.fates, trip.before = ["fine", "silent"], {2: refuse}
    with pytest.raises(errors.Forbidden):
        trip.send(lane, parcel)
    assert parcel.locked
    assert trip.send(lane, parcel).replayed


def test_a_defect_of_the_hub_leaves_it_open() -> None:
    trip, lane = Trip(retrying=PATIENT), lane_of()
    parcel = parcel_of("a")

    def fail() -> None:
        raise errors.Internal("A defect.")

    trip.before = {1: fail}
    with pytest.raises(errors.Internal):
        trip.send(lane, parcel)
    assert trip.pauses == []
    assert parcel.locked
    assert trip.send(lane, parcel).accepted == 1


def test_a_dialogue_that_is_left_while_an_attempt_is_under_way_leaves_the_parcel_unresolved() -> None:
    trip, lane = Trip(), lane_of()
    trip.send(lane, parcel_of("a"))
    parcel = parcel_of("b")
    dialogue = send(lane, parcel, trip.patience)
    assert isinstance(next(dialogue), Prepare)
    assert isinstance(dialogue.send(parcel.sent), Publish)
    dialogue.close()
    assert parcel.locked
    assert lane.unresolved == [parcel]


def test_a_dialogue_that_is_left_before_the_first_attempt_leaves_nothing_behind() -> None:
    trip, lane = Trip(), lane_of()
    parcel = parcel_of("a")
    dialogue = send(lane, parcel, trip.patience)
    assert isinstance(next(dialogue), OpenLink)
    dialogue.close()
    assert not parcel.locked
    assert lane.unresolved == []


def test_a_producer_that_is_closed_between_attempts_says_what_is_known() -> None:
    trip, lane = Trip(retrying=PATIENT), lane_of()
    trip.fates, trip.giving_up = ["fine", "lost"], True
    with pytest.raises(errors.OutcomeUnknown):
        trip.send(lane, parcel_of("a"))
    trip.fates = ["fine", "unreached"]
    with pytest.raises(errors.Unavailable) as raised:
        trip.send(lane, parcel_of("b"))
    assert not isinstance(raised.value, errors.OutcomeUnknown)


def test_of_too_many_unresolved_parcels_the_oldest_is_forgotten_and_can_still_be_sent() -> None:
    trip, lane = Trip(), lane_of()
    trip.fates = ["fine", "silent"]
    oldest = parcel_of("oldest")
    with pytest.raises(errors.OutcomeUnknown):
        trip.send(lane, oldest)
    # The hub has the oldest one, but reads of it are made to say that it has nothing yet.
    row, trip.counter.row = trip.counter.row, ProducerRow(0, None, 0)
    for place in range(UNRESOLVED_PARCELS_MAX):
        trip.fates = ["fine", "lost"]
        with pytest.raises(errors.OutcomeUnknown):
            trip.send(lane, parcel_of(place, place))
    assert len(lane.unresolved) == UNRESOLVED_PARCELS_MAX
    assert oldest not in lane.unresolved
    trip.counter.row = row
    assert trip.send(lane, oldest).replayed
    assert lane.unresolved == []


def test_a_parcel_with_numbers_of_the_same_group_and_level_needs_no_link() -> None:
    trip, lane = Trip(), lane_of(None, None)
    kept = unknown(trip, lane, "a", "b", fate="silent").dump()
    later, again = Trip(trip.counter), lane_of(GROUP, 0, None)
    assert later.send(again, Parcel.load(kept)).replayed
    assert later.kinds == [Publish]
    later.send(again, parcel_of("c"))
    assert later.kinds == [Publish, Publish]
    assert later.counter.stored == ["a", "b", "c"]


def test_a_lane_without_configuration_adopts_the_numbers_of_a_loaded_parcel() -> None:
    trip = Trip()
    kept = unknown(trip, lane_of(GROUP, 4), "a", fate="lost").dump()
    later, lane = Trip(trip.counter), lane_of(None, None)
    assert later.send(lane, Parcel.load(kept)).accepted == 1
    assert later.kinds == [Publish]
    assert lane.configuration == PartitionPublishingConfiguration(GROUP, 4, 0)


def test_at_another_level_a_loaded_parcel_is_numbered_anew_and_its_ids_protect_it() -> None:
    trip = Trip()
    kept = unknown(trip, lane_of(), "a", fate="silent").dump()
    later, lane = Trip(trip.counter), lane_of(GROUP, 1)
    receipt = later.send(lane, Parcel.load(kept))
    assert (receipt.accepted, receipt.duplicates, receipt.replayed) == (0, 1, False)
    assert later.kinds == [OpenLink, Publish]
    assert later.counter.stored == ["a"]


def test_a_parcel_of_another_group_is_refused() -> None:
    trip = Trip()
    kept = unknown(trip, lane_of(), "a", fate="silent").dump()
    lane = lane_of(GROUP + 1)
    with pytest.raises(errors.InvalidOperation, match="group 77"):
        trip.send(lane, Parcel.load(kept))


def test_the_outcome_of_a_loaded_parcel_may_be_unknown_once_more() -> None:
    trip = Trip()
    kept = unknown(trip, lane_of(), "a", fate="lost").dump()
    later, lane = Trip(trip.counter, fates=["silent"]), lane_of(GROUP, 0, None)
    with pytest.raises(errors.OutcomeUnknown):
        later.send(lane, Parcel.load(kept))
    later.send(lane, parcel_of("b"))
    assert later.counter.stored == ["a", "b"]
    assert OpenLink not in later.kinds


def test_what_was_published_is_not_sent_again() -> None:
    trip, lane = Trip(), lane_of()
    parcel = parcel_of("a")
    trip.send(lane, parcel)
    steps = len(trip.steps)
    with pytest.raises(errors.InvalidOperation, match="parcel is published"):
        trip.send(lane, parcel)
    with pytest.raises(errors.InvalidOperation, match="Message 1 is published already, under number 0"):
        trip.lead(send_sent(lane, [Message(recipient="ada"), parcel.messages[0]], trip.patience))
    assert len(trip.steps) == steps


def test_a_message_that_turns_out_to_be_stored_is_not_numbered_again() -> None:
    trip, lane = Trip(), lane_of()
    first = unknown(trip, lane, "a", fate="silent")
    with pytest.raises(errors.InvalidOperation):
        trip.lead(send_sent(lane, [Message(recipient="ada", data="b"), first.messages[0]], trip.patience))
    assert trip.counter.stored == ["a"]


def test_an_empty_parcel_does_nothing() -> None:
    trip, lane = Trip(), lane_of()
    parcel = Parcel(PARTITION)
    assert trip.send(lane, parcel).accepted == 0
    assert (trip.steps, parcel.locked, parcel.published) == ([], False, False)


def test_properties_are_read_from_the_hub_when_first_asked_for() -> None:
    trip, lane = Trip(Counter(ProducerRow(3, 8, 0))), lane_of(GROUP, None)
    for _ in range(2):
        shown = trip.lead(describing(lane, trip.patience))
        assert (shown.producer_group_id, shown.owner_level, shown.last_published_sequence_number) == (GROUP, 3, 8)
    assert trip.kinds == [OpenLink]


def test_without_numbers_a_parcel_is_tried_again_too_and_published_once() -> None:
    trip = Trip(retrying=PATIENT)
    trip.fates = ["unreached"]
    parcel = parcel_of("a")
    dialogue = send_plainly(parcel, trip.patience)
    assert isinstance(next(dialogue), Prepare)
    assert dialogue.send(parcel.sent) == Publish(parcel.sent, PARTITION, None)
    assert dialogue.send(errors.Unavailable("Away.")) == Pause(1.0)
    assert dialogue.send(None) == Publish(parcel.sent, PARTITION, None)
    with pytest.raises(StopIteration):
        dialogue.send(trip.counter.publish(list(parcel.messages), _numbers()))
    assert (parcel.published, parcel.starting_published_sequence_number) == (True, None)
    with pytest.raises(errors.InvalidOperation):
        trip.lead(send_plainly(parcel, trip.patience))


def _numbers() -> ProducerNumbers:
    return ProducerNumbers(group=GROUP, owner_level=0, published_sequence=0)
