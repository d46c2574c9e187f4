"""Taking messages in: a body of any type is received where there is room, decoded, and handed on.

Publishing and staging differ only in what they do with the messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from restante.model.access import Grant
from restante.model.changes import Buffer
from restante.model.message import Message
from restante.server.bodies import read_body
from restante.server.desk import Desk
from restante.server.exchange import Exchange
from restante.server.origin_access import check_origins
from restante.wire.incoming import decode_messages

SMALL_BODY_BYTES = 32 * 1024
"""Bodies up to this size are read in the event loop; larger ones would hold up the others."""

Sent = Sequence[Message] | pa.Table
"""Messages as they were sent."""
T = TypeVar("T")


async def take(desk: Desk, exchange: Exchange, *, few: Callable[[Sent], Awaitable[T]], many: Callable[[Sent], T]) -> T:
    """What `few` makes of the messages of a small body in the event loop, or `many` of those of a large one in a thread.

    The bytes take room until it is done.
    """
    with desk.room.publish() as parcel:
        body = await read_body(desk, exchange, parcel)
        content_type = exchange.header(b"content-type")
        headers = exchange.headers() if exchange.header(b"ce-specversion") is not None else {}
        if len(body) <= SMALL_BODY_BYTES:
            return await few(_messages(exchange.grant, body, content_type, headers))
        return await desk.link.thread(_take_many, many, exchange.grant, body, content_type, headers)


def _take_many(
    many: Callable[[Sent], T], grant: Grant, body: Buffer, content_type: str | None, headers: Mapping[str, str]
) -> T:
    return many(_messages(grant, body, content_type, headers))


def _messages(grant: Grant, body: Buffer, content_type: str | None, headers: Mapping[str, str]) -> Sent:
    sent = decode_messages(body, content_type=content_type, headers=headers)
    check_origins(grant, sent)
    return sent
