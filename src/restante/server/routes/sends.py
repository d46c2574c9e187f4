"""Several small sends in one request: each is stored, or refused, as if it had come alone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from restante.calls.publishing import Publish
from restante.decoders import json_decoder
from restante.errors import Internal, InvalidRequest, RestanteError
from restante.hub.door.in_process import InProcess
from restante.hub.door.short_sends import PlainSend, SendOutcomes, send_each_soon
from restante.hub.engine.commit_request import CommitRequest
from restante.limits import SENDS_BYTES_MAX, SENDS_MAX
from restante.model.access.access import Grant, Role
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import few_or_many
from restante.model.storage.changes import Buffer
from restante.server.connections.bodies import decoded, read_json
from restante.server.connections.exchange import Exchange
from restante.server.connections.incoming_messages import read_apart
from restante.server.desk import Desk, ServedLink
from restante.server.requests.producer_numbers import refuse_numbers
from restante.server.requests.publish_headers import ACCEPT_HEADER, BATCH_HEADER, SOURCE_HEADER, refuse_header
from restante.server.route_table import Route
from restante.server.routes.publishing import count_stored
from restante.wire.incoming.incoming_json import decode_json
from restante.wire.incoming.plain_json import plain_letters, plain_messages
from restante.wire.problems import problem_of

_log = logging.getLogger("restante.server")


class SendsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Sends in their order, each as the body of a publish would say it."""

    sends: list[msgspec.Raw]


class SendAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The outcome of one send: its receipt, or its problem."""

    receipt: Receipt | None = None
    problem: dict[str, Any] | None = None


class SendsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of each send, in their order."""

    answers: tuple[SendAnswer, ...]


_Outcome = Receipt | BaseException
_decoder = json_decoder(SendsBody)


async def publish_each(desk: Desk, exchange: Exchange) -> None:
    for header in (ACCEPT_HEADER, BATCH_HEADER, SOURCE_HEADER):
        refuse_header(exchange, header, "send these messages alone, to POST /v1/messages, or leave the header out.")
    refuse_numbers(exchange)
    with desk.room.publish() as parcel:
        body = await read_json(desk, exchange, parcel, limit=SENDS_BYTES_MAX)
        contents = await read_apart(desk, len(body), _read, body)
        sends = await read_apart(desk, len(body), _plain, contents)
        outcomes = await _carry_out(desk.link_of(exchange.grant), exchange.grant, contents, sends)
    count_sends(desk, outcomes, time.monotonic() - exchange.came_at)
    await exchange.json(200, answered(outcomes, exchange.correlation_id))


def plain_sends(body: Buffer) -> list[PlainSend] | None:
    """The sends of a body; None if there is none, or something about one of them is not plainly right."""
    contents = _read(body)
    sends = [send for send in _plain(contents) if send is not None]
    return sends if sends and len(sends) == len(contents) else None


def count_sends(desk: Desk, outcomes: SendOutcomes, seconds: float) -> None:
    """Count what was stored, by one request that took so long."""
    count_stored(desk, *[outcome for outcome in outcomes if isinstance(outcome, Receipt)])
    desk.metrics.publish(seconds)


def answered(outcomes: SendOutcomes, correlation_id: str) -> SendsAnswer:
    """The answer to a request."""
    return SendsAnswer(answers=tuple([_answer(outcome, correlation_id) for outcome in outcomes]))


def _read(body: Buffer) -> list[bytes]:
    """The sends of a body, as they are written."""
    sends = decoded(body, _decoder, SendsBody).sends
    if len(sends) > SENDS_MAX:
        raise InvalidRequest(f"A request has at most {SENDS_MAX:,} sends, not {len(sends):,}.", field="sends")
    return [bytes(send) for send in sends]


def _plain(contents: Sequence[bytes]) -> list[PlainSend | None]:
    """The sends that are plainly right; None in the place of another, of which the rules are to say what is wrong."""
    return [_plain_send(content) for content in contents]


def _plain_send(content: bytes) -> PlainSend | None:
    letters = plain_letters(content)
    return None if letters is None else PlainSend(letters, partial(plain_messages, content))


async def _carry_out(
    link: ServedLink, grant: Grant, contents: Sequence[bytes], sends: Sequence[PlainSend | None]
) -> SendOutcomes:
    """Give what is plainly right to the committer at once, so that it goes into one commit; shards do so themselves."""
    if not isinstance(link, InProcess):
        return await asyncio.gather(*(_outcome(link, content) for content in contents))
    if link.hub.crowded:
        # Each goes to a thread: one after the other, or the mailbox would have them in another order.
        return [await _outcome(link, content) for content in contents]
    future: asyncio.Future[CommitRequest[SendOutcomes]] = asyncio.get_running_loop().create_future()
    plain = [send for send in sends if send is not None]
    if not plain or not send_each_soon(link.hub, plain, grant, future):
        return await asyncio.gather(*(_outcome(link, content) for content in contents))
    others = [await _outcome(link, content) for content, send in zip(contents, sends, strict=True) if send is None]
    stored, refused = iter((await future).answer()), iter(others)
    return [next(refused if send is None else stored) for send in sends]


async def _outcome(link: ServedLink, content: bytes) -> _Outcome:
    try:
        return await link.call(Publish(few_or_many(decode_json(content))))
    except Exception as error:  # noqa: BLE001  # whatever it is, the other sends get their answers
        return error


def _answer(outcome: _Outcome, correlation_id: str) -> SendAnswer:
    if isinstance(outcome, Receipt):
        return SendAnswer(receipt=outcome)
    if not isinstance(outcome, RestanteError):
        _log.error("A send failed.", exc_info=outcome, extra={"fields": {"correlation_id": correlation_id}})
        outcome = Internal("The hub failed. Its log has more, by the correlation id.")
    return SendAnswer(problem=problem_of(outcome, correlation_id=correlation_id))


PUBLISH_EACH = Route("POST", "/v1/sends", publish_each, frozenset({Role.PUBLISHER}))
ROUTES = (PUBLISH_EACH,)
