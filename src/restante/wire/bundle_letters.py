"""A bundle on its way to the Python client: lists of texts in headers, and few messages as letters.

Texts are percent-encoded, with commas between, and never longer than a header may be. The letters are as they are stored, in MessagePack.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote, unquote

import msgspec

from restante.decoders import packed_decoder
from restante.limits import HEADER_TEXTS_BYTES_MAX
from restante.model.mailboxes.few_rows import StoredLetter

_CUT = "..."
"""Stands last in place of all that found no room."""


def joined_texts(texts: Iterable[str]) -> str:
    """The texts, or as many of the first as fit before the sign that there are more."""
    kept: list[str] = []
    size, before_sign = -1, 0
    for text in texts:
        kept.append(_quoted(text))
        size += len(kept[-1]) + 1
        if size > HEADER_TEXTS_BYTES_MAX:
            return ",".join([*kept[:before_sign], _CUT])
        if size + 1 + len(_CUT) <= HEADER_TEXTS_BYTES_MAX:
            before_sign = len(kept)
    return ",".join(kept)


def split_texts(header: str) -> tuple[tuple[str, ...], bool]:
    """The texts of a header, and whether that is all of them."""
    parts = [part.strip() for part in header.split(",") if part.strip()]
    whole = not parts or parts[-1] != _CUT
    return tuple(unquote(part) for part in (parts if whole else parts[:-1])), whole


def _quoted(text: str) -> str:
    return "%2E%2E%2E" if text == _CUT else quote(text, safe="")


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
