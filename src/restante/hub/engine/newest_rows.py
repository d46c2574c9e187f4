"""`newest_first` lists rows whose keys are UUIDv7, over all partitions, the newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from typing import TypeVar

from restante.hub.engine.core import Core
from restante.model.storage.changes import Space

T = TypeVar("T")

_PAGE = 200


def newest_first(
    core: Core, space: Space, decode: Callable[[bytes], T], *, below: bytes | None = None
) -> Iterator[tuple[bytes, T]]:
    """Ids and rows, by descending id, from the one before `below` on."""
    partitions = [_descending(core, partition, space, decode, below) for partition in core.owned]
    return merge(*partitions, key=lambda entry: entry[0], reverse=True)


def _descending(
    core: Core, partition: int, space: Space, decode: Callable[[bytes], T], below: bytes | None
) -> Iterator[tuple[bytes, T]]:
    end = below
    while page := core.store.scan(partition, space, end=end, limit=_PAGE, reverse=True):
        for key, value in page:
            yield key, decode(value)
        end = page[-1][0]
