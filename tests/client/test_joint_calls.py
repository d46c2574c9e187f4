"""Which calls go out together, and whose fault a refusal is."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from restante import errors, limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches.joint_calls import (
    ACKNOWLEDGEMENTS,
    SENDS,
    JointCall,
    JointQueue,
    concerns_one_call,
    joint_call,
    own_error,
)
from restante.model.batches.batch_answers import ItemIndices, ItemRange


class Waiting(NamedTuple):
    call: JointCall


def line(*weights: int) -> JointQueue[Waiting]:
    queue: JointQueue[Waiting] = JointQueue(ACKNOWLEDGEMENTS)
    queue.waiting.extend(Waiting(JointCall(b"{}", weight)) for weight in weights)
    return queue


def weights(taken: list[Waiting]) -> list[int]:
    return [each.call.weight for each in taken]


def test_as_many_go_along_as_fit_and_the_others_stay_in_their_order() -> None:
    waiting = line(4_000, 5_000, 1_000, 1, 3)
    assert weights(waiting.take_first_along()) == [4_000, 5_000, 1_000]
    assert weights(waiting.take_along(JointCall(b"{}", 9_998))) == [1]
    assert weights(list(waiting.waiting)) == [3]


def test_calls_of_different_owners_share_no_request_and_stay_in_their_order() -> None:
    waiting: JointQueue[Waiting] = JointQueue(ACKNOWLEDGEMENTS)
    waiting.waiting.extend(Waiting(JointCall(b"{}", number, "ab"[number % 2])) for number in range(6))
    assert weights(waiting.take_first_along()) == [0, 2, 4]
    assert weights(waiting.take_along(JointCall(b"{}", 1))) == []
    assert weights(waiting.take_first_along()) == [1, 3, 5]


def test_a_request_has_no_more_calls_than_the_hub_takes() -> None:
    waiting = line(*[1] * (limits.ACKNOWLEDGED_CALLS_MAX + 5))
    assert len(waiting.take_along(JointCall(b"{}", 1))) == limits.ACKNOWLEDGED_CALLS_MAX - 1
    assert len(waiting.waiting) == 6


def test_many_sends_are_shared_evenly_by_the_requests_that_may_go_and_few_go_together() -> None:
    waiting: JointQueue[Waiting] = JointQueue(SENDS)
    waiting.waiting.extend(Waiting(JointCall(b"{}", 1)) for _ in range(41))
    assert [len(waiting.take_first_along(free)) for free in (2, 1)] == [21, 20]
    waiting.waiting.extend(Waiting(JointCall(b"{}", 1)) for _ in range(limits.SENDS_SHARED_MIN - 1))
    assert len(waiting.take_first_along(2)) == limits.SENDS_SHARED_MIN - 1
    assert not waiting.waiting


def test_a_call_weighs_what_it_names() -> None:
    ranges = [ItemRange(group="b:0", start=0, upto=10**9)]
    call = joint_call(AcknowledgeItems(["a", "b"], ranges, [ItemIndices(group="b:0", indices=[1, 2, 3])]))
    assert call.weight == 6


def test_any_two_calls_that_are_not_large_fit_together() -> None:
    half = limits.ACKNOWLEDGE_ITEMS_TARGET // 2
    assert not ACKNOWLEDGEMENTS.is_large(JointCall(b"", half))
    assert ACKNOWLEDGEMENTS.is_large(JointCall(b"", half + 1))
    assert len(line(half, half).take_first_along()) == 2


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.InvalidItem("x"), True),
        (errors.InvalidRequest("x"), True),
        (errors.BodyTooLarge("x"), True),
        (errors.Internal("x"), True),
        (errors.Unavailable("x"), False),
        (errors.OutcomeUnknown("x"), False),
        (errors.Overloaded("x"), False),
        (errors.Unauthenticated("x"), False),
        (errors.Forbidden("x"), False),
        (ValueError("x"), False),
    ],
)
def test_only_a_refusal_of_what_was_said_may_concern_one_call(error: Exception, expected: bool) -> None:
    assert concerns_one_call(error) is expected


def test_each_caller_gets_an_error_of_its_own_that_says_the_same() -> None:
    error = errors.Unavailable("It is down.", address="here")
    error.retriable = False
    error.__cause__ = OSError("why")
    own = own_error(error)
    assert own is not error
    assert isinstance(own, errors.Unavailable)
    assert (own.message, own.details, own.retriable) == ("It is down.", {"address": "here"}, False)
    assert own.__cause__ is error.__cause__
