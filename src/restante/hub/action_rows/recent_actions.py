"""The latest actions as they came, to be handed to members that keep up, without reading the feed.

What must stay true: of each partition, memory has every waiting action above a number (`_since`). Actions that end are
dropped. Actions that come as columns, are moved to the end, or do not fit raise the number; pages that start below it are
read from the feed. Actions are added before the visible sequence number counts them, so a reader that takes the visible
sequence number first misses none up to it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from restante import limits
from restante.model.storage.letter import Letter
from restante.model.storage.rows import INLINE


class RecentAction(NamedTuple):
    """An action as it was stored."""

    number: int
    recipient_hash: int
    id: bytes
    letter: Letter
    name: str
    at: int

    @property
    def size(self) -> int:
        return len(self.letter.data) + len(self.letter.properties)


@dataclass(slots=True)
class RecentActions:
    """The recent actions of one open hub. Applying commits changes them; any thread may read them."""

    _since: dict[int, int] = field(default_factory=dict)
    _actions: defaultdict[int, dict[int, RecentAction]] = field(default_factory=lambda: defaultdict(dict))
    """The actions by partition and number, in the order of the numbers."""
    _size: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, visible: Mapping[int, int]) -> None:
        """Begin with no actions: those stored before the hub was opened are not in memory."""
        self._since = dict(visible)

    def add(self, partition: int, action: RecentAction) -> None:
        if not action.letter.flags & INLINE or action.size > limits.RECENT_ACTION_BYTES_MAX:
            self.forget(partition, action.number)
            return
        with self._lock:
            own = self._actions[partition]
            own[action.number] = action
            self._size += action.size
            if len(own) > limits.RECENT_ACTIONS_MAX or self._size > limits.RECENT_ACTIONS_BYTES_MAX:
                self._forget(partition, next(iter(own)) if self._fits() else action.number)

    def _fits(self) -> bool:
        return self._size <= limits.RECENT_ACTIONS_BYTES_MAX

    def drop(self, partition: int, numbers: Sequence[int]) -> None:
        """Drop actions that no longer wait."""
        with self._lock:
            own = self._actions.get(partition)
            for number in numbers if own else ():
                self._pop(partition, number)

    def forget(self, partition: int, number: int) -> None:
        """Forget the actions up to this number."""
        with self._lock:
            self._forget(partition, number)

    def _forget(self, partition: int, number: int) -> None:
        for known in [known for known in self._actions[partition] if known <= number]:
            self._pop(partition, known)
        self._since[partition] = max(self._since.get(partition, 0), number)

    def _pop(self, partition: int, number: int) -> None:
        found = self._actions[partition].pop(number, None)
        self._size -= 0 if found is None else found.size

    def between(self, partition: int, after: int, upto: int) -> list[RecentAction] | None:
        """The waiting actions numbered above `after` up to `upto`, in order; None if the feed must be read."""
        with self._lock:
            since = self._since.get(partition)
            if since is None or after < since:
                return None
            found = []
            for number, action in reversed(self._actions[partition].items()):
                if number <= after:
                    break
                if number <= upto:
                    found.append(action)
        found.reverse()
        return found
