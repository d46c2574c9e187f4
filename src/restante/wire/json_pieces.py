"""Large JSON, cut into pieces before it is decoded, so that neither memory nor the interpreter is taken for all of it at once.

A list or an object is cut at its own commas: those outside texts, one bracket deep. They are found in blocks of bytes, as
columns, without an object for any of them and mostly without the interpreter. Each piece is a list or an object itself. If
every piece is valid JSON and none is empty, so is the whole, whatever was cut: so what is decoded decides, and what is found
here need be right only for JSON that is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import JSON_PIECE_BYTES, MEMBERS_MAX

TakeRoom = Callable[[int], None]
"""A function that takes room for so many more bytes of memory, or raises `Overloaded`."""

_Value = TypeVar("_Value")
_BRACKETS = {b"[": b"]", b"{": b"}"}
_QUOTE, _BACKSLASH, _COMMA, _OPEN, _CLOSE = b'"\\,{}'
_LOWER = 0x20
"""Makes a square bracket the curly one of its side; no other byte of JSON becomes one."""
_SPACE = b" \t\r\n"
_members_decoder = json_decoder(dict[str, msgspec.Raw])


def no_bound(count: int) -> None:
    """Take room where nobody counts it: in a program that reads what it has itself."""


def pieces(content: bytes) -> Iterator[bytes]:
    """The pieces of a JSON list or object, each about `JSON_PIECE_BYTES` long, or one part of it if that is longer."""
    if len(content) <= JSON_PIECE_BYTES:
        yield content
        return
    content = content.strip(_SPACE)
    opened, closed = content[:1], content[-1:]
    if _BRACKETS.get(opened) != closed:
        yield content
        return
    view, begin = memoryview(content), 1
    for start, _, places in _commas(content, 1):
        if len(places):
            cut = start + int(places[-1])
            yield _piece(opened, view[begin:cut], closed)
            begin = cut + 1
    yield _piece(opened, view[begin:-1], closed) if begin > 1 else content


def _piece(opened: bytes, part: memoryview, closed: bytes) -> bytes:
    piece = b"".join((opened, part, closed))
    # An empty piece lies beside a comma too many, which the decoder is to see.
    return piece if piece[1:-1].strip(_SPACE) else b"".join((opened, b",", closed))


def count_parts(content: bytes | bytearray | memoryview, depth: int) -> int:
    """How many commas JSON has outside texts, at most so many brackets deep: what decoding makes objects of."""
    return sum(int(np.count_nonzero(depths <= depth)) for _, depths, _ in _commas(content, depth))


def read_list(content: bytes, decoder: msgspec.json.Decoder[list[_Value]], most: int, too_many: str) -> list[_Value]:
    """A JSON list that may have so many parts; `InvalidRequest` as soon as it has more."""
    found: list[_Value] = []
    for piece in pieces(content):
        found += decoder.decode(piece)
        if len(found) > most:
            raise InvalidRequest(too_many)
    return found


def read_members(content: bytes) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, as they are written; of one with more than `MEMBERS_MAX`, not all, but more than that."""
    found: dict[str, msgspec.Raw] = {}
    for piece in pieces(content):
        found.update(_members_decoder.decode(piece))
        if len(found) > MEMBERS_MAX:
            break
    return found


def _commas(
    content: bytes | bytearray | memoryview, depth: int
) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.int64]]]:
    """The commas outside texts, block by block: the start of the block, the depth of each, and the places of those at this depth."""
    in_text = escaped = False
    deep = 0
    for start in range(0, len(content), JSON_PIECE_BYTES):
        block = np.frombuffer(content, np.uint8, min(JSON_PIECE_BYTES, len(content) - start), start)
        quotes = block == _QUOTE
        escaped = _drop_escaped(block, quotes, pending=escaped)
        folded = block | _LOWER
        places = np.flatnonzero((block == _COMMA) | (folded == _OPEN) | (folded == _CLOSE) | quotes)
        if not len(places):
            continue
        found = folded[places]
        inside = np.bitwise_xor.accumulate(quotes[places]) ^ in_text
        in_text = bool(inside[-1])
        steps = (found == _OPEN).view(np.int8) - (found == _CLOSE).view(np.int8)
        steps[inside] = 0
        depths = np.cumsum(steps, dtype=np.int32) + deep
        deep = int(depths[-1])
        are_commas = (found == _COMMA | _LOWER) & ~inside
        depths, places = depths[are_commas], places[are_commas]
        yield start, depths, places[depths == depth]


def _drop_escaped(block: NDArray[np.uint8], quotes: NDArray[np.bool_], *, pending: bool) -> bool:
    """Unmark quotes behind an odd number of backslashes. `pending`: such a number ended the block before; returns whether one ends this."""
    slashes = np.flatnonzero(block == _BACKSLASH)
    if not len(slashes):
        quotes[0] &= not pending
        return False
    first = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    lengths = np.diff(first, append=len(slashes))
    if pending and slashes[0] == 0:
        lengths[0] += 1
    elif pending:
        quotes[0] = False
    behind = slashes[np.append(first[1:], len(slashes)) - 1][lengths % 2 == 1] + 1
    quotes[behind[behind < len(block)]] = False
    return bool(len(behind)) and int(behind[-1]) == len(block)
