"""Messages held by a round: until the round ends it is open whether they are stored, so repeated sends of them wait."""

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
    """A message is held by a round. It can be judged only when the round has ended."""


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
        """Which of these fingerprints are held by a consignment other than `but`."""
        found = np.zeros(len(fingerprints), np.bool_)
        for consignment, held in self.by_partition.get(partition, {}).items():
            if consignment != but:
                found |= np.isin(fingerprints, held)
        return found


class HeldSoFar(Note):
    """The fingerprints that drafts of the current commit will hold, which `Holds` does not have yet."""

    def __init__(self) -> None:
        self.held: list[tuple[int, bytes, Hashes]] = []

    def take_over(self, later: HeldSoFar) -> None:
        self.held += later.held

    def apply(self) -> None:
        """Nothing: the functions in `draft.applies` update `Holds`."""


def is_held_before(draft: RequestDraft, partition: int, fingerprints: Hashes, *, but: bytes) -> bool:
    """Whether this commit already holds one of these fingerprints, for a consignment other than `but`."""
    return any(
        bool(np.isin(fingerprints, held).any())
        for note in draft.noted(HeldSoFar)
        for place, consignment, held in note.held
        if place == partition and consignment != but
    )
