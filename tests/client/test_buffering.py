"""What waits where and what goes next: the buffered producer without a network."""

from __future__ import annotations

import pytest

from restante import errors, limits
from restante.client.publishing.buffer import Buffering, Stack, is_settled, parcel_of
from restante.client.publishing.buffer_bounds import BufferBounds
from restante.client.publishing.buffer_intake import BufferAdmission
from restante.errors import Fault, InvalidMessage, MessageConflict, ProducerDisconnected
from restante.model.publishing.message import Message
from restante.model.storage.partition import partition_of

PARTITIONS = 4
NAMES = {partition_of(name, PARTITIONS): name for name in ("ada", "bob", "cy", "dora", "eve", "finn", "gus", "hal")}
"""A recipient of each partition."""


def letter(number: int, partition: int = 0) -> Message:
    return Message(recipient=NAMES[partition], data=number)


class Desk:
    """A buffer whose clock stands still unless it is moved."""

    def __init__(self, **bounds: object) -> None:
        self.now = 1_000.0
        own = BufferBounds(**{"max_wait_time": 1.0, **bounds})  # type: ignore[arg-type]
        self.admission = BufferAdmission(PARTITIONS, own)
        self.state = Buffering(own, lambda: self.now)

    def put(self, *numbers: int, partition: int = 0) -> None:
        assert self.state.takes(self.admission.admit([letter(number, partition) for number in numbers]))

    def due(self) -> Stack | None:
        """The stack that is due now, if any."""
        return self.state.take() if self.state.wait(self.now) == 0 else None

    def take(self) -> Stack:
        stack = self.due()
        assert stack is not None
        return stack

    def done(self, stack: Stack, error: errors.RestanteError | None = None) -> list[object]:
        """Settle a stack; gives what was told of."""
        told = self.state.conclude(stack, error)
        self.state.settle(stack)
        return numbers(told.messages)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds


def numbers(messages: list[Message]) -> list[object]:
    return [message.data for message in messages]


def test_every_partition_has_a_name() -> None:
    assert sorted(NAMES) == [*range(PARTITIONS)]


# When a parcel goes.


def test_messages_wait_for_others_until_their_time_has_come() -> None:
    desk = Desk()
    desk.put(1)
    desk.pass_time(0.5)
    desk.put(2)
    assert desk.due() is None
    assert desk.state.next_deadline() == 1_001.0
    desk.pass_time(0.5)
    assert numbers(desk.take().messages) == [1, 2]
    assert desk.state.next_deadline() is None


def test_a_full_stack_does_not_wait() -> None:
    desk = Desk(max_parcel_messages=3)
    desk.put(1, 2, 3, 4)
    first = desk.take()
    assert numbers(first.messages) == [1, 2, 3]
    desk.done(first)
    assert desk.due() is None
    desk.pass_time(1)
    assert numbers(desk.take().messages) == [4]


def test_a_stack_that_has_the_bytes_of_a_parcel_does_not_wait() -> None:
    desk = Desk(max_parcel_bytes=2_000)
    desk.put(1, 2, 3, 4, 5, 6)
    stack = desk.take()
    assert 1 < len(stack.messages) < 6
    assert parcel_of(stack).size_in_bytes <= 2_000
    desk.done(stack)
    rest: list[object] = []
    desk.state.flushing()
    while (more := desk.due()) is not None:
        rest += desk.done(more)
    assert [*numbers(stack.messages), *rest] == [1, 2, 3, 4, 5, 6]


def test_without_a_waiting_time_each_message_goes_at_once() -> None:
    desk = Desk(max_wait_time=0)
    desk.put(1)
    assert numbers(desk.take().messages) == [1]


def test_one_stack_of_a_partition_is_under_way_and_the_next_grows_meanwhile() -> None:
    desk = Desk(max_wait_time=0)
    desk.put(1)
    stack = desk.take()
    desk.put(2)
    desk.put(3)
    assert desk.due() is None
    desk.done(stack)
    assert numbers(desk.take().messages) == [2, 3]


def test_partitions_take_turns() -> None:
    desk = Desk(max_parcel_messages=1)
    desk.put(1, 2, partition=0)
    desk.put(3, partition=1)
    first = desk.take()
    assert numbers(desk.take().messages) == [3]
    desk.done(first)
    assert numbers(desk.take().messages) == [2]


def test_a_time_that_passes_while_a_stack_is_under_way_counts() -> None:
    desk = Desk(max_parcel_messages=2)
    desk.put(1, 2, 3)
    stack = desk.take()
    desk.pass_time(1)
    assert desk.due() is None
    desk.done(stack)
    assert numbers(desk.take().messages) == [3]


# Room.


def test_there_is_room_again_when_the_outcome_is_known_before_it_is_told() -> None:
    desk = Desk(max_buffer_length=2, max_parcel_messages=2)
    desk.put(1, 2)
    more = desk.admission.admit(letter(3))
    assert not desk.state.takes(more)
    stack = desk.take()
    assert not desk.state.takes(more)
    desk.state.conclude(stack, None)
    assert desk.state.takes(more)
    assert desk.state.count() == 3
    desk.state.settle(stack)
    assert desk.state.count() == 1


def test_bytes_take_room_too_and_give_it_back() -> None:
    desk = Desk(max_buffer_bytes=1_000, max_wait_time=0)
    desk.put(1, 2)
    more = desk.admission.admit(letter(3))
    assert not desk.state.takes(more)
    desk.done(desk.take())
    assert desk.state.size == 0
    assert desk.state.takes(more)


def test_a_list_is_taken_as_a_whole_or_not_at_all() -> None:
    desk = Desk(max_buffer_length=3)
    desk.put(1, 2)
    assert not desk.state.takes(desk.admission.admit([letter(3), letter(4)]))
    assert desk.state.count() == 2


def test_more_than_ever_fits_is_refused() -> None:
    desk = Desk(max_buffer_length=3, max_buffer_bytes=1_500)
    with pytest.raises(errors.InvalidRequest, match="fewer at a time"):
        desk.admission.admit([letter(number) for number in range(4)])
    with pytest.raises(errors.InvalidRequest, match="fewer at a time"):
        desk.admission.admit(Message(recipient="ada", data=b"x" * 1_400))


# Flushing and closing.


def test_flushing_sends_what_is_there_and_waits_for_no_later_one() -> None:
    desk = Desk()
    desk.put(1)
    desk.put(2, partition=1)
    places = desk.state.flushing()
    first, second = desk.take(), desk.take()
    desk.put(3)
    assert not is_settled(places)
    desk.done(first)
    assert not is_settled(places)
    desk.done(second)
    assert is_settled(places)
    assert desk.due() is None, "the third waits for others"


def test_flushing_counts_a_stack_only_when_all_of_it_is_told() -> None:
    desk = Desk()
    desk.put(1)
    places = desk.state.flushing()
    desk.put(2)
    stack = desk.take()
    assert desk.done(stack, refused(1)) == [2]
    assert not is_settled(places)
    assert desk.done(desk.take()) == [1]
    assert is_settled(places)


def test_closing_with_a_flush_sends_everything() -> None:
    desk = Desk()
    desk.put(1, 2)
    desk.state.close(flush=True)
    with pytest.raises(errors.InvalidOperation, match="closed"):
        desk.put(3)
    assert not desk.state.finished
    stack = desk.take()
    assert stack.failing is None
    desk.done(stack)
    assert desk.state.finished


def test_closing_without_a_flush_fails_what_was_not_sent() -> None:
    desk = Desk(max_parcel_messages=2)
    desk.put(1, 2, 3, 4, 5)
    under_way = desk.take()
    desk.state.close(flush=False)
    assert desk.due() is None, "one stack of a tray at a time"
    assert desk.done(under_way) == [1, 2]
    left = desk.take()
    assert isinstance(left.failing, errors.Unavailable)
    assert desk.done(left, left.failing) == [3, 4, 5]
    assert desk.state.finished
    assert (desk.state.messages, desk.state.size) == (0, 0)


# Failures.


def refused(*places: int) -> MessageConflict:
    faults = [Fault(index=place, code=MessageConflict.code, detail="another content") for place in places]
    return MessageConflict("Some are wrong.", faults)


def test_only_the_faulty_messages_fail_and_the_others_go_again_first() -> None:
    desk = Desk(max_parcel_messages=4)
    desk.put(1, 2, 3, 4, 5)
    stack = desk.take()
    parcel = parcel_of(stack)
    told = desk.state.conclude(stack, refused(3, 1))
    desk.state.settle(stack)
    assert numbers(told.messages) == [2, 4]
    assert isinstance(told.error, MessageConflict)
    assert [fault.index for fault in told.error.faults] == [1, 0]
    again = desk.take()
    assert numbers(again.messages) == [1, 3]
    assert parcel_of(again) is not parcel
    desk.done(again)
    desk.state.flushing()
    assert desk.done(desk.take()) == [5]
    assert (desk.state.messages, desk.state.size, desk.state.count()) == (0, 0, 0)


def test_a_stack_of_nothing_but_faulty_messages_fails_as_it_is() -> None:
    desk = Desk(max_wait_time=0)
    desk.put(1, 2)
    error = refused(0, 1)
    told = desk.state.conclude(desk.take(), error)
    assert (numbers(told.messages), told.error) == ([1, 2], error)


def test_an_error_that_names_no_message_fails_the_stack_and_not_the_next() -> None:
    desk = Desk(max_parcel_messages=2)
    desk.put(1, 2, 3, 4)
    assert desk.done(desk.take(), InvalidMessage("Wrong.")) == [1, 2]
    following = desk.take()
    assert following.failing is None
    assert numbers(following.messages) == [3, 4]


def test_after_a_takeover_all_of_the_partition_fails_at_once_and_others_go_on() -> None:
    desk = Desk(max_parcel_messages=2)
    desk.put(1, 2, 3)
    desk.put(8, 9, partition=1)
    fenced = ProducerDisconnected("Another has taken over.", received=1, current=2)
    assert desk.done(desk.take(), fenced) == [1, 2]
    assert desk.take().failing is None
    left = desk.take()
    assert (left.failing, desk.done(left, left.failing)) == (fenced, [3])
    desk.put(4)
    later = desk.take()
    assert (later.failing, numbers(later.messages)) == (fenced, [4])


def test_a_stack_has_one_parcel_until_its_outcome_is_known() -> None:
    desk = Desk(max_wait_time=0)
    desk.put(1)
    stack = desk.take()
    assert parcel_of(stack) is parcel_of(stack)


# What a parcel holds.


def test_ids_stay_with_the_messages_and_a_published_one_goes_as_a_copy() -> None:
    desk = Desk(max_wait_time=0)
    message = letter(1)
    assert desk.state.takes(desk.admission.admit([message, message]))
    stack = desk.take()
    first, second = parcel_of(stack).messages
    assert first is second is message
    assert message.id is not None
    desk.done(stack)
    published = Message(recipient=NAMES[0], data=2, id=message.id, published_sequence_number=7)
    assert desk.state.takes(desk.admission.admit(published))
    stack = desk.take()
    (copy,) = parcel_of(stack).messages
    assert (copy.id, copy.data, copy.published_sequence_number) == (message.id, 2, None)
    assert stack.messages[0] is published, "who is told gets what they gave"


# What is refused at once.


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Message(recipient="", data=1), "recipient"),
        (Message(recipient=" ", data=1), "recipient"),
        (Message(recipient=None, data=1), "recipient"),  # type: ignore[arg-type]
        (Message(recipient=["ada"], data=1), "recipient"),  # type: ignore[arg-type]
        (Message(recipient="a" * (limits.RECIPIENT_CHARACTERS_MAX + 1), data=1), "recipient"),
        (Message(recipient="\ud800", data=1), "recipient"),
        (Message(recipient="ada", data=b"x" * (limits.LARGE_DATA_BYTES_MAX + 1)), "data"),
        (Message(recipient="ada", data=["x" * limits.LARGE_DATA_BYTES_MAX]), "data"),
        (Message(recipient="ada", data=object()), "data"),
    ],
    ids=["empty", "blank", "none", "list", "long", "surrogate", "large", "large-value", "no-value"],
)
def test_what_can_never_be_stored_is_refused_by_its_place(message: Message, field: str) -> None:
    desk = Desk()
    for sent, place in ((message, 0), ([letter(1), message, letter(2)], 1)):
        with pytest.raises(errors.InvalidMessage) as caught:
            desk.admission.admit(sent)
        assert [(fault.index, fault.field) for fault in caught.value.faults] == [(place, field)]


def test_a_message_larger_than_a_parcel_is_refused() -> None:
    desk = Desk(max_parcel_bytes=10_000)
    desk.admission.admit(Message(recipient="ada", data="x" * 9_000))
    with pytest.raises(errors.InvalidMessage, match="max_parcel_bytes") as caught:
        desk.admission.admit([letter(1), Message(recipient="ada", data="x" * 10_000)])
    assert [fault.index for fault in caught.value.faults] == [1]


@pytest.mark.parametrize("sent", ["text", None, 3, [letter(1), "text"]])
def test_what_is_no_message_is_refused(sent: object) -> None:
    with pytest.raises(errors.InvalidRequest, match="Message"):
        Desk().admission.admit(sent)


def test_recipients_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.limits.ADDRESSES_REMEMBERED_MAX", 2)
    admission = Desk().admission
    names = ["ada", "bob", "cy", "ada", "dora"]
    found = [admission.admit(Message(recipient=name, data=1)).partitions[0] for name in names]
    assert found == [partition_of(name, PARTITIONS) for name in names]
    assert len(admission._known) <= 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_wait_time": -1},
        {"max_wait_time": float("nan")},
        {"max_wait_time": "soon"},
        {"max_wait_time": limits.BUFFER_WAIT_SECONDS_MAX + 1},
        {"max_buffer_length": 0},
        {"max_buffer_length": None},
        {"max_buffer_bytes": 1.5},
        {"max_parcel_messages": limits.SEND_MESSAGES_MAX + 1},
        {"max_parcel_bytes": limits.PARCEL_BYTES_MAX + 1},
        {"max_concurrent_sends": True},
        {"max_concurrent_sends": limits.BUFFER_SENDS_MAX + 1},
    ],
    ids=str,
)
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(errors.InvalidRequest, match=name):
        BufferBounds(**wrong)  # type: ignore[arg-type]
