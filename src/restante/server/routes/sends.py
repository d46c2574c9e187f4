"""Several small sends in one request: each is stored, or refused, as if it had come alone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from restante.calls.publishing import Publish
from restante.decoders import json_decoder
from restante.errors import Internal, InvalidRequest, RestanteError
from restante.hub.door.in_process import InProcess
from restante.hub.engine.commit_request import CommitRequest
from restante.limits import SENDS_BYTES_MAX, SENDS_MAX
from restante.model.access.access import Grant, Role
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import few_or_many
from restante.model.publishing.letter import Letter
from restante.model.storage.changes import Buffer
from restante.server.connections.bodies import decoded, read_json
from restante.server.connections.exchange import Exchange
from restante.server.connections.incoming_messages import read_apart
from restante.server.desk import Desk, ServedLink
from restante.server.requests.producer_numbers import refuse_numbers
from restante.server.requests.publish_headers import BATCH_HEADER, SOURCE_HEADER, refuse_header
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


class _Send(NamedTuple):
    content: bytes
    letters: Sequence[Letter] | None
    """The letters of a send; None: something about it is not plainly right, and the rules are to say what."""


_Waiting = asyncio.Future[CommitRequest[Receipt]]
_Outcome = Receipt | RestanteError
_decoder = json_decoder(SendsBody)


async def publish_each(desk: Desk, exchange: Exchange) -> None:
    for header in (BATCH_HEADER, SOURCE_HEADER):
        refuse_header(exchange, header, "send these messages alone, to POST /v1/messages, or leave the header out.")
    refuse_numbers(exchange)
    with desk.room.publish() as parcel:
        body = await read_json(desk, exchange, parcel, limit=SENDS_BYTES_MAX)
        sends = await read_apart(desk, len(body), _read, body)
        outcomes = await _carry_out(desk.link_of(exchange.grant), exchange.grant, sends)
    for outcome in outcomes:
        if isinstance(outcome, Receipt):
            count_stored(desk, outcome)
    desk.metrics.publish(time.monotonic() - exchange.came_at)
    answer = partial(_answer, correlation_id=exchange.correlation_id)
    await exchange.json(200, SendsAnswer(answers=tuple(map(answer, outcomes))))


def _read(body: Buffer) -> list[_Send]:
    sends = decoded(body, _decoder, SendsBody).sends
    if len(sends) > SENDS_MAX:
        raise InvalidRequest(f"A request has at most {SENDS_MAX:,} sends, not {len(sends):,}.", field="sends")
    contents = [bytes(send) for send in sends]
    return [_Send(content, plain_letters(content)) for content in contents]


async def _carry_out(link: ServedLink, grant: Grant, sends: Sequence[_Send]) -> list[_Outcome]:
    """Give what is plainly right to the committer at once, so that it goes into one commit; shards do so themselves."""
    loop = asyncio.get_running_loop()
    if not isinstance(link, InProcess):
        return await asyncio.gather(*(_outcome(link, send.content, None) for send in sends))
    begun: list[_Waiting | None] = []
    for content, letters in sends:
        waiting: _Waiting | None = None
        if letters is not None and not link.hub.crowded:
            waiting = loop.create_future()
            link.hub.publish_letters_soon(letters, partial(plain_messages, content), waiting, grant)
        begun.append(waiting)
    return [await _outcome(link, send.content, waiting) for send, waiting in zip(sends, begun, strict=True)]


async def _outcome(link: ServedLink, content: bytes, waiting: _Waiting | None) -> _Outcome:
    try:
        if waiting is not None:
            return (await waiting).answer()
        return await link.call(Publish(few_or_many(decode_json(content))))
    except RestanteError as error:
        return error
    except Exception:  # noqa: BLE001  # whatever it is, the other sends get their answers, and the log the rest
        _log.exception("A send failed.")
        return Internal("The hub failed. Its log has more, by the correlation id.")


def _answer(outcome: _Outcome, *, correlation_id: str) -> SendAnswer:
    if isinstance(outcome, Receipt):
        return SendAnswer(receipt=outcome)
    return SendAnswer(problem=problem_of(outcome, correlation_id=correlation_id))


PUBLISH_EACH = Route("POST", "/v1/sends", publish_each, frozenset({Role.PUBLISHER}))
ROUTES = (PUBLISH_EACH,)
