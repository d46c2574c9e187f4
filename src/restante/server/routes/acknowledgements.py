"""Acknowledging items of batches: the calls come in great numbers, so a small one takes the shortest way there is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from restante.errors import InvalidRequest
from restante.limits import ACKNOWLEDGED_ITEMS_MAX, ACKNOWLEDGED_RANGES_MAX, ACKNOWLEDGED_SMALL_MAX
from restante.model.access import Role
from restante.model.batch_answers import Acknowledged, Acknowledgement
from restante.model.changes import Buffer
from restante.server.bodies import decoded, read_body
from restante.server.desk import Desk
from restante.server.exchange import PIECE_BYTES, Exchange
from restante.server.routing import Route
from restante.wire import media

_SMALL_BYTES = 64 * ACKNOWLEDGED_SMALL_MAX
"""Up to this size a body is read in the event loop: an item id has 40 to 60 characters."""
_COMMAS_MAX = ACKNOWLEDGED_ITEMS_MAX + 3 * ACKNOWLEDGED_RANGES_MAX


class AcknowledgeBody(Acknowledgement, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One call, or in `calls` several that are answered one by one."""

    calls: list[Acknowledgement] = msgspec.field(default_factory=list)


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each of several calls, in their order."""

    answers: tuple[Acknowledged, ...]


_decoder = msgspec.json.Decoder(AcknowledgeBody)
_encode = msgspec.json.Encoder().encode


async def acknowledge(desk: Desk, exchange: Exchange) -> None:
    with desk.room.publish() as parcel:
        body = await read_body(desk, exchange, parcel)
        if len(body) <= _SMALL_BYTES:
            asked = decoded(body or b"{}", _decoder, AcknowledgeBody)
            answer = _answer(asked, await desk.link.acknowledge_each(_calls(asked)))
        else:
            answer = await desk.link.thread(_acknowledge_large, desk, body)
    if len(answer) <= PIECE_BYTES:
        await exchange.answer(200, answer, media_type=b"application/json")
    else:
        await exchange.send_whole(200, memoryview(answer), media_type=media.JSON)


def _calls(asked: AcknowledgeBody) -> Sequence[Acknowledgement]:
    if not asked.calls:
        return (asked,)
    if asked.items or asked.indices or asked.ranges:
        raise InvalidRequest("calls stands alone: put what is beside it into a call of its own.", field="calls")
    return asked.calls


def _answer(asked: AcknowledgeBody, answers: tuple[Acknowledged, ...]) -> bytes:
    return _encode(Answers(answers=answers) if asked.calls else answers[0])


def _acknowledge_large(desk: Desk, body: Buffer) -> bytes:
    """The answer may be as large: all of it may be unknown."""
    # An item id has no comma. What is made of nothing else would take many times its size in memory.
    commas = bytes(body).count(b",")
    if commas > _COMMAS_MAX:
        raise InvalidRequest(
            f"A call acknowledges at most {ACKNOWLEDGED_ITEMS_MAX:,} items and {ACKNOWLEDGED_RANGES_MAX:,} ranges: send "
            "several.",
            field="items",
        )
    asked = decoded(body, _decoder, AcknowledgeBody)
    return _answer(asked, desk.hub.acknowledge_each(_calls(asked)))


ROUTES = (Route("POST", "/v1/acknowledgements", acknowledge, frozenset({Role.PUBLISHER})),)
