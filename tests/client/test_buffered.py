"""Single messages through a buffered producer: in process and over the network, for programs that wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import restante
from restante import errors
from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.client.surface import sync
from restante.limits import DATA_BYTES_MAX, LARGE_DATA_BYTES_MAX
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub
from tests.client.conftest import SETTINGS
from tests.client.tallying import ADA, BOB, HERS, HIS, SECONDS, SOME_ID, BrokenLink, HeldLink, Tally, letter, stored


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture(params=["here", "wire"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sync.Hub]:
    """A hub in this process, and one over the network: the producer is the same."""
    if request.param == "wire":
        yield request.getfixturevalue("hub")
    else:
        with restante.open(tmp_path / "here", settings=SETTINGS) as opened:
            yield opened


@pytest.fixture
def here(tmp_path: Path) -> Iterator[sync.Hub]:
    with restante.open(tmp_path / "here", settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def held(here: sync.Hub) -> Iterator[HeldLink]:
    link = HeldLink(here.link)
    yield link
    link.go.set()


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("restante-buffered")] == []


# Sending.


@pytest.mark.parametrize("options", [{}, {"pipelined": True}, {"enable_idempotent_partitions": False}], ids=str)
def test_messages_are_stored_in_the_order_enqueued(either: sync.Hub, tally: Tally, options: dict[str, Any]) -> None:
    with restante.BufferedProducer(either, max_parcel_messages=7, **tally.callbacks, **options) as producer:
        for number in range(500):
            producer.enqueue(letter(number, ADA if number % 3 else BOB))
    assert stored(either, ADA) == [number for number in range(500) if number % 3]
    assert stored(either, BOB) == [number for number in range(500) if not number % 3]
    assert sorted(tally.numbers) == [*range(500)]  # type: ignore[type-var]
    assert tally.failed == []


def test_a_message_goes_by_itself_after_its_waiting_time(either: sync.Hub, tally: Tally) -> None:
    with restante.BufferedProducer(either, max_wait_time=0.01, **tally.callbacks) as producer:
        for number in range(3):
            producer.enqueue(letter(number))
            tally.wait_for(lambda: len(tally.stored) == number + 1)  # noqa: B023 - it is called at once
        assert stored(either) == [0, 1, 2]


def test_a_list_is_enqueued_in_its_order_and_an_empty_one_is_nothing(either: sync.Hub, tally: Tally) -> None:
    with restante.BufferedProducer(either, **tally.callbacks) as producer:
        producer.enqueue([])
        producer.enqueue([letter(1), letter(2, BOB), letter(3)])
        producer.enqueue((letter(4),))
        assert producer.buffered_count() == 4
        assert (producer.buffered_count(HERS), producer.buffered_count(HIS)) == (3, 1)
        producer.flush()
        assert producer.buffered_count() == producer.buffered_count(HERS) == 0
    assert stored(either) == [1, 3, 4]


def test_what_is_told_has_its_number_and_its_id(either: sync.Hub, tally: Tally) -> None:
    given = [letter(number) for number in range(3)]
    with restante.BufferedProducer(either, **tally.callbacks) as producer:
        producer.enqueue(given)
        producer.flush()
        assert [message.published_sequence_number for message in given] == [0, 1, 2]
        assert all(one is other for one, other in zip(tally.stored, given, strict=True))
        assert either.recipient(ADA).find(given[1].id or "").data == 1
        assert producer.state()[HERS].starting_sequence_number == 2


def test_a_later_producer_goes_on_with_the_state_of_an_earlier_one(either: sync.Hub, tally: Tally) -> None:
    with restante.BufferedProducer(either) as producer:
        producer.enqueue([letter(1), letter(2)])
        producer.flush()
        state = producer.state()
    with restante.BufferedProducer(either, partition_config=state, **tally.callbacks) as producer:
        producer.enqueue(letter(3))
    assert [message.published_sequence_number for message in tally.stored] == [2]
    assert stored(either) == [1, 2, 3]


def test_an_address_is_enough(running: ServedHub, hub: sync.Hub, tally: Tally) -> None:
    with restante.BufferedProducer(running.url, **tally.callbacks) as producer:
        producer.enqueue(letter(1))
    assert stored(hub) == tally.numbers == [1]


def test_threads_share_a_producer_and_each_keeps_its_order(either: sync.Hub) -> None:
    names = [f"name-{number}" for number in range(4)]
    bounds: dict[str, Any] = {"max_buffer_length": 10, "max_parcel_messages": 3, "max_wait_time": 0.001}
    with restante.BufferedProducer(either, **bounds) as producer:

        def work(name: str) -> None:
            for number in range(100):
                producer.enqueue(letter(number, name))

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [stored(either, name) for name in names] == [[*range(100)]] * len(names)


def test_partitions_are_sent_side_by_side_and_each_one_parcel_at_a_time(here: sync.Hub, held: HeldLink) -> None:
    with restante.BufferedProducer(sync.Hub(held), max_parcel_messages=1) as producer:
        producer.enqueue([letter(1), letter(2), letter(3, BOB)])
        for _ in range(2):
            assert held.arrived.acquire(timeout=SECONDS)
        assert not held.arrived.acquire(timeout=0.05), "the second of a partition waits for the first"
        held.go.set()
    assert (stored(here), stored(here, BOB)) == ([1, 2], [3])


def test_no_more_sends_than_allowed(here: sync.Hub, held: HeldLink) -> None:
    with restante.BufferedProducer(sync.Hub(held), max_parcel_messages=1, max_concurrent_sends=1) as producer:
        producer.enqueue([letter(1), letter(2, BOB)])
        assert held.arrived.acquire(timeout=SECONDS)
        assert not held.arrived.acquire(timeout=0.05)
        held.go.set()
    assert (stored(here), stored(here, BOB)) == ([1], [2])


# Room.


def test_enqueue_waits_for_room_and_says_when_it_lasts_too_long(here: sync.Hub, held: HeldLink) -> None:
    with restante.BufferedProducer(sync.Hub(held), max_buffer_length=2, max_wait_time=0) as producer:
        producer.enqueue([letter(1), letter(2)])
        with pytest.raises(errors.Overloaded, match="no room"):
            producer.enqueue(letter(99), timeout=0.01)
        waiting = threading.Thread(target=producer.enqueue, args=(letter(3),))
        waiting.start()
        held.go.set()
        waiting.join(SECONDS)
        assert not waiting.is_alive()
    assert stored(here) == [1, 2, 3]


def test_a_full_buffer_does_not_wait_for_more(either: sync.Hub) -> None:
    with restante.BufferedProducer(either, max_buffer_length=2, max_wait_time=3_600) as producer:
        for number in range(7):
            producer.enqueue(letter(number, ADA if number % 2 else BOB), timeout=SECONDS)
    assert (stored(either), stored(either, BOB)) == ([1, 3, 5], [0, 2, 4, 6])


def test_closing_wakes_who_waits_for_room_and_takes_nothing_of_theirs(here: sync.Hub, held: HeldLink) -> None:
    caught: list[BaseException] = []

    def wait() -> None:
        with pytest.raises(errors.InvalidOperation) as error:
            producer.enqueue(letter(2))
        caught.append(error.value)
        held.go.set()

    producer = restante.BufferedProducer(sync.Hub(held), max_buffer_length=1, max_wait_time=0)
    producer.enqueue(letter(1))
    waiting = threading.Thread(target=wait)
    waiting.start()
    producer.close()
    waiting.join()
    assert len(caught) == 1
    assert stored(here) == [1]


@pytest.mark.parametrize(
    "sent",
    [Message(recipient="", data=1), [letter(1), Message(recipient="ada", data=b"x" * (LARGE_DATA_BYTES_MAX + 1))]],
    ids=["none", "large"],
)
def test_what_can_never_be_stored_is_refused_at_once_and_nothing_of_it_is_taken(either: sync.Hub, sent: Any) -> None:
    with restante.BufferedProducer(either) as producer:
        with pytest.raises(errors.InvalidMessage) as mine:
            producer.enqueue(sent)
        assert producer.buffered_count() == 0
    with pytest.raises(errors.InvalidMessage) as other:
        either.producer.send(sent)
    told = [(fault.index, fault.field) for fault in mine.value.faults]
    assert told == [(fault.index, fault.field) for fault in other.value.faults]
    assert stored(either) == []


def test_what_this_hub_finds_too_large_fails_alone(either: sync.Hub, tally: Tally) -> None:
    with restante.BufferedProducer(either, **tally.callbacks) as producer:
        producer.enqueue(
            [letter(1), Message(recipient=letter(1).recipient, data=b"x" * (DATA_BYTES_MAX + 1)), letter(2)]
        )
        producer.flush()
    assert stored(either) == [1, 2]
    assert [kind for _, kind in tally.errors] == [errors.InvalidMessage]


def test_options_that_make_no_sense_are_refused(here: sync.Hub, running: ServedHub) -> None:
    for wrong in ({"max_buffer_length": 0}, {"retry_total": -1}, {"partition_config": {0: 3}}):
        for hub in (here, running.url):
            with pytest.raises(errors.InvalidRequest):
                restante.BufferedProducer(hub, **wrong)
    with pytest.raises(errors.InvalidRequest):
        restante.BufferedProducer(3)  # type: ignore[arg-type]


# Flushing and closing.


def test_flush_waits_until_the_callbacks_have_been_told(either: sync.Hub, tally: Tally) -> None:
    with restante.BufferedProducer(either, max_wait_time=60, **tally.callbacks) as producer:
        producer.flush()
        producer.enqueue([letter(1), letter(2, BOB)])
        producer.flush()
        assert sorted(tally.numbers) == [1, 2]  # type: ignore[type-var]


def test_flush_has_a_limit_and_goes_on_afterwards(here: sync.Hub, held: HeldLink) -> None:
    with restante.BufferedProducer(sync.Hub(held)) as producer:
        producer.enqueue(letter(1))
        with pytest.raises(errors.OutcomeUnknown, match="1 messages are still being sent"):
            producer.flush(timeout=0.01)
        held.go.set()
        producer.flush(timeout=SECONDS)
        assert stored(here) == [1]


def test_a_closed_producer_takes_nothing(either: sync.Hub, tally: Tally) -> None:
    producer = restante.BufferedProducer(either, max_wait_time=60, **tally.callbacks)
    producer.enqueue(letter(1))
    producer.close()
    producer.close(flush=False)
    assert tally.numbers == [1]
    with pytest.raises(errors.InvalidOperation, match="closed"):
        producer.enqueue(letter(2))
    with pytest.raises(errors.InvalidOperation, match="closed"):
        producer.flush()
    fresh = restante.BufferedProducer(either)
    fresh.close()
    with pytest.raises(errors.InvalidOperation, match="closed"):
        fresh.enqueue(letter(2))


def test_closing_without_a_flush_tells_what_was_not_sent(here: sync.Hub, held: HeldLink, tally: Tally) -> None:
    producer = restante.BufferedProducer(sync.Hub(held), max_wait_time=60, max_parcel_messages=2, **tally.callbacks)
    producer.enqueue([letter(1), letter(2), letter(3)])
    assert held.arrived.acquire(timeout=SECONDS)
    producer.enqueue(letter(4, BOB))
    closing = threading.Thread(target=producer.close, kwargs={"flush": False})
    closing.start()
    tally.wait_for(lambda: bool(tally.failed))
    held.go.set()
    closing.join(SECONDS)
    assert tally.errors == [([4], errors.Unavailable), ([3], errors.Unavailable)]
    assert tally.numbers == stored(here) == [1, 2]
    assert stored(here, BOB) == []


def leave_by(producer: restante.BufferedProducer, number: int, error: BaseException) -> None:
    with producer:
        producer.enqueue(letter(number))
        raise error


def test_leaving_by_an_error_flushes_and_leaving_by_an_exit_drops(either: sync.Hub, tally: Tally) -> None:
    for number, leaving in enumerate((ValueError(), KeyboardInterrupt())):
        producer = restante.BufferedProducer(either, max_wait_time=60, **tally.callbacks)
        with pytest.raises(type(leaving)):
            leave_by(producer, number, leaving)
    assert tally.numbers == stored(either) == [0]
    assert tally.errors == [([1], errors.Unavailable)]


# Callbacks.


def test_a_callback_that_raises_is_logged_and_harms_nobody(either: sync.Hub, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ValueError("mine")

    def leave(*_: object) -> None:
        raise SystemExit

    with restante.BufferedProducer(either, on_success=leave, on_error=fail, max_parcel_messages=1) as producer:
        producer.enqueue([letter(1), letter(2, id="an end of line\n"), letter(3)])
        producer.flush(SECONDS)
    assert stored(either) == [1, 3]
    assert [record.message for record in caplog.records] == ["A callback of the buffered producer failed."] * 3


def test_without_callbacks_failures_are_logged(either: sync.Hub, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), restante.BufferedProducer(either) as producer:
        producer.enqueue([letter(1), letter(2, id="an end of line\n")])
    assert stored(either) == [1]
    assert "1 messages for partition" in caplog.text


def test_a_callback_may_enqueue_though_there_is_no_room(either: sync.Hub) -> None:
    left = [*range(20)]
    done = threading.Event()

    def follow(messages: Sequence[Message], partition: int) -> None:
        if left:
            producer.enqueue([letter(left.pop(0)), letter(-1)])
        else:
            done.set()

    with restante.BufferedProducer(
        either, on_success=follow, max_buffer_length=2, max_concurrent_sends=1, max_wait_time=0
    ) as producer:
        producer.enqueue([letter(-1), letter(-1)])
        assert done.wait(SECONDS)
    assert [number for number in stored(either) if number != -1] == [*range(20)]


def test_a_callback_cannot_wait_for_itself(either: sync.Hub) -> None:
    caught: list[str] = []

    def wait(*_: object) -> None:
        for call in (producer.flush, producer.close):
            try:
                call()
            except errors.InvalidOperation as error:
                caught.append(error.message)

    with restante.BufferedProducer(either, on_success=wait) as producer:
        producer.enqueue(letter(1))
    assert ["flush" in caught[0], "close" in caught[1], len(caught)] == [True, True, 2]


# Failures.


def test_only_the_faulty_messages_of_a_parcel_fail(either: sync.Hub, tally: Tally) -> None:
    either.producer.send(letter(-1, id=SOME_ID))
    with restante.BufferedProducer(either, **tally.callbacks) as producer:
        producer.enqueue([letter(number) for number in range(100)])
        producer.enqueue([letter(100, id=SOME_ID), letter(101, id="an end of line\n"), letter(102)])
        producer.enqueue(letter(103, BOB))
    assert stored(either) == [-1, *range(100), 102]
    assert stored(either, BOB) == [103]
    failed = {number: error for numbers, _, error in tally.failed for number in numbers}
    assert sorted(failed) == [100, 101]  # type: ignore[type-var]
    assert isinstance(failed[101], errors.InvalidMessage)
    assert isinstance(failed[100], errors.MessageConflict | errors.InvalidMessage)
    for numbers, _, error in tally.failed:
        assert isinstance(error, errors.FaultyMessages)
        assert {fault.index for fault in error.faults} == {*range(len(numbers))}


def test_a_partition_that_was_taken_over_fails_at_once_and_the_others_go_on(either: sync.Hub, tally: Tally) -> None:
    mine = PartitionPublishingConfiguration(producer_group_id=5, owner_level=1)
    higher = PartitionPublishingConfiguration(producer_group_id=5, owner_level=2)
    with restante.BufferedProducer(
        either, partition_config={HERS: mine}, max_wait_time=0.001, **tally.callbacks
    ) as producer:
        producer.enqueue(letter(1))
        producer.flush(SECONDS)
        with restante.ProducerClient(
            either, enable_idempotent_partitions=True, partition_config={HERS: higher}
        ) as other:
            other.send_messages([letter(2)], partition=HERS)
        for number in (3, 4):
            producer.enqueue([letter(number), letter(number, BOB)])
            producer.flush(SECONDS)
    assert tally.errors == [([3], errors.ProducerDisconnected), ([4], errors.ProducerDisconnected)]
    assert tally.failed[0][1] == HERS
    assert (stored(either), stored(either, BOB)) == ([1, 2], [3, 4])


def test_after_a_takeover_a_message_does_not_wait_for_others(either: sync.Hub, tally: Tally) -> None:
    lost = PartitionPublishingConfiguration(producer_group_id=5, owner_level=1)
    higher = PartitionPublishingConfiguration(producer_group_id=5, owner_level=2)
    with restante.ProducerClient(either, enable_idempotent_partitions=True, partition_config={HERS: higher}) as other:
        other.send_messages([letter(1)], partition=HERS)
    with restante.BufferedProducer(
        either, partition_config={HERS: lost}, max_wait_time=60, **tally.callbacks
    ) as producer:
        producer.enqueue(letter(2))
        producer.flush(SECONDS)
        producer.enqueue(letter(3))
        tally.wait_for(lambda: len(tally.failed) == 2)
    assert tally.errors == [([2], errors.ProducerDisconnected), ([3], errors.ProducerDisconnected)]


def test_a_message_enqueued_twice_is_stored_once(either: sync.Hub, tally: Tally) -> None:
    message = letter(1)
    with restante.BufferedProducer(either, **tally.callbacks) as producer:
        producer.enqueue([message, message])
        producer.flush(SECONDS)
        producer.enqueue(message)
    assert tally.failed == []
    assert tally.numbers == [1, 1, 1]
    assert stored(either) == [1]


def test_a_hub_out_of_reach_is_an_error_of_enqueue_and_then_of_the_messages(tally: Tally) -> None:
    with restante.connect("http://127.0.0.1:9", retries=0) as nowhere, restante.BufferedProducer(nowhere) as producer:
        with pytest.raises(errors.Unavailable, match="Nothing answers at"):
            producer.enqueue(letter(1))
        assert producer.buffered_count() == 0


def test_a_defect_is_told_and_logged_and_stops_nothing(
    here: sync.Hub, tally: Tally, caplog: pytest.LogCaptureFixture
) -> None:
    with restante.BufferedProducer(
        sync.Hub(BrokenLink(here.link)), max_parcel_messages=1, **tally.callbacks
    ) as producer:
        producer.enqueue([letter(1), letter(2)])
        producer.flush(SECONDS)
    assert tally.errors == [([1], errors.Internal)]
    assert "a defect" in caplog.text
    assert stored(here) == [2]
