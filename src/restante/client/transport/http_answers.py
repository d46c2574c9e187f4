"""Turning answers of the hub into values and errors."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import Response
from restante.decoders import json_decoder
from restante.errors import (
    Forbidden,
    InvalidClientState,
    InvalidRequest,
    OutcomeUnknown,
    RestanteError,
    Unauthenticated,
    Unavailable,
)
from restante.model.mailboxes.answers import PartitionStatus, RecipientPage, RecipientSummary
from restante.wire.media import PROBLEM, essence
from restante.wire.problems import error_of

T = TypeVar("T")

_DOORS: dict[int, type[RestanteError]] = {401: Unauthenticated, 403: Forbidden}
_STATE = ("producer_group", "owner_level")


class CountAnswer(msgspec.Struct, frozen=True):
    count: int


class Messages(msgspec.Struct, frozen=True):
    messages: int


class PartitionPage(msgspec.Struct, frozen=True):
    partitions: tuple[PartitionStatus, ...]
    next: str | None = None


class Whereabouts(msgspec.Struct, frozen=True):
    partition: int


class _Recipients(msgspec.Struct, frozen=True):
    recipients: tuple[RecipientSummary, ...]
    next: str | None = None


def expect(response: Response, address: HubAddress, *statuses: int) -> Response:
    """The answer if it has one of these statuses; raises the error that it names otherwise."""
    if response.status not in statuses:
        raise error_of_response(response, address)
    return response


def value_of(response: Response, kind: type[T], address: HubAddress) -> T:
    """The value of a JSON answer."""
    try:
        return json_decoder(kind).decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(address, str(error)) from error


def carried_out(response: Response, address: HubAddress, status: int, kind: type[T]) -> T:
    """The JSON answer to a call that changes the hub. If the answer cannot be read, the outcome is unknown."""
    try:
        return value_of(expect(response, address, status), kind, address)
    except Unavailable as error:
        if is_problem(response):
            raise
        raise OutcomeUnknown(f"{error.message} It may have been carried out.", **error.details) from error


def check_state(response: Response, address: HubAddress) -> None:
    """Raise `InvalidClientState` if the answer to a link lacks the producer's state, because asking again would not help."""
    try:
        answer = json_decoder(dict[str, Any]).decode(response.body) if response.status == 201 else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return  # This is not the answer of a hub.
    missing = [name for name in _STATE if answer is not None and answer.get(name) is None]
    if missing:
        raise InvalidClientState(
            f"The hub at {address.url} opened the link without saying its {' and '.join(missing)}, so nothing can be "
            "numbered. Is it a hub of this version?",
            address=address.url,
        )


def is_problem(response: Response) -> bool:
    return essence(response.headers.get("content-type", "")) == PROBLEM


def error_of_response(response: Response, address: HubAddress) -> RestanteError:
    """The error that the hub named, or an error that says that no hub answered."""
    if is_problem(response):
        try:
            return error_of(json_decoder(dict[str, Any]).decode(response.body))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return unreadable(address, str(error))
    if response.status in _DOORS:
        return _DOORS[response.status]("The hub does not let this token in. Give a valid one: token=….")
    if response.status >= 500:
        return Unavailable(
            f"The answer of {address.url} has the status {response.status}, and is not that of a hub. Is it a proxy whose hub "
            "is down?",
            address=address.url,
        )
    return InvalidRequest(
        f"The server at {address.url} is no hub, or has no such route: its answer is {response.status}. Check the address.",
        address=address.url,
    )


def unreadable(address: HubAddress, why: str) -> Unavailable:
    return Unavailable(
        f"The answer of {address.url} cannot be read: {why}. Is it a hub, and of this version?", address=address.url
    )


def recipients_of(response: Response, address: HubAddress) -> RecipientPage:
    page = value_of(response, _Recipients, address)
    try:
        as_of = datetime.fromisoformat(response.headers["restante-as-of"])
    except (KeyError, ValueError) as error:
        raise unreadable(address, "the header restante-as-of is missing or wrong") from error
    return RecipientPage(recipients=page.recipients, next=page.next, as_of=as_of)
