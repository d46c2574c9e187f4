"""Taking messages in: a body of any type is received if there is room, decoded, and classified as few or many messages.

Publishing and staging share this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from restante.model.publishing.few_or_many import Few, Many, UndecodedBody, few_or_many
from restante.model.storage.changes import Buffer
from restante.server.connections.bodies import read_body
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.wire import media
from restante.wire.incoming.incoming import decode_messages
from restante.wire.incoming.incoming_arrow import decode_arrow
from restante.wire.json_pieces import TakeRoom

_LOOP_BODY_BYTES = 32 * 1024

P = ParamSpec("P")
T = TypeVar("T")


def is_for_the_loop(size: int) -> bool:
    """Whether a body of `size` bytes is decoded in the event loop. A larger one would hold up other requests.

    The number of messages does not matter here: it is known only after decoding.
    """
    return size <= _LOOP_BODY_BYTES


async def read_apart(desk: Desk, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that decodes a body of `size` bytes: here, or in a thread if the body is large."""
    if is_for_the_loop(size):
        return function(*args, **kwargs)
    return await desk.link.thread(function, *args, **kwargs)


@asynccontextmanager
async def incoming(desk: Desk, exchange: Exchange) -> AsyncIterator[Few | Many]:
    """A context with the messages of a body, which take room while it lasts."""
    with desk.room.publish() as parcel:
        body = await read_body(desk, exchange, parcel)
        content_type = exchange.header(b"content-type")
        headers = exchange.headers() if exchange.header(b"ce-specversion") is not None else {}
        if not headers and not is_for_the_loop(len(body)) and media.body_type(content_type) == media.ARROW:
            yield Many(UndecodedBody(body, partial(decode_arrow, body, parcel.make)))
            return
        yield await read_apart(desk, len(body), _decoded, body, content_type, headers, parcel.make)


def _decoded(body: Buffer, content_type: str | None, headers: Mapping[str, str], take_room: TakeRoom) -> Few | Many:
    return few_or_many(decode_messages(body, content_type=content_type, headers=headers, take_room=take_room))
