"""Consignments: opened, staged into by many writers, committed at one moment, discarded, looked at."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

import msgspec

from restante.calls.call import Home, query_names
from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ListConsignments,
    ReadConsignment,
    StageParcel,
)
from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import CONSIGNMENT_ATTEMPTS_MAX, SEND_BYTES_MAX, WRITER_NUMBER_MAX
from restante.model.access.access import Role
from restante.model.columns.text_ids import is_uuid
from restante.server.connections.bodies import JsonBounds, decoded, read_json, read_nothing, read_request
from restante.server.connections.exchange import Exchange
from restante.server.connections.incoming_messages import incoming, read_apart
from restante.server.desk import Desk
from restante.server.requests.call_bodies import body_of
from restante.server.requests.options import asked
from restante.server.requests.producer_numbers import refuse_numbers, whole_number
from restante.server.requests.publish_headers import BATCH_HEADER, SOURCE_HEADER, refuse_header
from restante.server.route_table import Route

_NO_STORE = ((b"cache-control", b"no-store"),)
_CONSIGNMENTS = "/v1/consignments"
_CONSIGNMENT = "/v1/consignments/{consignment}"


OPEN_BODY = body_of(
    BeginConsignment,
    "OpenConsignmentBody",
    "The key is the caller's own name for the consignment: a caller that opens the same key gets the same one.",
)
COMMIT_BODY = body_of(
    CommitConsignment,
    "CommitBody",
    "The attempts that count, and how many messages each has staged, in the order in which they are to be numbered.",
    given=("consignment_id",),
)
_commit_decoder = json_decoder(COMMIT_BODY.shape)
_COMMIT_BOUNDS = JsonBounds(3, 4 * CONSIGNMENT_ATTEMPTS_MAX)


async def open_consignment(desk: Desk, exchange: Exchange) -> None:
    call = OPEN_BODY.call(exchange, await read_request(desk, exchange, OPEN_BODY.shape))
    opened = await desk.call(call, exchange.grant)
    # The status says whether the consignment is new, so `created` has its default, which is not written. The answer may contain a
    # secret.
    shown = msgspec.structs.replace(opened, created=True)
    await exchange.json(201 if opened.created else 200, shown, headers=_NO_STORE)


class _Place(NamedTuple):
    """The place of a parcel in a consignment."""

    writer: str
    attempt: int
    parcel: int


def _place_of(exchange: Exchange) -> _Place:
    return _Place(_required(exchange, "writer"), _number(exchange, "attempt"), _number(exchange, "parcel"))


def _number(exchange: Exchange, name: str) -> int:
    given = _required(exchange, name)
    number = whole_number(given, WRITER_NUMBER_MAX)
    if number is None:
        raise InvalidRequest(
            f"{name} must be a whole number from 0 to {WRITER_NUMBER_MAX}, not {given!r}.", parameter=name
        )
    return number


def _required(exchange: Exchange, name: str) -> str:
    given = exchange.text(name)
    if given is None:
        raise InvalidRequest(
            f"{name} is missing: a parcel is staged with ?writer=…&attempt=…&parcel=….", parameter=name
        )
    return given


def _refuse_headers(exchange: Exchange) -> None:
    """Refuse headers of a publish that say what a parcel of a consignment cannot have."""
    refuse_header(exchange, BATCH_HEADER, "open the consignment with a batch, and leave the header out.")
    refuse_header(exchange, SOURCE_HEADER, "what has a source is published, not staged; leave the header out.")
    refuse_numbers(exchange)


def _consignment_of(exchange: Exchange) -> str:
    """The id in the path. The error for a key in its place says how to look for the key."""
    given = exchange.place["consignment"]
    if not is_uuid(given):
        raise InvalidRequest(
            f"A consignment is named by its id, a UUID of 36 characters, not {given!r}. To look for a key: GET "
            f"{_CONSIGNMENTS}?key={quote(given, safe='')}",
            parameter="consignment",
        )
    return given


async def stage(desk: Desk, exchange: Exchange) -> None:
    _refuse_headers(exchange)
    consignment, place = _consignment_of(exchange), _place_of(exchange)
    async with incoming(desk, exchange) as sent:
        staged = await desk.link_of(exchange.grant).call(StageParcel(consignment, sent, *place))
    desk.metrics.staged.add(staged.staged)
    await exchange.json(201, staged)


async def commit(desk: Desk, exchange: Exchange) -> None:
    consignment = _consignment_of(exchange)
    with desk.room.publish() as parcel:
        body = await read_json(desk, exchange, parcel, bounds=_COMMIT_BOUNDS)
        sent = await read_apart(desk, len(body), _commit_sent, body)
        call = COMMIT_BODY.call(exchange, sent, consignment_id=consignment)
        receipt = await desk.link_of(exchange.grant).call(call)
    await exchange.json(200, receipt)


def _commit_sent(body: bytes | bytearray | memoryview) -> msgspec.Struct:
    return decoded(body or b"{}", _commit_decoder, COMMIT_BODY.shape)


async def discard(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(DiscardConsignment(_consignment_of(exchange)), exchange.grant)
    await exchange.answer(204)


async def show(desk: Desk, exchange: Exchange) -> None:
    found = await desk.call(ReadConsignment(_consignment_of(exchange)), exchange.grant)
    await exchange.json(200, found, headers=_NO_STORE)


async def consignments(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, ListConsignments)
    await exchange.json(200, await desk.call(call, exchange.grant))


_USING = frozenset({Role.PUBLISHER})
_LOOKING = frozenset({Role.PUBLISHER, Role.READER})

ROUTES = (
    Route("POST", _CONSIGNMENTS, open_consignment, _USING),
    Route("GET", _CONSIGNMENTS, consignments, _LOOKING, query_names(ListConsignments)),
    Route("GET", _CONSIGNMENT, show, _LOOKING),
    Route("DELETE", _CONSIGNMENT, discard, _USING),
    Route("POST", _CONSIGNMENT + "/parcels", stage, _USING, frozenset(_Place._fields), home=Home.ALL),
    Route("POST", _CONSIGNMENT + "/commit", commit, _USING, body_max=SEND_BYTES_MAX),
)
