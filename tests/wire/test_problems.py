"""Errors on the wire: each comes back as the same error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from restante import errors
from restante.errors import Fault, FaultyMessages, RestanteError
from restante.limits import FAULTS_SHOWN_MAX
from restante.wire.problems import error_of, problem_of, status_of


def all_kinds(kind: type[RestanteError] = RestanteError) -> Iterator[type[RestanteError]]:
    for below in kind.__subclasses__():
        yield below
        yield from all_kinds(below)


KINDS = sorted({kind for kind in all_kinds() if "code" in vars(kind)}, key=lambda kind: kind.code)
FAULTS = (
    Fault(index=0, code="invalid_message", field="id", detail="no id", id="x"),
    Fault(index=7, code="invalid_message", detail="bad"),
)


def over_the_wire(error: RestanteError) -> RestanteError:
    return error_of(msgspec.json.decode(msgspec.json.encode(problem_of(error, correlation_id="c-1"))))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_error_comes_back_as_itself(kind: type[RestanteError]) -> None:
    error = kind("it went wrong: do it otherwise")
    if isinstance(error, FaultyMessages):
        error.faults = FAULTS
    elif not isinstance(error, errors.Internal):
        error.details = {
            "bundle_id": "b",
            "expected": 5,
            "dequeued_at": datetime(2030, 1, 1, tzinfo=UTC),
            "allow": ["GET"],
            "owner": None,
        }
    else:
        error.details = {"correlation_id": "c-1"}
    again = over_the_wire(error)
    assert type(again) is kind
    assert (again.code, again.message, again.details) == (error.code, error.message, error.details)
    assert getattr(again, "faults", None) == getattr(error, "faults", None)


@pytest.mark.parametrize("kind", [errors.PartlyStored, errors.PartlyAnswered])
def test_what_is_partly_stored_may_be_sent_again_if_the_hub_says_so(kind: type[RestanteError]) -> None:
    again = over_the_wire(kind("two shards did not answer"))
    assert type(again) is kind
    assert again.retriable is (kind is errors.PartlyAnswered)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_error_has_a_status_a_title_and_an_address(kind: type[RestanteError]) -> None:
    problem = problem_of(kind("text"), correlation_id="c")
    assert problem["status"] == status_of(kind.code)
    assert problem["title"] != "Something went wrong"
    assert problem["type"] == f"/docs/problems#{kind.code}"
    assert problem["retriable"] is kind.retriable
    assert (problem["detail"], problem["code"], problem["correlation_id"]) == ("text", kind.code, "c")
    assert (problem["status"] == 500) == (kind.code in FAILURES)


FAILURES = {"internal", "data_damaged", "format_unsupported", "extra_missing", "invalid_settings"}
"""The codes that mean that something is wrong on the hub's side."""


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("invalid_message", 400),
        ("unauthenticated", 401),
        ("forbidden", 403),
        ("bundle_unknown", 404),
        ("partition_unknown", 404),
        ("batch_unknown", 404),
        ("batch_sealed", 409),
        ("batch_key_used", 409),
        ("invalid_item", 400),
        ("method_not_allowed", 405),
        ("not_acceptable", 406),
        ("message_conflict", 409),
        ("message_erased", 410),
        ("body_too_large", 413),
        ("unsupported_media_type", 415),
        ("not_owner", 421),
        ("overloaded", 429),
        ("internal", 500),
        ("store_conflict", 503),
        ("storage_full", 507),
        ("never_heard_of", 500),
    ],
)
def test_a_code_has_its_status(code: str, status: int) -> None:
    assert status_of(code) == status


def test_at_most_a_hundred_faults_are_shown() -> None:
    faults = [Fault(index=index, code="invalid_message", detail="bad") for index in range(FAULTS_SHOWN_MAX + 1)]
    problem = problem_of(errors.InvalidMessage("bad", faults), correlation_id="c")
    shown = problem["errors"]
    assert isinstance(shown, list | tuple)
    assert len(shown) == FAULTS_SHOWN_MAX
    assert shown[0] == {"index": 0, "code": "invalid_message", "detail": "bad"}


def test_a_defect_tells_nothing_about_the_inside() -> None:
    problem = problem_of(errors.Internal("the hub failed", path="/secret"), correlation_id="c")
    assert "path" not in problem


def test_details_cannot_take_the_place_of_what_every_problem_has() -> None:
    problem = problem_of(errors.BundleOpen("open", status=200, code="fine"), correlation_id="c")
    assert (problem["status"], problem["code"]) == (409, "bundle_open")


@pytest.mark.parametrize(
    ("status", "kind"), [(418, errors.InvalidRequest), (599, errors.Unavailable), ("x", errors.Unavailable)]
)
def test_an_unknown_code_is_an_error_by_its_status_and_keeps_the_code(
    status: object, kind: type[RestanteError]
) -> None:
    error = error_of({"status": status, "code": "brand_new", "detail": "text", "message": "mine", "self": 1})
    assert type(error) is kind
    assert error.details == {"code": "brand_new", "message": "mine", "self": 1}
    assert error.message == "text"


@pytest.mark.parametrize("problem", [{}, {"code": 5}, {"code": "invalid_message", "errors": [{"index": "x"}]}])
def test_a_problem_that_is_none_is_still_an_error(problem: dict[str, object]) -> None:
    error = error_of(problem)
    assert isinstance(error, RestanteError)
    assert error.message
