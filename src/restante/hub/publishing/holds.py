"""Messages that a round holds: nobody can say yet whether they are stored, so who sends one of them again has to wait."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from restante.errors import Unavailable
from restante.hub.engine.plan import Note, RequestDraft
from restante.model.columns.hashing import Hashes

Held = dict[bytes, Hashes]
"""The fingerprints that each consignment holds, ascending."""


class HeldMessages(Unavailable):
    """A message is held by a round; it is not judged before that has come to its end."""


@dataclass(slots=True)
class Holds:
    """The fingerprints that are held in each partition, as committed."""

    by_partition: dict[int, Held] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_partition)

    def add(self, partition: int, consignment: bytes, fingerprints: Hashes) -> None:
        self.by_partition[partition] = {**self.by_partition.get(partition, {}), consignment: fingerprints}

    def remove(self, partition: int, consignment: bytes) -> None:
        left = {one: held for one, held in self.by_partition.get(partition, {}).items() if one != consignment}
        if left:
            self.by_partition[partition] = left
        else:
            self.by_partition.pop(partition, None)

    def met(self, partition: int, fingerprints: Hashes, *, but: bytes = b"") -> NDArray[np.bool_]:
        """Which of these fingerprints are held, but by one consignment."""
        found = np.zeros(len(fingerprints), np.bool_)
        for consignment, held in self.by_partition.get(partition, {}).items():
            if consignment != but:
                found |= np.isin(fingerprints, held)
        return found


class HeldSoFar(Note):
    """The fingerprints that the drafts of a commit will hold, of which memory does not know yet."""

    def __init__(self) -> None:
        self.held: list[tuple[int, bytes, Hashes]] = []

    def take_over(self, later: HeldSoFar) -> None:
        self.held += later.held

    def apply(self) -> None:
        """The plan's own functions bring `Holds` up to it."""


def is_held_before(draft: RequestDraft, partition: int, fingerprints: Hashes, *, but: bytes) -> bool:
    """Whether an earlier draft of this commit holds one of these already."""
    return any(
        bool(np.isin(fingerprints, held).any())
        for note in draft.noted(HeldSoFar)
        for place, consignment, held in note.held
        if place == partition and consignment != but
    )
