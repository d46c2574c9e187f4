"""Ids of items, `<batch>:<group>:<index>`, many at once; and the id of a batch, made from that of the request that opens it.

The same request again is the same batch. Ids of items come as texts and leave as columns. Most calls name items of one group; then the part that they have in common is
looked at once, and the indices are read as one text.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.errors import InvalidItem, InvalidRequest
from restante.model.batches.batch_answers import ItemIndices, ItemRange
from restante.model.storage.partition import partition_of

_GROUP = re.compile(r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}):(0|[1-9][0-9]*)", re.ASCII)
_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_DIGITS = bytes(range(48, 58))
_DIGITS_MAX = 18
"""Longer ones are no numbers of items: there are not so many."""
_POWERS = 10 ** np.arange(1, _DIGITS_MAX, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NamedItems:
    """Items of one group: their indices, and where in the call each stands.

    `written` is how the group was named if they were not named by their ids one by one.
    """

    batch: bytes
    group: int
    index: NDArray[np.int64]
    place: NDArray[np.int64] | int
    """A number: they stand side by side, from there on."""
    written: str | None = None

    def places(self) -> NDArray[np.int64]:
        place = self.place
        return np.arange(place, place + len(self.index)) if isinstance(place, int) else place


class IndexColumn(NamedTuple):
    """`ItemIndices` whose indices are read already: none is below 0."""

    group: str
    indices: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NamedRange:
    batch: bytes
    group: int
    sent: ItemRange
    place: int


@dataclass(frozen=True, slots=True)
class Named:
    """The items, groups and ranges that a call names."""

    items: Sequence[str]
    groups: list[NamedItems] = field(default_factory=list)
    ranges: list[NamedRange] = field(default_factory=list)

    def batches(self) -> list[bytes]:
        """Each batch once, in the order in which they are first named."""
        named: list[NamedItems | NamedRange] = [*self.groups, *self.ranges]
        return list(dict.fromkeys(one.batch for one in named))


Indices = ItemIndices | IndexColumn


def check_calls(calls: Sequence[object]) -> None:
    """Refuse too many calls in one request."""
    if len(calls) > limits.ACKNOWLEDGED_CALLS_MAX:
        raise InvalidRequest(f"At most {limits.ACKNOWLEDGED_CALLS_MAX:,} calls at once, not {len(calls):,}.")


def named(items: Sequence[str], ranges: Sequence[ItemRange] = (), indices: Sequence[Indices] = ()) -> Named:
    """The items that the ids, indices and ranges of a call name; `InvalidItem` if one of them is none."""
    _check_bounds(items, ranges, indices)
    found = Named(items)
    if items:
        found.groups.extend(_one_group(items) or _groups(items))
    place = len(items)
    for one in indices:
        found.groups.append(_by_index(one, place))
        place += len(one.indices)
    for place, sent in enumerate(ranges):
        found.ranges.append(_range(sent, place))
    if len(found.batches()) > limits.BATCHES_AT_ONCE_MAX:
        raise InvalidRequest(f"A call names items of at most {limits.BATCHES_AT_ONCE_MAX:,} batches.")
    return found


def _check_bounds(items: Sequence[str], ranges: Sequence[ItemRange], indices: Sequence[Indices]) -> None:
    count = len(items) + sum([len(one.indices) for one in indices])
    if not count and not ranges:
        raise InvalidRequest("Name items or ranges to acknowledge.")
    if count > limits.ACKNOWLEDGED_ITEMS_MAX:
        raise InvalidRequest(f"At most {limits.ACKNOWLEDGED_ITEMS_MAX:,} items in one call, not {count:,}.")
    if len(ranges) > limits.ACKNOWLEDGED_RANGES_MAX:
        raise InvalidRequest(f"At most {limits.ACKNOWLEDGED_RANGES_MAX:,} ranges in one call, not {len(ranges):,}.")


def _one_group(items: Sequence[str]) -> list[NamedItems] | None:
    """The items, if they are plainly right and all of one group."""
    first = items[0]
    try:
        text = "\n".join(items)
    except TypeError:
        return None
    prefix = first[: first.rfind(":") + 1]
    parts = text[len(prefix) :].split("\n" + prefix) if prefix else ()
    if len(parts) != len(items):
        return None
    index = read_numbers(",".join(parts).encode("ascii", "replace"), len(items))
    if index is None:
        return None
    batch, group = _group(prefix[:-1], first, 0)
    return [NamedItems(batch, group, index, 0)]


def read_numbers(raw: bytes, count: int | None = None) -> NDArray[np.int64] | None:
    """Numbers with commas between them; None if one of them is not plainly written, or there are more or fewer."""
    count = raw.count(b",") + 1 if count is None else count
    gap = raw[:1] in (b"", b",") or raw[-1:] == b"," or b",," in raw
    if gap or raw.translate(None, _DIGITS) != b"," * (count - 1):
        return None
    index = np.fromstring(raw, np.int64, sep=",")
    # A number without leading zeros, and not too long, has as many digits as it is long: then the lengths add up.
    digits = count + int(np.searchsorted(_POWERS, index, side="right").sum())
    return index if len(index) == count and digits == len(raw) - count + 1 else None


def _groups(items: Sequence[object]) -> list[NamedItems]:
    """The items by their groups; the first that is no item id refuses them all."""
    by_group: dict[str, tuple[list[str], list[int]]] = {}
    for place, item in enumerate(items):
        prefix, _, index = item.rpartition(":") if isinstance(item, str) else ("", "", "")
        if _INDEX.fullmatch(index) is None:
            raise _no_item(item, place)
        indices, places = by_group.setdefault(prefix, ([], []))
        indices.append(index)
        places.append(place)
    found = []
    for prefix, (indices, places) in by_group.items():
        batch, group = _group(prefix, items[places[0]], places[0])
        found.append(
            NamedItems(batch, group, np.array([_number(index) for index in indices], np.int64), np.array(places))
        )
    return found


def _by_index(sent: Indices, place: int) -> NamedItems:
    batch, group = _group(sent.group, sent.group, place)
    if isinstance(sent, IndexColumn):
        return NamedItems(batch, group, sent.indices, place, sent.group)
    try:
        index = np.array(sent.indices, np.int64)
    except OverflowError:
        index = np.array([max(min(one, 10**_DIGITS_MAX), -1) for one in sent.indices], np.int64)
    if len(index) and index.min() < 0:
        first = int(np.argmax(index < 0))
        raise _no_item(f"{sent.group}:{sent.indices[first]}", place + first)
    return NamedItems(batch, group, index, place, sent.group)


def _number(digits: str) -> int:
    return int(digits) if len(digits) <= _DIGITS_MAX else 10**_DIGITS_MAX


def _group(text: str, item: object, place: int) -> tuple[bytes, int]:
    found = _read_group(text)
    if found is None:
        raise _no_item(item, place)
    return found


@lru_cache(limits.BATCHES_REMEMBERED_MAX)
def _read_group(text: str) -> tuple[bytes, int] | None:
    match = _GROUP.fullmatch(text)
    return None if match is None else (uuid.UUID(match[1]).bytes, _number(match[2]))


def _range(sent: ItemRange, place: int) -> NamedRange:
    found = _read_group(sent.group)
    if found is None:
        raise InvalidItem(
            f"Range {place}: its group must be written <batch>:<group>, not {sent.group[:80]!r}.",
            item=sent.group[:256],
            index=place,
        )
    if not 0 <= sent.start < sent.upto:
        raise InvalidItem(
            f"Range {place}: from must be 0 or more and less than upto, not {sent.start} and {sent.upto}.",
            item=sent.group,
            index=place,
        )
    return NamedRange(*found, sent, place)


def _no_item(item: object, place: int) -> InvalidItem:
    shown = str(item)[:80]
    return InvalidItem(
        f"Item {place} is no item id: {shown!r}. One is written <batch>:<group>:<index>, as add gave it.",
        item=str(item)[:256],
        index=place,
    )


_VARIANT = 0x80


def id_of_request(request_id: str, key: str | None, partition_count: int) -> str:
    """An id in the partition of the key, where it can be seen whether the key is used. Its time is that of the request."""
    home = None if key is None else partition_of(key, partition_count)
    asked = uuid.UUID(request_id).bytes
    for number in count():
        made = _made(asked, number)
        if home is None or partition_of(made, partition_count) == home:
            return made
    raise AssertionError("there is always another number")


def _made(asked: bytes, number: int) -> str:
    digest = blake2b(asked + number.to_bytes(8), digest_size=8).digest()
    return str(uuid.UUID(bytes=asked[:8] + bytes([_VARIANT | digest[0] >> 2]) + digest[1:]))
