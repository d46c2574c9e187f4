# Generated from `batches_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""`hub.batches` for programs that wait: `Batches` and `Batch` over a link."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import chain
from types import TracebackType
from typing import Self

from restante.calls.batches import (
    AcknowledgeEach,
    AddItems,
    DeleteBatch,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    ReadBatch,
    ReadProgress,
    ReapBatches,
    SealBatch,
    WaitForBatch,
)
from restante.client.batches.acknowledgement_calls import NOTHING, Acknowledgeable, Each, Sum, calls_of, plain_call
from restante.client.batches.acknowledger_sync import Acknowledger
from restante.client.batches.batch_items import Items
from restante.client.batches.batch_view import BatchView
from restante.client.concurrency.waits_sync import side_by_side
from restante.client.surface.arguments import batch_state_of, count_of, counting_of, seconds, webhook_of
from restante.client.surface.pages_sync import every
from restante.client.transport.link import Link, where
from restante.limits import ACKNOWLEDGE_CALLS_MAX, PAGE_MAX, WAIT_SECONDS_MAX
from restante.model.batches.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchState,
    BatchStatus,
    Counting,
    ItemRange,
    ReapedBatch,
    RecipientProgress,
    Webhook,
)


class Batch(BatchView):
    """A batch: add its items, seal it, acknowledge them.

    In a `with` statement it is sealed on leaving. When an exception leaves the statement it is *not* sealed: perhaps
    not all items were added, and a sealed batch would be complete too early. Seal it later, delete it, or leave it: an open
    batch that nobody touches is reaped.
    """

    def __init__(self, link: Link, batch_id: str, opened: BatchOpened | None = None) -> None:
        super().__init__(batch_id, opened)
        self._link = link

    def add(self, count: int) -> Items:
        """Add so many items; gives their ids, as a sequence of whatever length that takes no room.

        ```python
        items = batch.add(1_000)
        print(items[0])
        ```
        """
        groups = self._link.call(AddItems(self.id, count_of("count", count)))
        return Items.of(self.id, groups.groups)

    def acknowledge(self, items: Acknowledgeable) -> Acknowledged:
        """Acknowledge ids, ranges, what `add` gave, or any number of these; the answers of several calls are summed.

        Acknowledging twice is harmless. A short list is one call, all of it or nothing. More goes out in several calls, a
        few at a time: when one of them fails, others may have been carried out, and to do it all again does no harm.

        ```python
        batch.acknowledge(items[:100])
        ```
        """
        return acknowledge(self._link, items)

    def acknowledging(self) -> Acknowledger:
        """An acknowledger for workers that finish items one by one: it gathers them, and acknowledges them in the background.

        ```python
        with batch.acknowledging() as done:
            done.add(items[0])
        ```
        """
        return Acknowledger(self._link)

    def seal(self) -> bool:
        """Seal the batch: nothing more can be added from now on. Gives whether it is complete already; a second call gives the same.

        ```python
        complete = batch.seal()
        ```
        """
        return self._link.call(SealBatch(self.id)).complete

    def status(self) -> BatchStatus:
        """How the batch stands.

        ```python
        print((batch.status()).pending)
        ```
        """
        return self._link.call(ReadBatch(self.id))

    def pending(self) -> Iterator[str]:
        """The items that are not acknowledged, page by page as you go on. An estimated batch does not know them.

        ```python
        for item_id in batch.pending():
            print(item_id)
        ```
        """
        return every(self._link, ListPendingItems(self.id, limit=PAGE_MAX), lambda page: page.items)

    def progress(self, *, waiting: bool = False) -> Iterator[RecipientProgress]:
        """How far each recipient of its messages is, page by page as you go on; or only those with something waiting.

        ```python
        for progress in batch.progress(waiting=True):
            print(progress.recipient)
        ```
        """
        return every(self._link, ReadProgress(self.id, waiting=waiting, limit=PAGE_MAX), lambda page: page.recipients)

    def completed(self, timeout: float | None = None) -> BatchStatus:
        """Wait until it is complete: for ever, or `timeout` seconds, and then `TimeoutError`.

        ```python
        status = batch.completed(timeout=60)
        ```
        """
        longest = float("inf") if timeout is None else seconds("timeout", timeout)
        deadline = time.monotonic() + longest
        while True:
            left = max(deadline - time.monotonic(), 0)
            status = self._link.call(WaitForBatch(self.id, min(left, WAIT_SECONDS_MAX)))
            if status is not None:
                return status
            if time.monotonic() >= deadline:
                raise TimeoutError(f"Batch {self.id} was not complete within {longest:g} s.")

    def delete(self) -> None:
        """Forget it, in whatever state it is.

        ```python
        batch.delete()
        ```
        """
        self._link.call(DeleteBatch(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.seal()


class Batches:
    """The batches of a hub."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<Batches of the hub {where(self._link)}>"

    def open(
        self,
        key: str | None = None,
        *,
        unique: bool = False,
        counting: Counting | str = Counting.EXACT,
        webhook: Webhook | str | None = None,
        notify: str | None = None,
    ) -> Batch:
        """Open a batch, with a name of your own if you like: with `unique`, one that no other open batch has.

        On completion `webhook`, an address, is called, and `notify`, a recipient, gets a message.

        ```python
        with hub.batches.open("night", notify="operator") as batch:
            hub.send(recipient="alice", text="hello", batch=batch)
        ```
        """
        call = OpenBatch(
            key=key, unique=unique, counting=counting_of(counting), webhook=webhook_of(webhook), notify=notify
        )
        return self._open(call)

    def get(self, batch_id: str) -> Batch:
        """A batch by its id. Nothing is asked.

        ```python
        batch = hub.batches.get(batch_id)
        ```
        """
        return Batch(self._link, batch_id)

    def list(self, *, state: BatchState | str | None = None, key: str | None = None) -> Iterator[BatchStatus]:
        """The batches, the newest first, page by page as you go on.

        ```python
        for status in hub.batches.list(state="sealed"):
            print(status.key, status.pending)
        ```
        """
        return every(
            self._link, ListBatches(state=batch_state_of(state), key=key, limit=PAGE_MAX), lambda page: page.batches
        )

    def acknowledge(self, items: Acknowledgeable = (), *, ranges: Iterable[ItemRange] = ()) -> Acknowledged:
        """As `Batch.acknowledge`, for items of any batches.

        ```python
        answer = hub.batches.acknowledge([item_id])
        print(answer.acknowledged, answer.complete)
        ```
        """
        if ranges:
            first = (items,) if isinstance(items, str | ItemRange | Items) else items
            return acknowledge(self._link, chain(first, ranges))
        return acknowledge(self._link, items)

    def acknowledge_each(self, calls: Iterable[Acknowledgeable]) -> tuple[Acknowledged, ...]:
        """Several calls in one round trip, each with an answer of its own, in their order.

        As many as 1,000 calls with 10,000 items together are one request, all of it or nothing. More go out in several, one
        after the other: when one of them fails, those before it have been carried out.

        ```python
        answers = hub.batches.acknowledge_each([[first_item], [second_item, third_item]])
        ```
        """
        each = Each(calls)
        for request in each.requests():
            each.answered(self._link.call(AcknowledgeEach(request)))
        return each.answers()

    def acknowledging(self) -> Acknowledger:
        """As `Batch.acknowledging`, for items of any batches.

        ```python
        with hub.batches.acknowledging() as done:
            done.add(item_id)
        ```
        """
        return Acknowledger(self._link)

    def reap(self, *, dry_run: bool = False) -> tuple[ReapedBatch, ...]:
        """Delete the batches that nobody has touched for long, now; gives which, or which it would be.

        ```python
        print([reaped.id for reaped in hub.batches.reap(dry_run=True)])
        ```
        """
        return self._link.call(ReapBatches(dry_run=dry_run)).batches

    def _open(self, call: OpenBatch) -> Batch:
        opened = self._link.call(call)
        return Batch(self._link, opened.id, opened)


def acknowledge(link: Link, given: Acknowledgeable) -> Acknowledged:
    call = plain_call(given)
    if call is not None:
        return link.call(call)
    calls = calls_of(given)
    first, second = next(calls, None), next(calls, None)
    if first is None:
        return NOTHING
    if second is None:
        return link.call(first)
    total = Sum()
    side_by_side(link.call, chain((first, second), calls), total.add, at_most=ACKNOWLEDGE_CALLS_MAX)
    return total.answer()
