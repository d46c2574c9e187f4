"""What is said over a live connection: who gets which answer, and what is said again over the next."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from restante.client.live.live_outgoing import Outgoing
from restante.errors import (
    BundleOpen,
    InvalidMessage,
    InvalidRequest,
    MessageConflict,
    OutcomeUnknown,
    RestanteError,
    StorageFull,
    Unavailable,
)
from restante.limits import LIVE_SENDS_MAX
from restante.model.publishing.message import Message
from restante.wire.live import Collected, Fate, SendAccepted

ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def message(own_id: str = ID) -> Message:
    return Message(recipient="ada", data=1, id=own_id)


def outgoing() -> Outgoing[Future[Any]]:
    return Outgoing()


def test_a_message_is_processed_when_the_hub_says_so() -> None:
    own = outgoing()
    letter = own.send(message(), Future())
    own.hear(SendAccepted(letter.request, ID))
    assert not letter.promise.done()
    own.hear(Fate(ID, "processed"))
    assert letter.promise.result(0) is None


def test_the_hub_spells_ids_in_lower_case() -> None:
    own = outgoing()
    letter = own.send(message(ID.upper()), Future())
    own.hear(Fate(ID, "processed"))
    assert letter.promise.done()


def test_a_lost_message_says_why() -> None:
    own = outgoing()
    letter = own.send(message(), Future())
    own.hear(Fate(ID, "lost", "storage_full"))
    with pytest.raises(Unavailable, match="storage_full"):
        letter.promise.result(0)


@pytest.mark.parametrize(
    ("reason", "kind", "retriable"),
    [
        ("message_conflict: It was stored with other content.", MessageConflict, False),
        ("outcome_unknown: It may be stored.", OutcomeUnknown, True),
        ("storage_full: There is no room.", StorageFull, True),
        ("a_code_to_come: It is so.", Unavailable, True),
        ("The hub failed.", Unavailable, True),
        (None, Unavailable, True),
    ],
)
def test_a_lost_message_raises_the_error_that_the_hub_names(
    reason: str | None, kind: type[RestanteError], retriable: bool
) -> None:
    own = outgoing()
    letter = own.send(message(), Future())
    own.hear(Fate(ID, "lost", reason))
    error = letter.promise.exception(0)
    assert type(error) is kind
    assert isinstance(error, RestanteError)
    assert (error.retriable, error.details["id"]) == (retriable, ID)
    assert (reason or "no reason").rpartition(": ")[2] in error.message


def test_a_problem_goes_to_the_request_it_names() -> None:
    own = outgoing()
    first, second = own.send(message(), Future()), own.send(message(ID[:-1] + "1"), Future())
    own.hear({"type": "problem", "request": second.request, "code": "invalid_message", "detail": "No."})
    with pytest.raises(InvalidMessage, match="No"):
        second.promise.result(0)
    assert not first.promise.done()


def test_a_problem_that_names_no_request_is_the_answer_to_collecting() -> None:
    own = outgoing()
    sent, collecting = own.send(message(), Future()), own.collect(7, Future())
    own.hear({"type": "problem", "code": "bundle_open", "detail": "Open.", "bundle_id": ID})
    with pytest.raises(BundleOpen) as caught:
        collecting.promise.result(0)
    assert caught.value.details == {"bundle_id": ID}
    assert not sent.promise.done()


def test_a_problem_of_another_number_is_not_the_answer_to_collecting() -> None:
    own = outgoing()
    letter = own.collect(7, Future())
    own.hear({"type": "problem", "code": "bundle_open", "detail": "Open.", "sequence_number": 6})
    assert not letter.promise.done(), "whoever said that does not wait any more"
    own.hear({"type": "problem", "code": "bundle_open", "detail": "Open.", "bundle_id": ID, "sequence_number": 7})
    with pytest.raises(BundleOpen) as caught:
        letter.promise.result(0)
    assert caught.value.details == {"bundle_id": ID}


def test_collecting_gives_how_many_and_is_done_one_at_a_time() -> None:
    own = outgoing()
    letter = own.collect(7, Future())
    assert not own.can_collect
    own.hear(Collected(6, 99))
    assert not letter.promise.done(), "that answered somebody who did not wait for it"
    own.hear(Collected(7, 3))
    assert letter.promise.result(0) == 3
    assert own.can_collect


def test_whoever_stops_waiting_makes_room() -> None:
    own = outgoing()
    own.forget(own.collect(7, Future()))
    assert own.can_collect
    own.hear(Collected(7, 3))


def test_what_was_not_answered_is_said_again_over_the_next_connection_in_order() -> None:
    own = outgoing()
    first, second = own.send(message(), Future()), own.collect(7, Future())
    assert [own.unsaid(1), own.unsaid(1), own.unsaid(1)] == [first, second, None]
    own.hear(Fate(ID, "processed"))
    third = own.send(message(), Future())
    assert [own.unsaid(2), own.unsaid(2), own.unsaid(2)] == [second, third, None]


def test_the_same_id_cannot_be_under_way_twice() -> None:
    own = outgoing()
    own.send(message(), Future())
    with pytest.raises(InvalidRequest, match="under way already"):
        own.send(message(), Future())


def test_so_many_are_under_way_at_most() -> None:
    own = outgoing()
    for number in range(LIVE_SENDS_MAX):
        assert own.has_room
        own.send(message(f"0198c5a2-6f1e-7c3b-9d4a-{number:012}"), Future())
    assert not own.has_room


def test_the_end_leaves_nobody_waiting() -> None:
    own = outgoing()
    letters = own.send(message(), Future()), own.collect(7, Future())
    own.end("closed")
    for letter in letters:
        with pytest.raises(OutcomeUnknown, match="closed"):
            letter.promise.result(0)


def test_an_answer_that_nobody_waits_for_is_nothing() -> None:
    own = outgoing()
    own.hear(Fate(ID, "processed"))
    own.hear(Collected(1, 1))
    own.hear({"type": "problem", "code": "internal"})
    own.hear({"type": "problem", "request": 5, "code": "internal"})
    assert own.has_room
