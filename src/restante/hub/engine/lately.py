"""Values used last, bounded in number and in size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lately(Generic[K, V]):
    """The values used last, bounded in number and in size."""

    def __init__(self, count_max: int, bytes_max: int, size: Callable[[V], int]) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._size = size
        self._bytes = 0

    def get(self, key: K) -> V | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Remember a value, unless it is too large; those used longest ago go."""
        size = self._size(value)
        with self._lock:
            self._drop(key)
            if size > self._bytes_max:
                return
            self._values[key] = value
            self._bytes += size
            while len(self._values) > self._count_max or self._bytes > self._bytes_max:
                self._drop(next(iter(self._values)))

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def drop(self, key: K) -> None:
        with self._lock:
            self._drop(key)

    def _drop(self, key: K) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self._bytes -= self._size(value)
