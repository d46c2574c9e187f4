"""Consignments of a hub in this process as asynchronous programs use them."""

from __future__ import annotations

from collections.abc import Sequence

from restante.hub.in_process_threads import Threads
from restante.model.answers import Receipt
from restante.model.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentPage,
    ConsignmentState,
    Staged,
    Winner,
)


class InProcessConsignments:
    """The calls about consignments."""

    async def open_consignment(self: Threads, key: str, *, batch: bool | BatchWish = False) -> ConsignmentOpened:
        return await self.thread(self.hub.open_consignment, key, batch=batch)

    async def stage(
        self: Threads, consignment_id: str, sent: object, *, writer: str, attempt: int, parcel: int
    ) -> Staged:
        return await self.thread(self.hub.stage, consignment_id, sent, writer=writer, attempt=attempt, parcel=parcel)

    async def commit_consignment(self: Threads, consignment_id: str, writers: Sequence[Winner]) -> Receipt:
        return await self.thread(self.hub.commit_consignment, consignment_id, writers)

    async def discard_consignment(self: Threads, consignment_id: str) -> None:
        await self.thread(self.hub.discard_consignment, consignment_id)

    async def consignment(self: Threads, consignment_id: str) -> ConsignmentDetails:
        return await self.thread(self.hub.consignment, consignment_id)

    async def consignments(
        self: Threads,
        *,
        state: ConsignmentState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ConsignmentPage:
        return await self.thread(self.hub.consignments, state=state, key=key, limit=limit, after=after)
