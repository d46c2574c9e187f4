"""The few messages of a bundle as they travel between a hub and the Python client: as they are stored, in MessagePack.

A table of one row takes a hundred times as long to make and to read. The form is not for other programs: it changes with the
hub, which is why a client names it beside Arrow, and takes either.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from restante.decoders import packed_decoder
from restante.model.mailboxes.few_rows import StoredLetter

_ID_BYTES = 16
_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(tuple[StoredLetter, ...])


def encode_letters(letters: Sequence[StoredLetter]) -> bytes:
    return _encoder.encode(letters)


def decode_letters(body: bytes | bytearray | memoryview) -> tuple[StoredLetter, ...]:
    """The letters; ValueError if the bytes are not such."""
    letters = _decoder.decode(body)
    if not letters or any(len(own.id) != _ID_BYTES for own in letters):
        raise ValueError(f"a bundle has letters, each with an id of {_ID_BYTES} bytes")
    return letters
