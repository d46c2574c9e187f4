"""The surface of batches that programs see: the same in process and over the network. `restante.client.surface.surface` has it all.

An open batch takes items, a sealed one none any more, and one that is sealed and has nothing pending is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self

from restante.client.batches.acknowledgement_calls import Acknowledgeable
from restante.client.batches.batch_items import Items
from restante.model.batches.batch_answers import (
    Acknowledged,
    BatchState,
    BatchStatus,
    CompleteBatch,
    Counting,
    ItemRange,
    ReapedBatch,
    RecipientProgress,
    Webhook,
)


class Acknowledger(Protocol):
    """Acknowledges in the background what workers finish one by one. Use it in a `with` statement, or close it."""

    @property
    def acknowledged(self) -> int: ...
    @property
    def complete(self) -> tuple[CompleteBatch, ...]: ...
    @property
    def unknown(self) -> tuple[str | ItemRange, ...]: ...
    def add(self, item: str | ItemRange | Items) -> None:
        """Soon, together with others. Waits only while too much is under way; raises what went wrong before."""
        ...

    def flush(self) -> None:
        """Wait until all that was added so far is acknowledged."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Batch(Protocol):
    """A batch. In a `with` statement it is sealed on leaving, unless an exception leaves it."""

    id: str
    key: str | None
    webhook_secret: str | None

    def add(self, count: int) -> Items: ...
    def acknowledge(self, items: Acknowledgeable) -> Acknowledged: ...
    def acknowledging(self) -> Acknowledger: ...
    def seal(self) -> bool:
        """Seal the batch; gives whether it is complete already."""
        ...

    def status(self) -> BatchStatus: ...
    def pending(self) -> Iterator[str]: ...
    def progress(self, *, waiting: bool = False) -> Iterator[RecipientProgress]: ...
    def completed(self, timeout: float | None = None) -> BatchStatus:
        """Wait until it is complete; `TimeoutError` if that takes longer."""
        ...

    def delete(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Batches(Protocol):
    """The batches of a hub."""

    def open(
        self,
        key: str | None = None,
        *,
        unique: bool = False,
        counting: Counting | str = Counting.EXACT,
        webhook: Webhook | str | None = None,
        notify: str | None = None,
    ) -> Batch: ...
    def get(self, batch_id: str) -> Batch:
        """The batch of an id; nothing is asked of the hub."""
        ...

    def list(self, *, state: BatchState | str | None = None, key: str | None = None) -> Iterator[BatchStatus]: ...
    def acknowledge(self, items: Acknowledgeable = (), *, ranges: Iterable[ItemRange] = ()) -> Acknowledged: ...
    def acknowledge_each(self, calls: Iterable[Acknowledgeable]) -> tuple[Acknowledged, ...]:
        """Several calls in one round trip, each with an answer of its own."""
        ...

    def acknowledging(self) -> Acknowledger: ...
    def reap(self, *, dry_run: bool = False) -> tuple[ReapedBatch, ...]: ...
