"""Answers of the hub as values and errors."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from restante.client.address import Address
from restante.client.exchange import Response
from restante.errors import (
    Forbidden,
    InvalidRequest,
    OriginDidNotDeliver,
    OutcomeUnknown,
    RestanteError,
    Unauthenticated,
    Unavailable,
)
from restante.model.answers import BundleAnswer, HistoryPage, PartitionStatus, RecipientPage, RecipientSummary
from restante.model.feed_answers import FeedAnswer, SnapshotAnswer
from restante.model.outtake import MESSAGE_SCHEMA, to_messages
from restante.wire.media import PROBLEM, essence
from restante.wire.problems import error_of

T = TypeVar("T")

_DOORS: dict[int, type[RestanteError]] = {401: Unauthenticated, 403: Forbidden}
_NOT_DELIVERED = "origin_did_not_deliver"


class Count(msgspec.Struct, frozen=True):
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


def expect(response: Response, address: Address, *statuses: int) -> Response:
    """The answer, if it is one of these; else the error that it tells."""
    if response.status not in statuses:
        raise error_of_response(response, address)
    return response


def value_of(response: Response, kind: type[T], address: Address) -> T:
    """A JSON answer."""
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable(address, str(error)) from error


def carried_out(response: Response, address: Address, status: int, kind: type[T]) -> T:
    """The JSON answer to what changes the hub. An answer that nobody understands leaves open whether it did."""
    try:
        return value_of(expect(response, address, status), kind, address)
    except Unavailable as error:
        if is_problem(response):
            raise
        raise OutcomeUnknown(f"{error.message} It may have been carried out.", **error.details) from error


def is_problem(response: Response) -> bool:
    return essence(response.headers.get("content-type", "")) == PROBLEM


def error_of_response(response: Response, address: Address) -> RestanteError:
    """The error that the hub named; or that this is no hub."""
    if is_problem(response):
        try:
            return error_of(msgspec.json.decode(response.body, type=dict[str, Any]))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return _unreadable(address, str(error))
    if response.status in _DOORS:
        return _DOORS[response.status]("The hub does not let this token in. Give a valid one: token=….")
    if response.status >= 500:
        return Unavailable(
            f"What answers at {address.url} says {response.status}, and not as a hub does. Is a proxy in between, whose "
            "hub is down?",
            address=address.url,
        )
    return InvalidRequest(
        f"What answers at {address.url} is no hub, or has no such route: it says {response.status}. Check the address.",
        address=address.url,
    )


def unreachable(address: Address, reason: str) -> Unavailable:
    advice = "Check the address, and that the hub runs there (`restante serve`)."
    return Unavailable(f"The hub at {address.url} cannot be reached: {reason}. {advice}", address=address.url)


def table_of(response: Response, address: Address) -> pa.Table:
    """An Arrow answer. Its columns lie in the bytes that came, without a copy."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(response.body)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(address, str(error)) from error


def bundle_of(response: Response, recipient: str, address: Address) -> BundleAnswer | None:
    """What a peek answered."""
    headers = response.headers
    if response.status == 204:
        if headers.get("restante-empty-reason") == _NOT_DELIVERED:
            raise OriginDidNotDeliver(
                f"The origin of {recipient}'s bundle did not deliver its content in time. The bundle stays open: peek "
                "again later."
            )
        return None
    claim_check = headers.get("restante-content") == "claim-check"
    try:
        return BundleAnswer(
            bundle_id=headers["restante-bundle-id"],
            recipient=recipient,
            origin=unquote(headers["restante-origin"]),
            kind=unquote(headers["restante-kind"]),
            document_types=_texts(headers["restante-document-types"].split(",")),
            message_count=int(headers["restante-message-count"]),
            table=MESSAGE_SCHEMA.empty_table() if claim_check else table_of(response, address),
            content=bytes(response.body) if claim_check else None,
            media_type=headers["content-type"] if claim_check else None,
        )
    except (KeyError, ValueError) as error:
        raise _unreadable(address, f"a header of the bundle is missing or wrong: {error}") from error


def history_of(response: Response, address: Address) -> HistoryPage:
    following = response.headers.get("restante-next")
    messages = to_messages(table_of(response, address))
    return HistoryPage(messages=messages, next=None if following is None else int(following))


def feed_of(response: Response, address: Address) -> FeedAnswer:
    """Changes of a partition."""
    return FeedAnswer(
        table=table_of(response, address),
        next=_number(response, "restante-next", address),
        start=_number(response, "restante-start", address),
        end=_number(response, "restante-end", address),
    )


def snapshot_of(response: Response, address: Address) -> SnapshotAnswer:
    return SnapshotAnswer(
        table=table_of(response, address),
        next=response.headers.get("restante-next"),
        position=_number(response, "restante-position", address),
    )


def recipients_of(response: Response, address: Address) -> RecipientPage:
    page = value_of(response, _Recipients, address)
    as_of = datetime.fromisoformat(response.headers["restante-as-of"])
    return RecipientPage(recipients=page.recipients, next=page.next, as_of=as_of)


def _number(response: Response, header: str, address: Address) -> int:
    try:
        return int(response.headers[header])
    except (KeyError, ValueError) as error:
        raise _unreadable(address, f"the header {header} is missing or wrong") from error


def _texts(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(unquote(part.strip()) for part in parts if part.strip())


def _unreadable(address: Address, why: str) -> Unavailable:
    return Unavailable(
        f"The answer of {address.url} cannot be read: {why}. Is it a hub, and of this version?", address=address.url
    )
