"""The hub's door for consignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from restante.hub import consigning, consignments, staging
from restante.hub.consignments import check_id
from restante.hub.core import Core
from restante.hub.sent import sent_columns
from restante.model.answers import Receipt
from restante.model.consignment import check_parcel, check_winners
from restante.model.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentPage,
    ConsignmentState,
    Staged,
    Winner,
)


class ConsignmentTotals(NamedTuple):
    """What is staged in all open consignments."""

    open: int
    staged_bytes: int
    staged_messages: int


class ConsignmentCalls:
    """What a hub does with consignments. Every method may be called from any thread."""

    _core: Core

    def open_consignment(self, key: str, *, batch: bool | BatchWish = False) -> ConsignmentOpened:
        return consignments.open_consignment(self._core, key, batch)

    def stage(self, consignment_id: str, sent: object, *, writer: str, attempt: int, parcel: int) -> Staged:
        """Stage messages, seen by nobody until the commit. The same parcel again changes nothing."""
        name = check_parcel(writer, attempt, parcel)
        return staging.stage(self._core, check_id(consignment_id), sent_columns(self._core, sent), name)

    def commit_consignment(self, consignment_id: str, writers: Sequence[Winner]) -> Receipt:
        return consigning.commit(self._core, check_id(consignment_id), check_winners(writers))

    def discard_consignment(self, consignment_id: str) -> None:
        consignments.discard(self._core, check_id(consignment_id))

    def consignment(self, consignment_id: str) -> ConsignmentDetails:
        return consignments.details(self._core, check_id(consignment_id))

    def consignments(
        self,
        *,
        state: ConsignmentState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ConsignmentPage:
        return consignments.page(self._core, state=state, key=key, limit=limit, after=after)

    def consignment_totals(self) -> ConsignmentTotals:
        staged = [consignment.staged for consignment in tuple(self._core.staging.open.values())]
        length, messages = sum([own.length for own in staged]), sum([own.messages for own in staged])
        return ConsignmentTotals(len(staged), length, messages)
