"""Which numbers parcels get, and what is announced at the commit."""

from __future__ import annotations

import pytest

from restante import errors
from restante.client.consignments.staged import StageCall, Staging
from restante.model.consignments.consignment_answers import Winner
from restante.model.publishing.message import Message

MESSAGE = Message(recipient="r", data=1)
LARGE = [Message(recipient="r", data="x" * 1_000_000) for _ in range(10)]


def stage(staging: Staging, writer: str, attempt: int, sent: object = MESSAGE, parcel: int | None = None) -> list[int]:
    """All of it succeeds; the numbers."""
    with staging.begin(writer, attempt, parcel) as call:
        numbered = [(number, len(piece)) for number, piece in call.pieces(sent)]
        for number, messages in numbered:
            call.staged(number, messages)
    return [number for number, _ in numbered]


def fail(staging: Staging, error: BaseException, sent: object = MESSAGE, *, attempt: int = 0, after: int = 0) -> None:
    """So many parcels are staged, then it fails."""
    call = staging.begin("w", attempt)
    for number, piece in list(call.pieces(sent))[:after]:
        call.staged(number, len(piece))
    leave(call, error)


def leave(call: StageCall, error: BaseException) -> None:
    with pytest.raises(type(error)), call:
        raise error


def test_numbers_count_up_for_each_attempt_of_a_writer() -> None:
    staging = Staging()
    assert [stage(staging, "w", 0), stage(staging, "w", 0), stage(staging, "w", 1)] == [[0], [1], [0]]
    assert stage(staging, "v", 0, LARGE) == [0, 1, 2]
    assert stage(staging, "v", 0) == [3]


def test_a_given_number_is_one_parcel_and_numbers_go_on_after_it() -> None:
    staging = Staging()
    assert stage(staging, "w", 0, LARGE, parcel=7) == [7]
    assert stage(staging, "w", 0, LARGE, parcel=7) == [7]
    assert stage(staging, "w", 0, parcel=2) == [2]
    assert stage(staging, "w", 0) == [8]
    assert staging.winners() == (Winner(writer="w", attempt=0, messages=12),)


def test_the_attempt_that_was_staged_last_wins_and_writers_keep_their_order() -> None:
    staging = Staging()
    for writer, attempt in (("b", 0), ("a", 3), ("b", 1), ("a", 2), ("b", 1)):
        stage(staging, writer, attempt)
    assert staging.winners() == (
        Winner(writer="b", attempt=1, messages=2),
        Winner(writer="a", attempt=2, messages=1),
    )


def test_nothing_staged_has_no_winners() -> None:
    assert Staging().winners() == ()


def test_an_empty_attempt_is_announced_as_such() -> None:
    staging = Staging()
    assert stage(staging, "w", 0, []) == [0]
    assert staging.winners() == (Winner(writer="w", attempt=0, messages=0),)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_call_that_failed_puts_its_attempt_in_doubt_until_it_is_repeated(after: int) -> None:
    staging = Staging()
    stage(staging, "w", 0)
    fail(staging, errors.OutcomeUnknown("no answer"), LARGE, after=after)
    with pytest.raises(errors.InvalidOperation, match="attempt 0"):
        staging.winners()
    assert stage(staging, "w", 0, LARGE) == [1, 2, 3]
    assert staging.winners() == (Winner(writer="w", attempt=0, messages=11),)


def test_another_attempt_leaves_the_doubt_behind() -> None:
    staging = Staging()
    fail(staging, KeyboardInterrupt())
    stage(staging, "w", 1)
    assert staging.winners() == (Winner(writer="w", attempt=1, messages=1),)


FAILURES = [errors.InvalidMessage("no"), errors.OutcomeUnknown("no answer"), ZeroDivisionError(), KeyboardInterrupt()]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("before", [True, False], ids=["some staged before", "nothing staged before"])
def test_after_a_failure_of_any_kind_nothing_is_announced_until_the_attempt_is_staged(
    error: BaseException, before: bool
) -> None:
    staging = Staging()
    stage(staging, "v", 0)
    if before:
        stage(staging, "w", 0)
    fail(staging, error)
    with pytest.raises(errors.InvalidOperation, match="'w' staged in attempt 0") as caught:
        staging.winners()
    assert caught.value.details == {"writer": "w", "attempt": 0}
    stage(staging, "v", 0)
    with pytest.raises(errors.InvalidOperation):
        staging.winners()
    assert stage(staging, "w", 0) == [int(before)]
    assert staging.winners() == (
        Winner(writer="v", attempt=0, messages=2),
        Winner(writer="w", attempt=0, messages=1 + before),
    )


def test_a_call_that_fails_before_its_first_parcel_counts_as_failed() -> None:
    staging = Staging()
    leave(staging.begin("w", 0), ZeroDivisionError())
    with pytest.raises(errors.InvalidOperation, match="attempt 0"):
        staging.winners()
    assert stage(staging, "w", 0) == [0]
    assert staging.winners() == (Winner(writer="w", attempt=0, messages=1),)


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_an_earlier_attempt_does_not_stand_in_for_one_that_failed(error: BaseException) -> None:
    staging = Staging()
    stage(staging, "w", 0)
    fail(staging, error, attempt=1)
    stage(staging, "w", 0)
    with pytest.raises(errors.InvalidOperation, match="attempt 1"):
        staging.winners()
    stage(staging, "w", 2)
    assert staging.winners() == (Winner(writer="w", attempt=2, messages=1),)


def test_an_earlier_attempt_that_fails_late_harms_nothing() -> None:
    staging = Staging()
    stage(staging, "w", 1)
    fail(staging, errors.InvalidMessage("no"), attempt=0)
    assert staging.winners() == (Winner(writer="w", attempt=1, messages=1),)


def test_a_call_that_was_under_way_does_not_make_another_ones_failure_good() -> None:
    staging = Staging()
    with staging.begin("w", 0) as under_way:
        ((number, _),) = under_way.pieces(MESSAGE)
        fail(staging, errors.InvalidMessage("no"))
        under_way.staged(number, 1)
    with pytest.raises(errors.InvalidOperation):
        staging.winners()
    stage(staging, "w", 0)
    assert staging.winners() == (Winner(writer="w", attempt=0, messages=2),)


def test_a_refusal_of_one_parcel_of_several_does() -> None:
    staging = Staging()
    fail(staging, errors.InvalidMessage("no"), LARGE, after=1)
    with pytest.raises(errors.InvalidOperation):
        staging.winners()


def test_numbers_are_not_given_back_when_another_call_took_later_ones() -> None:
    staging = Staging()
    call = staging.begin("w", 0)
    assert [number for number, _ in call.pieces(MESSAGE)] == [0]
    assert stage(staging, "w", 0) == [1]
    leave(call, errors.Unavailable("away"))
    assert stage(staging, "w", 0) == [2]
    with pytest.raises(errors.InvalidOperation):
        staging.winners()


@pytest.mark.parametrize(
    ("writer", "attempt", "parcel"),
    [(3, 0, 0), (None, 0, 0), ("w", "0", 0), ("w", None, 0), ("w", 0, 1.5), ("\ud800", 0, 0)],
)
def test_what_is_no_name_of_a_parcel_is_refused(writer: object, attempt: object, parcel: object) -> None:
    with pytest.raises(errors.InvalidRequest):
        Staging().begin(writer, attempt, parcel)
