"""Acknowledgements as they are written on the wire: bytes, made by a few passes over all ids together.

Ids of one group differ in their indices only, so the group is written once. To look at each id in Python would cost more
than the rest of the call; therefore all ids are made one text, and what must be true of each is seen from the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat

import msgspec
from msgspec import UNSET, UnsetType

from restante.model.batches.batch_answers import ItemIndices, ItemRange
from restante.model.batches.items import Indices

_encoder = msgspec.json.Encoder()

_PREFIX = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:(?:0|[1-9][0-9]{0,11}):")
_LEADING_ZERO = re.compile(rb"\b0[0-9]")
_DIGITS = b"0123456789"
_TO_ZEROS = bytes.maketrans(_DIGITS, b"0" * len(_DIGITS))
_TOO_LONG = b"0" * 16
"""No index has so many digits, and any reader of JSON can hold a number that has fewer."""


class _Plain(msgspec.Struct, frozen=True, omit_defaults=True):
    items: Sequence[str] | UnsetType = UNSET
    indices: Sequence[ItemIndices] | UnsetType = UNSET
    ranges: Sequence[ItemRange] | UnsetType = UNSET


def text_of(items: Sequence[str] = (), *, ranges: Sequence[ItemRange] = (), indices: Sequence[Indices] = ()) -> bytes:
    """One call. Plain ids of one group are named by their indices; anything else is written as it was given."""
    if items and not (ranges or indices):
        short = _short(items)
        if short is not None:
            return short
    listed = [ItemIndices(group=each.group, indices=list(map(int, each.indices))) for each in indices]
    return _encoder.encode(_Plain(items or UNSET, listed or UNSET, ranges or UNSET))


def text_of_several(calls: Sequence[bytes]) -> bytes:
    """Several calls in one request."""
    return b'{"calls":[%b]}' % b",".join(calls)


def _short(items: Sequence[str]) -> bytes | None:
    """The ids by their indices; None if not all are well-formed, or if they are of several groups.

    `left` is shorter than the joined ids by one prefix for each id, so every id begins with the prefix. It has no more commas
    than it takes to join the ids, so no id has any. So `left` has just the index of each id, with commas between.
    """
    first = items[0]
    try:
        prefix = first[: first.rfind(":") + 1]
        left = ",".join(map(str.removeprefix, items, repeat(prefix)))
        length = len(",".join(items))
    except (AttributeError, TypeError):
        return None
    if length - len(left) != len(items) * len(prefix) or left.count(",") != len(items) - 1:
        return None
    if _PREFIX.fullmatch(prefix) is None or not left.isascii() or not _are(indices := left.encode()):
        return None
    return b'{"indices":[{"group":"%b","indices":[%b]}]}' % (prefix[:-1].encode(), indices)


def _are(indices: bytes) -> bool:
    """Whether these are numbers between commas, as indices are written."""
    if (
        indices.translate(None, _DIGITS + b",")
        or b",," in b",%b," % indices
        or _TOO_LONG in indices.translate(_TO_ZEROS)
    ):
        return False
    return not ((b",0" in indices or indices.startswith(b"0")) and _LEADING_ZERO.search(indices))
