"""Which calls are repeated, how often and after how long: dialogues led by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from restante import errors
from restante.calls.mailboxes import Dequeue, ListPartitions, Peek
from restante.calls.publishing import Publish
from restante.calls.removal import Erase
from restante.client.transport import protocol
from restante.client.transport.exchange import Reply, Response
from restante.client.transport.options import Retrying
from restante.model.mailboxes.answers import Dequeued, Reason
from restante.model.publishing.message import Message
from tests.client.talking import REFUSED, SILENT, Conversation, json_response, problem_response

BUNDLE = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
DONE = json_response({"bundle_id": BUNDLE, "messages": 3})
DONE_BEFORE = problem_response(404, "bundle_unknown", dequeued_at="2026-01-02T03:04:05Z", messages=3, bundle_id=BUNDLE)
BUSY = problem_response(429, "overloaded", retry_after="2")
RECEIPT = json_response({"accepted": 1, "duplicates": 0, "partitions": []}, 201)
EMPTY = Response(204, {"restante-empty-reason": "nothing_waiting"}, memoryview(b""))


@pytest.mark.parametrize(
    "first", [REFUSED, SILENT, BUSY, problem_response(503, "unavailable"), Response(502, {}, memoryview(b""))]
)
def test_what_may_succeed_later_is_tried_again(first: Reply) -> None:
    conversation = Conversation([first, DONE])
    assert conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE))).messages == 3
    assert conversation.requests[0] == conversation.requests[1]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", errors.InvalidRequest),
        (401, "unauthenticated", errors.Unauthenticated),
        (404, "bundle_unknown", errors.BundleUnknown),
        (500, "internal", errors.Internal),
        (504, "origin_did_not_deliver", errors.OriginDidNotDeliver),
        (507, "storage_full", errors.StorageFull),
    ],
)
def test_what_will_not_succeed_is_tried_once(status: int, code: str, kind: type[errors.RestanteError]) -> None:
    conversation = Conversation([problem_response(status, code)])
    with pytest.raises(kind, match=f"It is {code}"):
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert len(conversation.requests) == 1


def test_pauses_double_up_to_the_longest() -> None:
    retrying = Retrying(times=6, seconds=1_000, first_pause=1, longest_pause=10)
    conversation = Conversation([*[REFUSED] * 6, DONE], retrying)
    conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert conversation.pauses == [1, 2, 4, 8, 10, 10]


def test_chance_shortens_a_pause_by_up_to_half() -> None:
    retrying = Retrying(first_pause=1, longest_pause=10)
    assert retrying.pause(3, 0.0) == 4
    assert retrying.pause(3, 0.5) == 3
    assert retrying.pause(3, 1.0) == 2


def test_a_hub_that_names_a_time_is_waited_for() -> None:
    conversation = Conversation([BUSY, DONE])
    conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert conversation.pauses == [2]


def test_a_time_that_is_no_number_is_not_heeded() -> None:
    conversation = Conversation(
        [problem_response(503, "unavailable", retry_after="Fri, 31 Dec 1999 23:59:59 GMT"), DONE]
    )
    conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert conversation.pauses == [0.1]


def test_retries_are_counted() -> None:
    conversation = Conversation([BUSY] * 3, Retrying(times=2))
    with pytest.raises(errors.Overloaded):
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert len(conversation.requests) == 3


def test_retries_end_with_their_time() -> None:
    conversation = Conversation([SILENT] * 3, Retrying(times=100, seconds=70), seconds_each=30)
    with pytest.raises(errors.Unavailable, match="tried 3 times"):
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert conversation.now - 1_000 < 100


def test_a_hub_that_asks_for_more_time_than_there_is_is_not_waited_for() -> None:
    conversation = Conversation([problem_response(503, "unavailable", retry_after="61")], Retrying(seconds=60))
    with pytest.raises(errors.Unavailable):
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert conversation.pauses == []


def test_without_retries_there_is_one_attempt() -> None:
    conversation = Conversation([REFUSED], Retrying(times=0))
    with pytest.raises(errors.Unavailable):
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert len(conversation.requests) == 1


@pytest.mark.parametrize("lost", [SILENT, Response(504, {}, memoryview(b""))])
def test_a_dequeue_that_was_done_counts_as_done(lost: Reply) -> None:
    conversation = Conversation([lost, DONE_BEFORE])
    assert conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE))) == Dequeued(
        bundle_id=BUNDLE, messages=3
    )


@pytest.mark.parametrize("refused", [REFUSED, BUSY])
def test_a_dequeue_that_somebody_else_did_is_told(refused: Reply) -> None:
    conversation = Conversation([refused, DONE_BEFORE])
    with pytest.raises(errors.BundleUnknown) as caught:
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))
    assert caught.value.details["dequeued_at"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_dequeue_that_was_done_before_the_first_attempt_is_told() -> None:
    conversation = Conversation([DONE_BEFORE])
    with pytest.raises(errors.BundleUnknown):
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))


def test_a_bundle_that_never_was_is_unknown_after_a_retry_too() -> None:
    conversation = Conversation([SILENT, problem_response(404, "bundle_unknown")])
    with pytest.raises(errors.BundleUnknown):
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", BUNDLE)))


def test_a_repeated_publish_sends_the_same_ids() -> None:
    conversation = Conversation([SILENT, RECEIPT])
    conversation.lead(protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1))))
    first, second = conversation.requests
    assert first.body == second.body
    assert b'"id":"' in (first.body or b"")


def test_a_repeated_peek_waits_only_for_the_rest_of_the_time() -> None:
    conversation = Conversation([SILENT, EMPTY], seconds_each=15)
    assert conversation.lead(protocol.peek(conversation.terms, Peek("ada", wait=20))) is Reason.NOTHING_WAITING
    waits = [float(dict(request.query)["wait"]) for request in conversation.requests]
    assert waits == [20, pytest.approx(4.9)]


def test_a_peek_may_take_longer_than_it_waits() -> None:
    conversation = Conversation([EMPTY])
    conversation.lead(protocol.peek(conversation.terms, Peek("ada", wait=1_000)))
    (request,) = conversation.requests
    assert dict(request.query)["wait"] == "25.000"
    assert request.timeout > 25 + 30


def test_an_unreachable_hub_is_named_with_what_to_check() -> None:
    conversation = Conversation([REFUSED], Retrying(times=0))
    with pytest.raises(errors.Unavailable) as caught:
        conversation.lead(protocol.partitions(conversation.terms, ListPartitions()))
    assert "http://hub.test:8470 cannot be reached: connection refused" in caught.value.message
    assert "restante serve" in caught.value.message
    assert caught.value.details == {"address": "http://hub.test:8470"}


def test_a_hub_that_did_not_answer_may_have_done_it() -> None:
    conversation = Conversation([SILENT], Retrying(times=0))
    with pytest.raises(errors.Unavailable, match="may have been carried out"):
        conversation.lead(protocol.erase(conversation.terms, Erase("ada")))


PROXY_DOWN = Response(502, {}, memoryview(b""))
NOT_SURE = problem_response(503, "outcome_unknown")
"""The hub itself does not know."""


@pytest.mark.parametrize(
    "replies",
    [[SILENT], [SILENT, REFUSED], [SILENT, BUSY], [PROXY_DOWN], [PROXY_DOWN, BUSY], [NOT_SURE], [NOT_SURE, REFUSED]],
)
def test_giving_up_after_an_attempt_that_may_have_been_carried_out_says_so(replies: list[Reply]) -> None:
    conversation = Conversation(replies, Retrying(times=len(replies) - 1))
    with pytest.raises(errors.OutcomeUnknown, match="may have been carried out"):
        conversation.lead(protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1))))
    assert len(conversation.requests) == len(replies)


@pytest.mark.parametrize("replies", [[REFUSED], [BUSY, REFUSED], [REFUSED, BUSY]])
def test_giving_up_without_such_an_attempt_leaves_no_doubt(replies: list[Reply]) -> None:
    conversation = Conversation(replies, Retrying(times=len(replies) - 1))
    with pytest.raises(errors.Unavailable) as caught:
        conversation.lead(protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1))))
    assert not isinstance(caught.value, errors.OutcomeUnknown)


@pytest.mark.parametrize("answer", [json_response({}, 201), Response(500, {}, memoryview(b"oops"))])
def test_an_answer_to_a_publish_that_nobody_understands_leaves_it_open(answer: Response) -> None:
    conversation = Conversation([answer])
    with pytest.raises(errors.OutcomeUnknown):
        conversation.lead(protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1))))


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "3"])
def test_a_wrong_number_of_retries_is_refused(wrong: object) -> None:
    with pytest.raises(errors.InvalidRequest, match="retries"):
        Retrying(times=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "1", None])
def test_a_wrong_number_of_seconds_is_refused(wrong: object) -> None:
    with pytest.raises(errors.InvalidRequest, match="seconds"):
        Retrying(seconds=wrong)  # type: ignore[arg-type]
