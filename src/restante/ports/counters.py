"""Counters: where the acknowledgements of estimated batches are counted.

A counter may be lost, and then counts from 0 again: a batch shows more pending than there is, and is never said to be
complete too early. It may count an acknowledgement twice.
"""

from __future__ import annotations

from typing import Protocol


class Counters(Protocol):
    """Counters by batch. All methods may be called from any thread, and raise only errors of `restante.errors`."""

    def add(self, batch_id: bytes, count: int) -> int:
        """Count so many more; gives the total. `Unavailable`: not counted. `OutcomeUnknown`: counted, or not."""
        ...

    def total(self, batch_id: bytes) -> int:
        """The total of a batch; 0 of one that is not known."""
        ...

    def forget(self, batch_id: bytes) -> None:
        """The batch is gone. Forgetting again does nothing."""
        ...

    def close(self) -> None:
        """Let go of what is held. Closing again does nothing."""
        ...
