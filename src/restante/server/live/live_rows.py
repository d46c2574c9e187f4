"""`LiveRows`: messages of one recipient on their way to its connections, encoded once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

EncodeFrames = Callable[[int, "LiveRows"], bytes]
"""A function that encodes messages as frames of a line, counted from a number + 1."""


@dataclass(slots=True)
class LiveRows:
    """Ascending sequence numbers, and the JSON of each message."""

    numbers: Sequence[int]
    texts: Sequence[bytes]
    size: int
    """The bytes of all texts."""
    framed: dict[tuple[EncodeFrames, int], bytes] = field(default_factory=dict)
    """The frames made so far, by kind and counter, to be shared by connections with the same counter."""

    @classmethod
    def of(cls, numbers: Sequence[int], texts: Sequence[bytes]) -> LiveRows:
        return cls(numbers, texts, sum([len(text) for text in texts]))

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return zip(self.numbers, self.texts, strict=True)

    def in_frames(self, framing: EncodeFrames, counter: int) -> bytes:
        """The rows as frames counted from `counter` + 1."""
        key = (framing, counter)
        found = self.framed.get(key)
        if found is None:
            found = self.framed[key] = framing(counter, self)
        return found
