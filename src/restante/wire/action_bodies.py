"""Actions and outcomes as they travel: the bodies of requests, read strictly and written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from restante.calls.actions import ReportEach, ReportOutcomes
from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import ACTIONS_AT_ONCE_MAX, GROUP_PARTITIONS_AT_ONCE_MAX, OUTCOMES_AT_ONCE_MAX
from restante.model.actions.wanted_action import WantedAction
from restante.model.work.results import OutcomeState, WorkOutcome, WorkProblem
from restante.wire.json_values import Body, compact, utf8_body

_NOTHING = b"{}"
"""The data of an action that says nothing."""
_NUMBER_MAX = 2**63 - 1
"""Larger ones no store and no frame between processes holds."""
ExpiresIn = Annotated[float, Meta(gt=0)]


class ActionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of an action: the thing that it concerns, and what its handler is to know."""

    concerns: str
    data: Raw | UnsetType = UNSET
    id: str | UnsetType = UNSET
    expires_in: ExpiresIn | UnsetType = UNSET
    origin: str | UnsetType = UNSET


class NamedActionBody(ActionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action of many, with its name."""

    action: str


class ActionsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many things to be done."""

    actions: Annotated[tuple[NamedActionBody, ...], Meta(min_length=1, max_length=ACTIONS_AT_ONCE_MAX)]


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason why an action was not done."""

    code: str
    detail: str = ""


class OutcomeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The outcome of one action."""

    sequence_number: Annotated[int, Meta(ge=1, le=_NUMBER_MAX)]
    state: OutcomeState
    attempts: Annotated[int, Meta(ge=0)]
    result: Raw | UnsetType = UNSET
    location: str | None = None
    problem: ProblemBody | None = None
    begun_at: datetime | None = None
    next_attempt_at: datetime | None = None


class OutcomesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The outcomes of actions of one partition, and up to where all have one."""

    generation: Annotated[int, Meta(ge=0, le=_NUMBER_MAX)]
    outcomes: Annotated[tuple[OutcomeBody, ...], Meta(max_length=OUTCOMES_AT_ONCE_MAX)] = ()
    position: Annotated[int, Meta(ge=0, le=_NUMBER_MAX)] | None = None
    release: bool | None = None


class PartitionOutcomesBody(OutcomesBody, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The outcomes of one partition among several."""

    partition: Annotated[int, Meta(ge=0, le=_NUMBER_MAX)]


class JointOutcomesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcomes of actions of several partitions."""

    partitions: Annotated[
        tuple[PartitionOutcomesBody, ...], Meta(min_length=1, max_length=GROUP_PARTITIONS_AT_ONCE_MAX)
    ]


_action_decoder = json_decoder(ActionBody)
_actions_decoder = json_decoder(ActionsBody)
_outcomes_decoder = json_decoder(OutcomesBody)
_joint_decoder = json_decoder(JointOutcomesBody)
_encoder = msgspec.json.Encoder()


def read_action(name: str, body: Body) -> WantedAction:
    return _wanted(name, _decoded(_action_decoder, body))


def read_actions(body: Body) -> tuple[WantedAction, ...]:
    return tuple([_wanted(own.action, own) for own in _decoded(_actions_decoder, body).actions])


def _wanted(name: str, sent: ActionBody) -> WantedAction:
    return WantedAction(
        action=name,
        concerns=sent.concerns,
        data=_NOTHING if sent.data is UNSET else compact(bytes(sent.data)),
        id=None if sent.id is UNSET else sent.id,
        expires_in=None if sent.expires_in is UNSET else sent.expires_in,
        origin=None if sent.origin is UNSET else sent.origin,
    )


def read_outcomes(body: Body) -> OutcomesBody:
    sent: OutcomesBody = _decoded(_outcomes_decoder, body)
    return sent


def read_reports(group: str, body: Body) -> ReportEach:
    """The reports of several partitions of a group."""
    sent: JointOutcomesBody = _decoded(_joint_decoder, body)
    return ReportEach([report_of(group, own.partition, own) for own in sent.partitions])


def report_of(group: str, partition: int, sent: OutcomesBody) -> ReportOutcomes:
    return ReportOutcomes(
        group, partition, sent.generation, outcomes_of(sent), position=sent.position, release=sent.release
    )


def outcomes_of(sent: OutcomesBody) -> list[WorkOutcome]:
    """The outcomes of a report as values."""
    return [
        WorkOutcome(
            sequence_number=own.sequence_number,
            state=own.state,
            attempts=own.attempts,
            result=None if own.result is UNSET else bytes(own.result),
            location=own.location,
            problem=None if own.problem is None else WorkProblem(own.problem.code, own.problem.detail),
            next_attempt_at=_seconds("next_attempt_at", own.next_attempt_at),
            begun_at=_seconds("begun_at", own.begun_at),
        )
        for own in sent.outcomes
    ]


def _seconds(field: str, time: datetime | None) -> float | None:
    if time is None:
        return None
    if time.tzinfo is None:
        raise InvalidRequest(f"{field} must say its zone.", field=field)
    return time.timestamp()


def _decoded(decoder: msgspec.json.Decoder[Any], body: Body) -> Any:  # noqa: ANN401 - what the decoder is of
    try:
        return decoder.decode(utf8_body(body) or b"{}")
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The body does not have the right shape: {error}.") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"The body is no JSON object: {error}.") from error


def action_json(wanted: WantedAction, *, named: bool) -> dict[str, object]:
    """An action as it is sent."""
    said: dict[str, object] = {"concerns": wanted.concerns, "data": Raw(wanted.data)}
    if named:
        said["action"] = wanted.action
    optional = {"id": wanted.id, "expires_in": wanted.expires_in, "origin": wanted.origin}
    return {**said, **{name: value for name, value in optional.items() if value is not None}}


def report_json(call: ReportOutcomes) -> bytes:
    """A report as it is sent."""
    return _encoder.encode(OutcomesBody(**_said(call)))


def reports_json(call: ReportEach) -> bytes:
    """The reports of several partitions as they are sent."""
    parts = [PartitionOutcomesBody(partition=own.partition, **_said(own)) for own in call.reports]
    return _encoder.encode(JointOutcomesBody(partitions=tuple(parts)))


def _said(call: ReportOutcomes) -> dict[str, Any]:
    outcomes = tuple([_outcome_body(outcome) for outcome in call.outcomes])
    return {
        "generation": call.generation,
        "outcomes": outcomes,
        "position": call.position,
        "release": call.release,
    }


def _outcome_body(outcome: WorkOutcome) -> OutcomeBody:
    problem = outcome.problem
    return OutcomeBody(
        sequence_number=outcome.sequence_number,
        state=outcome.state,
        attempts=outcome.attempts,
        result=UNSET if outcome.result is None else Raw(outcome.result),
        location=outcome.location,
        problem=None if problem is None else ProblemBody(code=problem.code, detail=problem.detail),
        begun_at=_time(outcome.begun_at),
        next_attempt_at=_time(outcome.next_attempt_at),
    )


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
