"""Acknowledging items of batches: the calls come in great numbers, so a small one takes the shortest way there is."""

from __future__ import annotations

import msgspec

from restante.errors import InvalidRequest
from restante.limits import ACKNOWLEDGED_ITEMS_MAX, ACKNOWLEDGED_RANGES_MAX, ACKNOWLEDGED_SMALL_MAX
from restante.model.access import Role
from restante.model.batch_answers import ItemRange
from restante.model.changes import Buffer
from restante.server.bodies import decoded, read_body
from restante.server.desk import Desk
from restante.server.exchange import PIECE_BYTES, Exchange
from restante.server.routing import Route
from restante.wire import media

_SMALL_BYTES = 64 * ACKNOWLEDGED_SMALL_MAX
"""Up to this size a body is read in the event loop: an item id has 40 to 60 characters."""
_COMMAS_MAX = ACKNOWLEDGED_ITEMS_MAX + 3 * ACKNOWLEDGED_RANGES_MAX


class AcknowledgeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Items one by one, ranges of them, or both."""

    items: list[str] = []
    """Ids of items: `<batch>:<group>:<index>`."""
    ranges: list[ItemRange] = []


_decoder = msgspec.json.Decoder(AcknowledgeBody)
_encode = msgspec.json.Encoder().encode


async def acknowledge(desk: Desk, exchange: Exchange) -> None:
    with desk.room.publish() as parcel:
        body = await read_body(desk, exchange, parcel)
        if len(body) <= _SMALL_BYTES:
            asked = decoded(body or b"{}", _decoder, AcknowledgeBody)
            answer = _encode(await desk.link.acknowledge(asked.items, ranges=asked.ranges))
        else:
            answer = await desk.link.thread(_acknowledge_large, desk, body)
    if len(answer) <= PIECE_BYTES:
        await exchange.answer(200, answer, media_type=b"application/json")
    else:
        await exchange.send_whole(200, memoryview(answer), media_type=media.JSON)


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
    return _encode(desk.hub.acknowledge(asked.items, ranges=asked.ranges))


ROUTES = (Route("POST", "/v1/acknowledgements", acknowledge, frozenset({Role.PUBLISHER})),)
