"""What stays of erased messages: a digest of each identity, for as long as the message would have stayed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.model.hashing import Hashes, combine, fingerprints


class ErasedRow(msgspec.Struct, frozen=True, array_like=True):
    """Digests of erased identities: sixteen bytes each. They go at `until`."""

    until: int
    digests: bytes


def encode_erased(row: ErasedRow) -> bytes:
    return msgspec.msgpack.encode(row)


def decode_erased(value: bytes) -> ErasedRow:
    return msgspec.msgpack.decode(value, type=ErasedRow)


def digests(recipient_hashes: Hashes, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """128 bits of each identity, as two columns: the fingerprint, and a second hash that mixes in another order."""
    second = combine(combine(ids[:, 1], recipient_hashes), ids[:, 0])
    return np.stack([fingerprints(recipient_hashes, ids), second], axis=1)


class Erased:
    """The erased identities of a partition, sorted by fingerprint."""

    __slots__ = ("_digests",)

    def __init__(self, known: NDArray[np.uint64] | None = None) -> None:
        self._digests = np.zeros((0, 2), np.uint64) if known is None else known

    @staticmethod
    def of(rows: Sequence[ErasedRow]) -> Erased:
        if not rows:
            return Erased()
        known = np.concatenate([np.frombuffer(row.digests, np.uint64).reshape(-1, 2) for row in rows])
        return Erased(known[np.argsort(known[:, 0], kind="stable")])

    def __len__(self) -> int:
        return len(self._digests)

    def with_more(self, digests: NDArray[np.uint64]) -> Erased:
        known = np.concatenate([self._digests, digests])
        return Erased(known[np.argsort(known[:, 0], kind="stable")])

    def contains(self, asked: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these digests are of erased identities."""
        found = np.zeros(len(asked), np.bool_)
        maybe = np.flatnonzero(np.isin(asked[:, 0], self._digests[:, 0])) if len(self) else ()
        known = {(int(first), int(second)) for first, second in self._digests} if len(maybe) else set()
        for row in maybe:
            found[row] = (int(asked[row, 0]), int(asked[row, 1])) in known
        return found
