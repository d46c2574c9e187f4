"""Bodies in and out: received with bounds, sent in pieces, packed where the client asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec
import pyarrow as pa

from restante.errors import BodyTooLarge, InvalidRequest
from restante.limits import REQUEST_BYTES_MAX, SEND_BYTES_MAX
from restante.model.changes import Buffer
from restante.server.desk import Desk
from restante.server.exchange import PIECE_BYTES, Exchange, Headers
from restante.server.room import Parcel
from restante.wire import media
from restante.wire.compression import accepted_encoding, compress, decompress
from restante.wire.outgoing import arrow_bytes

Asked = TypeVar("Asked", bound=msgspec.Struct)

WHOLE_BYTES_MIN = 64 * 1024
"""Longer bodies are received in one place."""
PACK_BYTES_MIN = 1024
"""Smaller answers are not worth packing."""
SMALL_TABLE_BYTES = 64 * 1024
"""Up to this size an answer is made in the event loop."""
_UNPACKED_GUESS = 16
_ENCODING = b"content-encoding"
_NAMED = re.compile(r"(?:unknown|required) field `(\w+)`|at `\$\.(\w+)")
"""The field that a decoder complains of."""


def length_of(exchange: Exchange, *, limit: int) -> int | None:
    """What the client says how long the body is; too long is refused before a byte of it is read."""
    text = exchange.header(b"content-length")
    if text is None:
        return None
    length = int(text)
    if length > limit:
        raise _too_large(limit)
    return length


async def read_body(
    desk: Desk, exchange: Exchange, parcel: Parcel | None = None, *, limit: int = SEND_BYTES_MAX
) -> Buffer:
    """The whole body, unpacked. With a parcel, its bytes take room."""
    declared = length_of(exchange, limit=limit)
    if parcel is not None and declared:
        parcel.grow_to(declared)
    body = await _received(exchange, declared, parcel, limit)
    desk.metrics.received.add(len(body))
    encoding = exchange.header(_ENCODING)
    if encoding is None or encoding.lower() == "identity":
        return body
    if parcel is not None:
        parcel.grow_to(min(limit, _UNPACKED_GUESS * len(body)))
    unpacked = await desk.link.thread(decompress, body, encoding, limit)
    if parcel is not None:
        parcel.grow_to(len(unpacked))
    return unpacked


async def read_request(desk: Desk, exchange: Exchange, kind: type[Asked]) -> Asked:
    """A small JSON body; none says nothing. What is wrong with it is named."""
    body = await read_body(desk, exchange, limit=REQUEST_BYTES_MAX)
    return decoded(body or b"{}", msgspec.json.Decoder(kind), kind)


def decoded(body: Buffer, decoder: msgspec.json.Decoder[Asked], kind: type[Asked]) -> Asked:
    """What a JSON body says. What is wrong with it is named."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        named = _NAMED.search(str(error))
        details = {} if named is None else {"field": named[1] or named[2]}
        allowed = ", ".join(kind.__struct_fields__)
        raise InvalidRequest(f"The body has not the right shape: {error}. It may have {allowed}.", **details) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body is no JSON object: {error}.") from error


async def _received(exchange: Exchange, declared: int | None, parcel: Parcel | None, limit: int) -> Buffer:
    if declared is not None and declared > WHOLE_BYTES_MIN:
        whole = await exchange.whole_body(declared)
        if whole is not None:
            return whole
    piece, more = await exchange.chunk()
    return await _collected(exchange, piece, declared, parcel, limit) if more else piece


async def _collected(
    exchange: Exchange, piece: bytes, declared: int | None, parcel: Parcel | None, limit: int
) -> bytearray:
    body = bytearray(declared or 0)
    size, more = 0, True
    while True:
        body[size : size + len(piece)] = piece
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        if parcel is not None:
            parcel.grow_to(size)
        if not more:
            break
        piece, more = await exchange.chunk()
    if declared is not None and size != declared:
        raise InvalidRequest(f"The body has {size} bytes, its Content-Length says {declared}.")
    return body


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"A body is at most {limit} bytes. Send in several parts.", limit=limit)


async def send_pieces(
    desk: Desk, exchange: Exchange, pieces: Iterator[bytes], *, media_type: str, headers: Headers = (), small: bool
) -> None:
    """An answer of many pieces; a small one is made here and now, a large one in threads, piece by piece."""
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


async def send_arrow(desk: Desk, exchange: Exchange, table: pa.Table, *, headers: Headers = ()) -> None:
    """The table as an Arrow stream: its length is known, so it goes out without another copy."""
    small = table.nbytes <= SMALL_TABLE_BYTES
    body = arrow_bytes(table) if small else await desk.link.thread(arrow_bytes, table)
    if accepted_encoding(exchange.header(b"accept-encoding")) is None:
        await exchange.send_whole(200, body, media_type=media.ARROW, headers=headers)
        return
    pieces = (bytes(body[start : start + PIECE_BYTES]) for start in range(0, len(body), PIECE_BYTES))
    await send_pieces(desk, exchange, pieces, media_type=media.ARROW, headers=headers, small=small)


async def stream(
    desk: Desk, exchange: Exchange, pieces: Iterator[bytes], *, media_type: str, headers: Headers = ()
) -> None:
    """An answer whose pieces are made in threads, each when the one before has gone."""
    following = _gathered(pieces)
    piece = await desk.link.thread(next, following, b"")
    await exchange.begin(200, media_type=media_type, headers=headers)
    while piece:
        await exchange.go_on(piece)
        piece = await desk.link.thread(next, following, b"")
    await exchange.end()


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one size, so that neither crumbs nor lumps go out."""
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
