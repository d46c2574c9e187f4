"""Errors on the wire: problem details (RFC 9457) out of an error, and the same error out of problem details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime

import msgspec

from restante.decoders import converted
from restante.errors import (
    Fault,
    FaultyMessages,
    Internal,
    InvalidRequest,
    PartlyAnswered,
    PartlyStored,
    RestanteError,
    Unavailable,
)
from restante.limits import FAULTS_SHOWN_MAX

TYPE_PREFIX = "/docs/problems#"

_STATUS: dict[int, tuple[str, ...]] = {
    400: ("invalid_request", "invalid_operation", "invalid_message", "partition_mismatch", "invalid_item"),
    401: ("unauthenticated",),
    403: ("forbidden",),
    404: (
        "bundle_unknown",
        "batch_unknown",
        "producer_unknown",
        "source_unknown",
        "job_unknown",
        "partition_unknown",
        "consignment_unknown",
        "message_unknown",
        "group_unknown",
        "member_unknown",
        "action_unknown",
        "node_unknown",
        "not_found",
    ),
    405: ("method_not_allowed",),
    406: ("not_acceptable",),
    409: (
        "message_conflict",
        "bundle_open",
        "bundle_id_used",
        "batch_sealed",
        "batch_key_used",
        "invalid_client_state",
        "producer_disconnected",
        "link_refused",
        "consignment_incomplete",
        "consignment_closed",
        "message_collected",
        "message_settled",
        "position_ahead",
        "group_conflict",
        "generation_stale",
        "action_taken",
        "last_node",
    ),
    410: ("position_gone", "message_erased"),
    413: ("body_too_large",),
    415: ("unsupported_media_type",),
    421: ("not_owner",),
    429: ("overloaded",),
    500: ("internal", "data_damaged", "format_unsupported", "extra_missing", "invalid_settings"),
    503: ("unavailable", "outcome_unknown", "partly_stored", "store_conflict", "data_locked"),
    504: ("origin_did_not_deliver",),
    507: ("storage_full",),
}
_STATUS_OF = {code: status for status, codes in _STATUS.items() for code in codes}
CODES = tuple(_STATUS_OF)
"""Every code that a problem may have, by its status."""

_TITLES = {
    "invalid_request": "The request is not valid",
    "invalid_operation": "This cannot be done now",
    "invalid_message": "Messages are not valid",
    "partition_mismatch": "A recipient does not belong to the partition",
    "invalid_item": "A text is not an item id",
    "unauthenticated": "A valid token is needed",
    "forbidden": "The token does not allow this",
    "bundle_unknown": "There is no such bundle",
    "batch_unknown": "There is no such batch",
    "producer_unknown": "There is no such producer",
    "source_unknown": "There is no such source",
    "job_unknown": "There is no such job",
    "partition_unknown": "There is no such partition",
    "consignment_unknown": "There is no such consignment",
    "message_unknown": "There is no such message",
    "group_unknown": "There is no such group",
    "member_unknown": "There is no such member of the group",
    "not_found": "There is nothing at this address",
    "method_not_allowed": "The method is not allowed on this path",
    "not_acceptable": "No answer of an accepted type can be given",
    "message_conflict": "A message was stored before with other content",
    "bundle_open": "Another bundle is open",
    "bundle_id_used": "The bundle id was used before",
    "batch_sealed": "The batch is sealed",
    "batch_key_used": "The batch key is in use",
    "invalid_client_state": "What was sent does not follow what was sent before",
    "producer_disconnected": "Another producer has taken over",
    "link_refused": "The offered number is not the last one",
    "consignment_incomplete": "Not all that was announced is there",
    "consignment_closed": "The consignment is closed",
    "message_collected": "The message has been collected",
    "message_settled": "The message was withdrawn or has expired",
    "position_gone": "The position is past its retention",
    "position_ahead": "The position is beyond the end of the feed",
    "group_conflict": "The group has another filter",
    "generation_stale": "The partition was given to somebody since",
    "action_taken": "The action belongs to another group",
    "action_unknown": "There is no such action",
    "node_unknown": "There is no such node",
    "last_node": "It is the only node",
    "message_erased": "The message was erased",
    "body_too_large": "The body is too large",
    "unsupported_media_type": "The type or encoding of the body is not understood",
    "not_owner": "Another hub owns the partition",
    "overloaded": "The hub is overloaded",
    "internal": "The hub failed",
    "data_damaged": "Stored data is damaged",
    "format_unsupported": "The data is of another version",
    "extra_missing": "A part of the hub is not installed",
    "invalid_settings": "The settings are not valid",
    "unavailable": "The hub is not available",
    "outcome_unknown": "It may have been carried out",
    "partly_stored": "Some messages are stored, others are not",
    "store_conflict": "Another owner has taken the partition",
    "data_locked": "The data folder is in use",
    "origin_did_not_deliver": "The origin did not deliver",
    "storage_full": "The storage is full",
}

_MEMBERS = frozenset({"type", "title", "status", "detail", "code", "retriable", "correlation_id", "errors"})
"""The members that every problem may have; the rest are the details of its code."""
_FAULTS = list[Fault]


def status_of(code: str) -> int:
    """The HTTP status of a code; one that is not known is a defect of the hub."""
    return _STATUS_OF.get(code, 500)


def title_of(code: str) -> str:
    """The title of a code, in a few words."""
    return _TITLES.get(code, "Something went wrong")


def problem_of(error: RestanteError, *, correlation_id: str) -> dict[str, object]:
    """The problem details of an error: plain values that JSON can say."""
    status = status_of(error.code)
    problem: dict[str, object] = {
        "type": TYPE_PREFIX + error.code,
        "title": title_of(error.code),
        "status": status,
        "detail": error.message,
        "code": error.code,
        # A hub that this program has closed may be back for others.
        "retriable": type(error).retriable,
        "correlation_id": correlation_id,
    }
    if isinstance(error, FaultyMessages):
        problem["errors"] = msgspec.to_builtins(error.faults[:FAULTS_SHOWN_MAX], builtin_types=(tuple,))
    return {**_plain_details(error), **problem}


def error_of(problem: Mapping[str, object]) -> RestanteError:
    """The error that a problem describes: the same class, message, details and faults."""
    kind = _KINDS.get(str(problem.get("code")))
    details = {name: _value(name, value) for name, value in problem.items() if name not in _MEMBERS}
    if kind is None:
        kind = _kind_by_status(problem.get("status"))
        details["code"] = problem.get("code")
    if kind is PartlyStored and problem.get("retriable") is True:
        kind = PartlyAnswered
    if issubclass(kind, Internal):
        details["correlation_id"] = problem.get("correlation_id")
    error = kind(str(problem.get("detail") or problem.get("title") or "The hub gave no reason."))
    error.details = details
    if isinstance(error, FaultyMessages):
        error.faults = _faults(problem.get("errors"))
    return error


def _plain_details(error: RestanteError) -> dict[str, object]:
    """The details that the code needs, as JSON can say them; of a defect nothing about the inside."""
    if isinstance(error, Internal) or type(error) is RestanteError:
        return {}
    return {name: msgspec.to_builtins(value, enc_hook=str) for name, value in error.details.items()}


def _value(name: str, value: object) -> object:
    """Times are times again, by the names that they have everywhere."""
    if name.endswith("_at") and isinstance(value, str):
        with suppress(msgspec.ValidationError):
            return converted(value, datetime)
    return value


def _faults(errors: object) -> tuple[Fault, ...]:
    try:
        return tuple(converted(errors or [], _FAULTS))
    except msgspec.ValidationError:
        return ()


def _kind_by_status(status: object) -> type[RestanteError]:
    return InvalidRequest if isinstance(status, int) and 400 <= status < 500 else Unavailable


def _all_kinds(kind: type[RestanteError]) -> Iterator[type[RestanteError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _all_kinds(below)


_KINDS = {kind.code: kind for kind in _all_kinds(RestanteError) if "code" in vars(kind)}
