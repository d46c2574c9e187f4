"""Receiving bodies with bounds, and sending them in pieces, compressed if the client asks for it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from restante.decoders import json_decoder
from restante.errors import BodyTooLarge, InvalidRequest
from restante.limits import JSON_PART_BYTES, JSON_PIECE_BYTES, PASS_LOOK_SECONDS, REQUEST_BYTES_MAX, SEND_BYTES_MAX
from restante.model.publishing.few_or_many import are_few
from restante.model.storage.changes import Buffer
from restante.server.connections.exchange import PIECE_BYTES, Exchange, Headers
from restante.server.connections.room import PublishRoom
from restante.server.desk import Desk
from restante.wire import media
from restante.wire.compression import accepted_encoding, compress, decompress
from restante.wire.json_pieces import count_parts, no_bound
from restante.wire.outgoing.outgoing import arrow_pieces
from restante.wire.outgoing.page_bounds import RowBytes, page_within

Asked = TypeVar("Asked", bound=msgspec.Struct)

WHOLE_BYTES_MIN = 64 * 1024
"""Longer bodies are received into one buffer (`WholeBody`)."""
PACK_BYTES_MIN = 1024
"""Smaller answers are not worth compressing."""
SMALL_TABLE_BYTES = 64 * 1024
"""Up to this table size an answer is made in the event loop."""
_ENCODING = b"content-encoding"
_NAMED = re.compile(r"(?:unknown|required) field `(\w+)`|at `\$\.(\w+)")
"""Finds the field that a decoder's error names."""


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a route that takes none."""


_nothing_decoder = json_decoder(Nothing)


def length_of(exchange: Exchange, *, limit: int) -> int | None:
    """The length of the body as declared by the client. A body that is too long is refused before it is read."""
    text = exchange.header(b"content-length")
    if text is None:
        return None
    length = int(text)
    if length > limit:
        raise too_large(limit)
    return length


async def read_body(
    desk: Desk, exchange: Exchange, parcel: PublishRoom | None = None, *, limit: int = SEND_BYTES_MAX
) -> Buffer:
    """Read the whole body, and decompress it. With `parcel`, its bytes take room."""
    begun = time.monotonic()
    body = await received(exchange, parcel, limit)
    exchange.came_at = time.monotonic()
    if exchange.came_at - begun > PASS_LOOK_SECONDS:
        _admit_again(desk, exchange)
    desk.metrics.received.add(len(body))
    encoding = exchange.header(_ENCODING)
    if encoding is None or encoding.lower() == "identity":
        return body
    return await desk.link.thread(decompress, body, encoding, limit, no_bound if parcel is None else parcel.grow)


def _admit_again(desk: Desk, exchange: Exchange) -> None:
    """Check the token again after a slow body, because it may have been revoked or have expired meanwhile."""
    if exchange.roles is not None:
        authorization, place = exchange.header(b"authorization"), exchange.place
        exchange.grant = desk.gate.admit(authorization, exchange.roles, place.get("recipient"), place.get("group"))


class JsonBounds(NamedTuple):
    """The number of values that the JSON of a route may have, down to so many brackets deep. Nothing below is decoded."""

    depth: int
    most: int


async def read_json(
    desk: Desk,
    exchange: Exchange,
    parcel: PublishRoom | None = None,
    *,
    limit: int = SEND_BYTES_MAX,
    bounds: JsonBounds | None = None,
) -> Buffer:
    """Read the body of a route that takes only JSON. A body with another Content-Type is refused unread.

    This protects browsers: a web page may send forms and plain text to any address, but JSON only where CORS allows it.
    With `bounds`, a body that says too much is refused before it is decoded.
    """
    media.check_json(exchange.header(b"content-type"))
    body = await read_body(desk, exchange, parcel, limit=limit)
    if bounds is not None and parcel is not None and len(body) > JSON_PIECE_BYTES:
        count = await desk.link.thread(count_parts, body, bounds.depth)
        if count > bounds.most:
            raise InvalidRequest(f"The body has more than {bounds.most:,} values: send them in several requests.")
        parcel.make(JSON_PART_BYTES * count)
    return body


async def read_nothing(desk: Desk, exchange: Exchange) -> None:
    """Read the body of a route that takes none. It may be empty, or an empty JSON object; any field is an error."""
    if exchange.raw(b"content-length") in (None, b"0") and exchange.raw(b"transfer-encoding") is None:
        return
    body = await read_body(desk, exchange, limit=REQUEST_BYTES_MAX)
    decoded(body or b"{}", _nothing_decoder, Nothing)


async def read_request(desk: Desk, exchange: Exchange, kind: type[Asked]) -> Asked:
    """Read a small JSON body; a missing one counts as {}. Errors name the field."""
    body = await read_json(desk, exchange, limit=REQUEST_BYTES_MAX)
    return decoded(body or b"{}", json_decoder(kind), kind)


def decoded(body: Buffer, decoder: msgspec.json.Decoder[Asked], kind: type[msgspec.Struct]) -> Asked:
    """Decode a JSON body. Errors name the field, and those of `kind` that are allowed."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        named = _NAMED.search(str(error))
        details = {} if named is None else {"field": named[1] or named[2]}
        allowed = ", ".join(kind.__struct_fields__) or "no field"
        raise InvalidRequest(
            f"The body does not have the right shape: {error}. It may have {allowed}.", **details
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body is no JSON object: {error}.") from error


async def received(exchange: Exchange, parcel: PublishRoom | None, limit: int) -> Buffer:
    """The whole body as it came. With `parcel`, its bytes take room."""
    declared = length_of(exchange, limit=limit)
    if parcel is not None and declared:
        parcel.grow_to(declared)
    body = None
    if declared is not None and declared > WHOLE_BYTES_MIN:
        body = await exchange.whole_body()
    if body is None:
        body = await _in_pieces(exchange, parcel, limit)
    if declared is not None and len(body) != declared:
        raise InvalidRequest(f"The body has {len(body)} bytes, its Content-Length says {declared}.")
    return body


async def _in_pieces(exchange: Exchange, parcel: PublishRoom | None, limit: int) -> Buffer:
    piece, more = await exchange.chunk()
    if not more and len(piece) <= limit:
        return piece
    body = bytearray()
    while True:
        body += piece
        if len(body) > limit:
            raise too_large(limit)
        if parcel is not None:
            parcel.grow_to(len(body))
        if not more:
            return body
        piece, more = await exchange.chunk()


def too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"A body is at most {limit} bytes. Send in several parts.", limit=limit)


def is_small(table: pa.Table) -> bool:
    """Whether the answer of these rows is small enough to be made in the event loop."""
    return are_few(table.num_rows) and table.nbytes <= SMALL_TABLE_BYTES


async def bounded(
    desk: Desk, table: pa.Table, row_bytes: RowBytes | None, *, backwards: bool = False, whole_changes: bool = False
) -> pa.Table:
    """The rows that fit into an answer, as JSON or, without `row_bytes`, as Arrow."""
    if is_small(table):
        return table
    return await desk.link.thread(page_within, table, row_bytes, backwards=backwards, whole_changes=whole_changes)


async def send_pieces(
    desk: Desk, exchange: Exchange, pieces: Iterator[bytes], *, media_type: str, headers: Headers = (), small: bool
) -> None:
    """Send an answer made of pieces. A small one is made here, a large one in threads, piece by piece."""
    encoding = accepted_encoding(exchange.header(b"accept-encoding"))
    if small:
        body = b"".join(pieces)
        if encoding is not None and len(body) >= PACK_BYTES_MIN:
            body = b"".join(compress(iter([body]), encoding))
            headers = [*headers, (_ENCODING, encoding.encode()), (b"vary", b"accept-encoding")]
        await exchange.answer(200, body, media_type=media_type, headers=headers)
        return
    if encoding is not None:
        pieces = compress(pieces, encoding)
        headers = [*headers, (_ENCODING, encoding.encode()), (b"vary", b"accept-encoding")]
    await stream(desk, exchange, pieces, media_type=media_type, headers=headers)


async def send_arrow(
    desk: Desk, exchange: Exchange, table: pa.Table, *, made: memoryview | None = None, headers: Headers = ()
) -> None:
    """Send a table as an Arrow stream, without a copy, because its length is known. Pass `made` if the stream exists."""
    small = is_small(table)
    if made is not None:
        body: list[Buffer] = [made]
    else:
        body = arrow_pieces(table) if small else await desk.link.thread(arrow_pieces, table)
    if accepted_encoding(exchange.header(b"accept-encoding")) is None:
        await exchange.send_whole(200, body, media_type=media.ARROW, headers=headers)
        return
    await send_pieces(desk, exchange, _cut(body), media_type=media.ARROW, headers=headers, small=small)


def _cut(body: Sequence[Buffer]) -> Iterator[bytes]:
    for piece in body:
        for start in range(0, len(piece), PIECE_BYTES):
            yield bytes(piece[start : start + PIECE_BYTES])


async def stream(
    desk: Desk, exchange: Exchange, pieces: Iterator[bytes], *, media_type: str, headers: Headers = ()
) -> None:
    """Send an answer whose pieces are made in threads, each after the one before was sent, while the token is valid."""
    following = _gathered(pieces)
    piece = await desk.link.thread(next, following, b"")
    await exchange.begin(200, media_type=media_type, headers=headers)
    with desk.passes.held(exchange) as held:
        while piece:
            await exchange.go_on(piece)
            piece = await desk.link.thread(next, following, b"")
            if held.lost.done():
                held.check()
    await exchange.end()


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of `PIECE_BYTES`."""
    waiting: list[Buffer] = []
    size = 0
    for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), PIECE_BYTES):
            part = view[start : start + PIECE_BYTES]
            waiting.append(part)
            size += len(part)
            if size >= PIECE_BYTES:
                yield b"".join(waiting)
                waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
