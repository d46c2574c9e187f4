"""Bodies that are packed with gzip or zstd: both ways piece by piece, and never larger than allowed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Literal, cast

import pyarrow as pa

from restante.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from restante.limits import MIB
from restante.wire.json_pieces import TakeRoom, no_bound
from restante.wire.json_values import Body
from restante.wire.media import weighted_names


class Sink:
    """A file to write to, which remembers only what was written since it was last asked."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, content: bytes) -> int:
        self._written.append(bytes(content))
        return len(content)

    def taken(self) -> Iterator[bytes]:
        written, self._written = self._written, []
        if written:
            yield b"".join(written)

    def flush(self) -> None:
        """Do nothing: a sink holds nothing back."""

    def close(self) -> None:
        self.closed = True


Encoding = Literal["zstd", "gzip"]
ENCODINGS: tuple[Encoding, ...] = ("zstd", "gzip")
"""The encodings that are understood, the better first."""

_PIECE_BYTES = 1 * MIB
_GZIP_LEVEL = 1
_GZIP_WINDOW = 31
"""The largest window, with the header and the checksum of gzip."""


def decompress(body: Body, encoding: str | None, limit: int, take_room: TakeRoom = no_bound) -> Body:
    """The body unpacked, at most `limit` bytes of it, which take room as they come; without an encoding, as it is."""
    name = (encoding or "identity").strip().lower()
    if name == "identity":
        if len(body) > limit:
            raise _too_large(limit)
        return body
    codec = _known("gzip" if name == "x-gzip" else name)
    try:
        return _unpacked(body, codec, limit, take_room)
    except (OSError, pa.ArrowException) as error:
        raise InvalidRequest(
            f"the body is not a whole {codec} stream, as its Content-Encoding says: {error}"
        ) from error


def compress(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """The chunks packed, handed on as soon as there is something to hand on."""
    return _gzip(chunks) if _known(encoding) == "gzip" else _zstd(chunks)


def accepted_encoding(accept_encoding: str | None) -> Encoding | None:
    """How the caller wants an answer packed; None for not at all."""
    if not accept_encoding:
        return None
    wishes = weighted_names(accept_encoding)
    anything = wishes.get("*", 0.0)
    qualities = {name: wishes.get(name, anything) for name in ENCODINGS}
    best = max(ENCODINGS, key=lambda name: qualities[name])
    return best if qualities[best] > 0 and qualities[best] >= wishes.get("identity", 0.0) else None


def _gzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    # Arrow's own gzip always takes the slowest level: fifteen times as long, for a twelfth less.
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()


def _zstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    sink = Sink()
    # The writer sees the sink as any Python file.
    with pa.CompressedOutputStream(cast("pa.NativeFile", sink), "zstd") as stream:
        for chunk in chunks:
            stream.write(chunk)
            yield from sink.taken()
    yield from sink.taken()


def _known(name: str) -> Encoding:
    for known in ENCODINGS:
        if name == known:
            return known
    raise UnsupportedMediaType(
        f"the Content-Encoding {name!r} is not understood: use gzip or zstd, one of them, or none"
    )


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {limit} bytes when it is unpacked: send less at a time", limit=limit)


def _unpacked(body: Body, codec: Encoding, limit: int, take_room: TakeRoom) -> bytes:
    if len(body) == 0:
        raise InvalidRequest(f"the body is empty: that is no {codec} stream, as its Content-Encoding says")
    pieces, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), codec) as stream:
        # Not `read`: it loses the memory of a piece that turns out to be damaged.
        while (piece := stream.read_buffer(_PIECE_BYTES)).size:
            size += piece.size
            if size > limit:
                raise _too_large(limit)
            take_room(piece.size)
            pieces.append(piece)
    return b"".join(map(memoryview, pieces))
