"""The items that were added to a batch: a sequence of ids that are made when they are looked at, so it may be of any length."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self, overload

from restante.errors import InvalidRequest
from restante.model.batches.batch_answers import ItemGroup, ItemRange


@dataclass(frozen=True, slots=True)
class _Piece:
    """Items of one group, from `start` to `upto` (exclusive)."""

    name: str
    """`<batch>:<group>`."""
    group: ItemGroup
    start: int
    upto: int

    def __iter__(self) -> Iterator[str]:
        return map(f"{self.name}:".__add__, map(str, range(self.start, self.upto)))


class Items(Sequence[str]):
    """Ids of items. To count them, to look at one and to cut out a stretch take no longer for many than for few.

    It can be walked over any number of times, and `acknowledge` takes it as it is. A stretch is of this kind too.
    """

    __slots__ = ("_length", "_pieces")

    def __init__(self, pieces: Iterable[_Piece]) -> None:
        self._pieces = tuple(piece for piece in pieces if piece.start < piece.upto)
        self._length = sum(piece.upto - piece.start for piece in self._pieces)

    @classmethod
    def of(cls, batch_id: str, groups: Iterable[ItemGroup]) -> Self:
        """All items of some groups of a batch."""
        return cls(_Piece(f"{batch_id}:{group.id}", group, 0, group.upto) for group in groups)

    @property
    def groups(self) -> tuple[ItemGroup, ...]:
        """The groups that they are of, each as the hub told it."""
        return tuple(piece.group for piece in self._pieces)

    def ranges(self) -> tuple[ItemRange, ...]:
        """The same items as ranges: one for each group."""
        return tuple(ItemRange(group=piece.name, start=piece.start, upto=piece.upto) for piece in self._pieces)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._pieces)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Items: ...
    def __getitem__(self, place: int | slice) -> str | Items:
        if isinstance(place, slice):
            return self._stretch(place)
        wanted = operator.index(place)
        left = wanted + self._length if wanted < 0 else wanted
        for piece in self._pieces:
            if 0 <= left < piece.upto - piece.start:
                return f"{piece.name}:{piece.start + left}"
            left -= piece.upto - piece.start
        raise IndexError(f"there are {self._length} items, and {wanted} is not the place of one")

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, str):
            return False
        name, _, index = item.rpartition(":")
        return any(piece.name == name and _is_within(index, piece) for piece in self._pieces)

    def __eq__(self, other: object) -> bool:
        return self.ranges() == other.ranges() if isinstance(other, Items) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.ranges())

    def __repr__(self) -> str:
        return f"<Items: {self._length} of {', '.join(piece.name for piece in self._pieces) or 'no group'}>"

    def _stretch(self, place: slice) -> Items:
        start, stop, step = place.indices(self._length)
        if step != 1:
            raise InvalidRequest("Items are cut without a step: items[1000:2000].")
        return Items(self._cut(start, stop))

    def _cut(self, start: int, stop: int) -> Iterator[_Piece]:
        for piece in self._pieces:
            length = piece.upto - piece.start
            first, end = min(max(start, 0), length), min(max(stop, 0), length)
            yield replace(piece, start=piece.start + first, upto=piece.start + end)
            start, stop = start - length, stop - length


def _is_within(index: str, piece: _Piece) -> bool:
    """Whether a text is the number of an item; only the usual form of a number is."""
    return index.isascii() and index.isdigit() and str(int(index)) == index and piece.start <= int(index) < piece.upto
