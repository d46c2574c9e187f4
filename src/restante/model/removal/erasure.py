"""Traces of erased messages: a digest of each identity, for as long as the message would have stayed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from restante.decoders import packed_decoder
from restante.model.columns.hashing import Hashes, combine, fingerprints


class ErasedRow(msgspec.Struct, frozen=True, array_like=True):
    """Digests of erased identities: sixteen bytes each. They go at `until`."""

    until: int
    digests: bytes


def encode_erased(row: ErasedRow) -> bytes:
    return msgspec.msgpack.encode(row)


def decode_erased(value: bytes) -> ErasedRow:
    return packed_decoder(ErasedRow).decode(value)


def second_hash(recipient: str, key: int) -> int:
    """A hash of a recipient, of another family than the one that orders them: names that collide in one differ in the other.

    No text of an erased message stays to be compared, so the hashes alone must keep recipients apart.
    """
    return xxhash.xxh3_64_intdigest(recipient.encode(), key)


def second_hashes(recipients: Sequence[str], key: int) -> Hashes:
    return np.array([second_hash(recipient, key) for recipient in recipients], np.uint64)


def digests(first: Hashes, second: Hashes, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """128 bits of each identity, as two columns: its fingerprint, and one from the recipient's second hash."""
    return np.stack([fingerprints(first, ids), combine(combine(ids[:, 1], second), ids[:, 0])], axis=1)


class Erased:
    """The erased identities of a partition, sorted by fingerprint."""

    __slots__ = ("_first", "_second")

    def __init__(self, known: NDArray[np.uint64] | None = None) -> None:
        known = np.zeros((0, 2), np.uint64) if known is None else known
        order = np.argsort(known[:, 0], kind="stable")
        self._first = known[order, 0]
        self._second = known[order, 1]

    @staticmethod
    def of(rows: Sequence[ErasedRow]) -> Erased:
        if not rows:
            return Erased()
        return Erased(np.concatenate([np.frombuffer(row.digests, np.uint64).reshape(-1, 2) for row in rows]))

    def __len__(self) -> int:
        return len(self._first)

    def with_more(self, digests: NDArray[np.uint64]) -> Erased:
        return Erased(np.concatenate([np.stack([self._first, self._second], axis=1), digests]))

    def may_contain(self, fingerprints: Hashes) -> NDArray[np.bool_]:
        """Which of these fingerprints are those of erased identities: the few whose digests are worth making."""
        if not len(self):
            return np.zeros(len(fingerprints), np.bool_)
        place = np.searchsorted(self._first, fingerprints)
        found: NDArray[np.bool_] = self._first[np.minimum(place, len(self) - 1)] == fingerprints
        return found

    def contains(self, asked: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these digests are of erased identities."""
        first, second = asked[:, 0], asked[:, 1]
        found = np.zeros(len(asked), np.bool_)
        rows = np.flatnonzero(self.may_contain(first))
        # Digests with the same fingerprint lie side by side; there is hardly ever more than one.
        place = np.searchsorted(self._first, first[rows])
        while len(rows):
            found[rows] |= self._second[place] == second[rows]
            place += 1
            alike = place < len(self)
            alike[alike] = self._first[place[alike]] == first[rows[alike]]
            rows, place = rows[alike], place[alike]
        return found
