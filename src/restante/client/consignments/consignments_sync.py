# Generated from `consignments_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""`hub.consignment` for programs that wait: many writers stage, and all of it is delivered at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from restante.client.concurrency.waits_sync import side_by_side
from restante.client.consignments.pieces import Piece
from restante.client.consignments.staged import ConsignmentView, StageCall, check_batch, check_nobody_else
from restante.client.surface.arguments import consignment_state_of
from restante.client.surface.pages_sync import every
from restante.client.transport.link import Link
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


class Consignment(ConsignmentView):
    """A consignment: stage what belongs to it, from any number of threads, and commit it.

    In a `with` statement it is committed on leaving, unless that was done, or it was discarded. When an exception
    leaves the statement it is discarded, unless the hub was out of reach, or the commit itself failed: then it stays open. One that was committed before, under the same key, stays as it is.
    """

    def __init__(self, link: Link, opened: ConsignmentOpened, receipt: Receipt | None = None) -> None:
        super().__init__(opened)
        self._link = link
        self.state = opened.state
        """The state of the consignment, as this object knows it."""
        self.receipt = receipt
        """The answer to the commit, now or before."""

    def __repr__(self) -> str:
        return self._described(self.state)

    def stage(
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
        count = consignment.stage("writer-1", 0, [{"recipient": "alice", "text": "hello"}])
        ```
        """
        with self._staging.begin(writer, attempt, parcel) as call:
            pieces = call.pieces(messages)
            return self._stage_all(call, pieces, progress)

    def _stage_all(
        self, call: StageCall, pieces: Iterator[tuple[int, Piece]], progress: Callable[[int], object] | None
    ) -> int:
        total = 0

        def hear(staged: int) -> None:
            nonlocal total
            total += staged
            if progress is not None:
                progress(total)

        side_by_side(partial(self._stage, call), pieces, hear, at_most=STAGE_CALLS_MAX, apart=True)
        return total

    def commit(self, winners: Iterable[Winner] | None = None) -> Receipt:
        """Deliver what these attempts staged, all of it, in this order; without any, those that were staged here last.

        Attempts that are not named are dropped. So without any named, nobody else may have staged, and no `stage` may have
        failed since; and an empty list drops nothing that is staged. Again, it answers the same.

        ```python
        receipt = consignment.commit()
        ```
        """
        if self.receipt is None:
            announced = self._announced(winners)
            if winners is None or not announced:
                check_nobody_else(self.status(), announced)
            self.receipt = self._link.call(CommitConsignment(self.id, announced))
            self.state = ConsignmentState.COMMITTED
        return self.receipt

    def discard(self) -> None:
        """Drop all staged messages. A repetition does nothing, and a consignment that is committed stays.

        ```python
        consignment.discard()
        ```
        """
        self._link.call(DiscardConsignment(self.id))
        self.state = ConsignmentState.DISCARDED

    def status(self) -> ConsignmentDetails:
        """The consignment as the hub knows it, with all that any program has staged.

        ```python
        print((consignment.status()).state)
        ```
        """
        return self._link.call(ReadConsignment(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state is not ConsignmentState.OPEN:
            return
        if error is None:
            self.commit()
            return
        if isinstance(error, Unavailable):
            # The consignment may be committed, or can still be: a program that opens its key again goes on with it.
            error.add_note(f"Consignment {self.id} was left open, to be committed or discarded.")
            return
        try:
            self.discard()
        except RestanteError as other:
            error.add_note(f"Consignment {self.id} could not be discarded: {other}")

    def _stage(self, call: StageCall, numbered: tuple[int, Piece]) -> int:
        number, piece = numbered
        parcel = StageParcel.of(self.id, piece, writer=call.writer, attempt=call.attempt, parcel=number)
        answer = self._link.call(parcel)
        return call.staged(number, answer.staged)


def open_consignment(link: Link, key: str, *, batch: bool | BatchWish) -> Consignment:
    """A new one, or that of this key; of one that was committed, with what the commit answered."""
    return _open(link, key, batch=batch)


def _open(link: Link, key: str, *, batch: bool | BatchWish) -> Consignment:
    opened = link.call(BeginConsignment(key, batch=batch))
    check_batch(opened, batch=batch)
    if opened.state is not ConsignmentState.COMMITTED:
        return Consignment(link, opened)
    return Consignment(link, opened, link.call(ReadConsignment(opened.id)).receipt)


def list_consignments(link: Link, state: ConsignmentState | str | None, key: str | None) -> Iterator[ConsignmentStatus]:
    """The newest first, page by page as one goes on."""
    return every(
        link,
        ListConsignments(state=consignment_state_of(state), key=key, limit=PAGE_MAX),
        lambda page: page.consignments,
    )
