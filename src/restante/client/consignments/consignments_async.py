"""`hub.consignment` for asynchronous programs: many writers stage, and all of it is delivered at one moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Self

from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ListConsignments,
    ReadConsignment,
    StageParcel,
)
from restante.client.concurrency.openings import AsyncOpening
from restante.client.concurrency.waits_async import side_by_side
from restante.client.consignments.pieces import Piece
from restante.client.consignments.staged import ConsignmentView, StageCall, check_batch, check_nobody_else
from restante.client.surface.arguments import consignment_state_of
from restante.client.surface.pages_async import every
from restante.client.transport.link import AsyncLink
from restante.errors import RestanteError, Unavailable
from restante.limits import PAGE_MAX, STAGE_CALLS_MAX
from restante.model.consignments.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentState,
    ConsignmentStatus,
    Winner,
)
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few, few_or_many


class Consignment(ConsignmentView):
    """A consignment: stage what belongs to it, from any number of tasks, and commit it.

    In an `async with` statement it is committed on leaving, unless that was done, or it was discarded. When an exception
    leaves the statement it is discarded, unless the hub was out of reach, or the commit itself failed: then it stays open. One that was committed before, under the same key, stays as it is.
    """

    def __init__(self, link: AsyncLink, opened: ConsignmentOpened, receipt: Receipt | None = None) -> None:
        super().__init__(opened)
        self._link = link
        self.state = opened.state
        """The state of the consignment, as this object knows it."""
        self.receipt = receipt
        """The answer to the commit, now or before."""

    def __repr__(self) -> str:
        return self._described(self.state)

    async def stage(
        self,
        writer: str,
        attempt: int,
        messages: object,
        *,
        parcel: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Stage a message, any number of them, or Arrow columns, which nobody sees until the commit; gives how many.

        Much is cut into parcels, a few under way at a time, numbered on from the last one of this attempt. With `parcel`
        it is one parcel of that number. To stage the same parcel again is harmless. `progress` hears how many are staged.

        ```python
        count = await consignment.stage("writer-1", 0, [{"recipient": "alice", "text": "hello"}])
        ```
        """
        with self._staging.begin(writer, attempt, parcel) as call:
            pieces = call.pieces(messages)
            # async only: so little is cut and sent at once.
            if isinstance(few_or_many(messages), Few):
                return sum([await self._stage(call, piece) for piece in pieces])
            return await self._stage_all(call, pieces, progress)

    async def _stage_all(
        self, call: StageCall, pieces: Iterator[tuple[int, Piece]], progress: Callable[[int], object] | None
    ) -> int:
        total = 0

        def hear(staged: int) -> None:
            nonlocal total
            total += staged
            if progress is not None:
                progress(total)

        await side_by_side(partial(self._stage, call), pieces, hear, at_most=STAGE_CALLS_MAX, apart=True)
        return total

    async def commit(self, winners: Iterable[Winner] | None = None) -> Receipt:
        """Deliver what these attempts staged, all of it, in this order; without any, those that were staged here last.

        Attempts that are not named are dropped. So without any named, nobody else may have staged, and no `stage` may have
        failed since; and an empty list drops nothing that is staged. Again, it answers the same.

        ```python
        receipt = await consignment.commit()
        ```
        """
        if self.receipt is None:
            announced = self._announced(winners)
            if winners is None or not announced:
                check_nobody_else(await self.status(), announced)
            self.receipt = await self._link.call(CommitConsignment(self.id, announced))
            self.state = ConsignmentState.COMMITTED
        return self.receipt

    async def discard(self) -> None:
        """Drop all staged messages. A repetition does nothing, and a consignment that is committed stays.

        ```python
        await consignment.discard()
        ```
        """
        await self._link.call(DiscardConsignment(self.id))
        self.state = ConsignmentState.DISCARDED

    async def status(self) -> ConsignmentDetails:
        """The consignment as the hub knows it, with all that any program has staged.

        ```python
        print((await consignment.status()).state)
        ```
        """
        return await self._link.call(ReadConsignment(self.id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state is not ConsignmentState.OPEN:
            return
        if error is None:
            await self.commit()
            return
        if isinstance(error, Unavailable):
            # The consignment may be committed, or can still be: a program that opens its key again goes on with it.
            error.add_note(f"Consignment {self.id} was left open, to be committed or discarded.")
            return
        try:
            await self.discard()
        except RestanteError as other:
            error.add_note(f"Consignment {self.id} could not be discarded: {other}")

    async def _stage(self, call: StageCall, numbered: tuple[int, Piece]) -> int:
        number, piece = numbered
        parcel = StageParcel.of(self.id, piece, writer=call.writer, attempt=call.attempt, parcel=number)
        answer = await self._link.call(parcel)
        return call.staged(number, answer.staged)


def open_consignment(link: AsyncLink, key: str, *, batch: bool | BatchWish) -> AsyncOpening[Consignment]:
    """A new one, or that of this key; of one that was committed, with what the commit answered."""
    return AsyncOpening(partial(_open, link, key, batch=batch))


async def _open(link: AsyncLink, key: str, *, batch: bool | BatchWish) -> Consignment:
    opened = await link.call(BeginConsignment(key, batch=batch))
    check_batch(opened, batch=batch)
    if opened.state is not ConsignmentState.COMMITTED:
        return Consignment(link, opened)
    return Consignment(link, opened, (await link.call(ReadConsignment(opened.id))).receipt)


def list_consignments(
    link: AsyncLink, state: ConsignmentState | str | None, key: str | None
) -> AsyncIterator[ConsignmentStatus]:
    """The newest first, page by page as one goes on."""
    return every(
        link,
        ListConsignments(state=consignment_state_of(state), key=key, limit=PAGE_MAX),
        lambda page: page.consignments,
    )
