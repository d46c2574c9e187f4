"""Messages of one recipient on their way to its connections: made once, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

Framing = Callable[[int, "LiveRows"], bytes]
"""Puts messages into the frames of a line; the first is counted after a number."""


@dataclass(slots=True)
class LiveRows:
    """Sequence numbers in ascending order, and the JSON of each message."""

    numbers: Sequence[int]
    texts: Sequence[bytes]
    size: int
    """How many bytes the texts take."""
    framed: dict[tuple[Framing, int], bytes] = field(default_factory=dict)
    """The frames that were made of them for connections that count alike."""

    @classmethod
    def of(cls, numbers: Sequence[int], texts: Sequence[bytes]) -> LiveRows:
        return cls(numbers, texts, sum([len(text) for text in texts]))

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return zip(self.numbers, self.texts, strict=True)

    def in_frames(self, framing: Framing, counter: int) -> bytes:
        """The rows in frames that are counted after this number."""
        key = (framing, counter)
        found = self.framed.get(key)
        if found is None:
            found = self.framed[key] = framing(counter, self)
        return found
