"""Taking messages in: a body of any type is received where there is room, decoded, and handed on.

Publishing and staging differ only in what they do with the messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from restante.model.storage.changes import Buffer
from restante.server.connections.bodies import read_body
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.wire.incoming.incoming import Sent, decode_messages

SMALL_BODY_BYTES = 32 * 1024
"""Bodies up to this size are read in the event loop; larger ones would hold up the others."""

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
            return await few(decode_messages(body, content_type=content_type, headers=headers))
        return await desk.link.thread(_take_many, many, body, content_type, headers)


def _take_many(many: Callable[[Sent], T], body: Buffer, content_type: str | None, headers: Mapping[str, str]) -> T:
    return many(decode_messages(body, content_type=content_type, headers=headers))
