"""The calls about consignments of the link over HTTP, for asynchronous programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from restante.client import consignment_protocol
from restante.client.exchange import Dialogue
from restante.client.options import Terms
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

T = TypeVar("T")


class AsyncConsignmentCalls:
    """`ConsignmentCalls` with `await`."""

    _terms: Terms

    async def _run(self, dialogue: Dialogue[T]) -> T:
        """Carry a dialogue out."""
        raise NotImplementedError

    async def open_consignment(self, key: str, *, batch: bool | BatchWish = False) -> ConsignmentOpened:
        return await self._run(consignment_protocol.open_consignment(self._terms, key, batch=batch))

    async def stage(self, consignment_id: str, sent: object, *, writer: str, attempt: int, parcel: int) -> Staged:
        dialogue = consignment_protocol.stage(
            self._terms, consignment_id, sent, writer=writer, attempt=attempt, parcel=parcel
        )
        return await self._run(dialogue)

    async def commit_consignment(self, consignment_id: str, writers: Sequence[Winner]) -> Receipt:
        return await self._run(consignment_protocol.commit_consignment(self._terms, consignment_id, writers))

    async def discard_consignment(self, consignment_id: str) -> None:
        await self._run(consignment_protocol.discard_consignment(self._terms, consignment_id))

    async def consignment(self, consignment_id: str) -> ConsignmentDetails:
        return await self._run(consignment_protocol.consignment(self._terms, consignment_id))

    async def consignments(
        self,
        *,
        state: ConsignmentState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ConsignmentPage:
        return await self._run(
            consignment_protocol.consignments(self._terms, state=state, key=key, limit=limit, after=after)
        )
