"""Frames under way without any network: numbers, room, and what an answer says."""

from __future__ import annotations

from uuid import uuid4

import pytest

from restante import errors
from restante.calls.publishing import Publish
from restante.client.sockets.frame_window import UnderWay
from restante.client.sockets.frames import Framing, UnreadableAnswer, is_small, read_answer
from restante.client.transport.exchange import Failure, Response
from restante.client.transport.options import terms_of
from restante.limits import FEW_MESSAGES_MAX, LINK_FRAMES_MAX
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many, few_or_many
from restante.model.publishing.message import Message
from restante.wire.frames import decode_frame
from restante.wire.media import ARROW, JSON


def letter() -> Message:
    return Message(recipient="ada", id=str(uuid4()), data=1)


@pytest.mark.parametrize(
    ("sent", "small"),
    [
        (few_or_many(letter()), True),
        (few_or_many([letter()] * FEW_MESSAGES_MAX), True),
        (few_or_many([letter()] * (FEW_MESSAGES_MAX + 1)), False),
        (EncodedPublish(JSON, b"{}"), True),
        (EncodedPublish(ARROW, bytes(1)), False),
        (few_or_many(iter(())), False),
    ],
    ids=["one", "few", "many", "few as a body", "columns as a body", "anything else"],
)
def test_only_what_is_small_is_encoded_by_an_event_loop_itself(sent: Few | Many | EncodedPublish, small: bool) -> None:
    assert is_small(sent) is small


def test_each_frame_of_a_link_has_a_number_of_its_own() -> None:
    framing = Framing(terms_of("http://hub.test"))
    numbers = ProducerNumbers(group=1, owner_level=2, published_sequence=3)
    frames = [framing.frame(Publish.of([letter()] * count, partition=4, producer=numbers)) for count in (1, 1_000)]
    headers = [decode_frame(frame.content).header for frame in frames]
    assert [frame.number for frame in frames] == [header.number for header in headers] == [1, 2]
    assert {(header.partition, header.producer) for header in headers} == {(4, numbers)}


def test_a_frame_that_nobody_waits_for_takes_room_until_it_is_answered() -> None:
    under_way: UnderWay[str] = UnderWay(LINK_FRAMES_MAX)
    for number in range(LINK_FRAMES_MAX):
        under_way.put(number, f"caller {number}")
    under_way.forget(0)
    full_before = under_way.full
    assert under_way.answered(0) is None
    assert (full_before, under_way.full) == (True, False)
    assert under_way.answered(1) == "caller 1"
    under_way.withdraw(2)
    assert under_way.end() == [f"caller {number}" for number in range(3, LINK_FRAMES_MAX)]
    assert under_way.empty


def test_whether_anybody_waits_is_known_while_frames_are_under_way() -> None:
    under_way: UnderWay[str] = UnderWay(2)
    under_way.put(1, "a")
    under_way.put(2, "b")
    found = []
    for number in (1, 2):
        under_way.forget(number)
        found.append((under_way.anybody_waits, under_way.empty))
    assert found == [(True, False), (False, False)]


def receipt_of(reply: Response | Failure) -> Receipt:
    return Framing(terms_of("http://hub.test")).receipt_of(reply)


def test_an_answer_is_a_receipt_or_the_error_of_a_problem() -> None:
    number, response = read_answer('{"number": 3, "accepted": 2, "duplicates": 1, "partitions": [], "replayed": true}')
    assert number == 3
    assert receipt_of(response) == Receipt(accepted=2, duplicates=1, partitions=(), replayed=True)
    number, response = read_answer('{"number": 4, "problem": {"code": "link_refused", "detail": "no", "expected": 7}}')
    assert number == 4
    with pytest.raises(errors.LinkRefused) as caught:
        receipt_of(response)
    assert caught.value.details["expected"] == 7


def test_a_problem_keeps_its_status_and_when_to_come_again() -> None:
    _, response = read_answer('{"number": 1, "problem": {"status": 429, "code": "overloaded", "retry_after": 1.5}}')
    assert (response.status, response.headers["retry-after"]) == (429, "2")


@pytest.mark.parametrize("strange", ["hello", "[]", '{"what": 1}', '{"number": 1}', '{"number": "1"}', b"\xff"])
def test_an_answer_that_is_none_is_found_out(strange: str | bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        read_answer(strange)


def test_an_answer_without_a_number_tells_its_reason() -> None:
    with pytest.raises(UnreadableAnswer, match="too wild"):
        read_answer('{"problem": {"code": "invalid_request", "detail": "too wild"}}')


@pytest.mark.parametrize(("reached", "error"), [(True, errors.OutcomeUnknown), (False, errors.Unavailable)])
def test_a_frame_without_an_answer_may_be_stored_only_if_it_was_sent(
    reached: bool, error: type[errors.RestanteError]
) -> None:
    with pytest.raises(errors.Unavailable) as caught:
        receipt_of(Failure("gone", reached=reached))
    assert type(caught.value) is error


def test_a_proxy_that_denies_the_handshake_cannot_have_stored_anything() -> None:
    with pytest.raises(errors.Unavailable) as caught:
        receipt_of(Response(503, {}, memoryview(b"down")))
    assert type(caught.value) is errors.Unavailable


def test_a_receipt_that_cannot_be_read_leaves_the_outcome_unknown() -> None:
    with pytest.raises(errors.OutcomeUnknown):
        receipt_of(read_answer('{"number": 1, "accepted": 1}')[1])
