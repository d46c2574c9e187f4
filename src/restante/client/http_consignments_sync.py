"""The calls about consignments of the link over HTTP, for programs that wait."""

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


class ConsignmentCalls:
    """What a link over HTTP can do with consignments; whoever inherits it carries the dialogues out."""

    _terms: Terms

    def _run(self, dialogue: Dialogue[T]) -> T:
        """Carry a dialogue out."""
        raise NotImplementedError

    def open_consignment(self, key: str, *, batch: bool | BatchWish = False) -> ConsignmentOpened:
        return self._run(consignment_protocol.open_consignment(self._terms, key, batch=batch))

    def stage(self, consignment_id: str, sent: object, *, writer: str, attempt: int, parcel: int) -> Staged:
        dialogue = consignment_protocol.stage(
            self._terms, consignment_id, sent, writer=writer, attempt=attempt, parcel=parcel
        )
        return self._run(dialogue)

    def commit_consignment(self, consignment_id: str, writers: Sequence[Winner]) -> Receipt:
        return self._run(consignment_protocol.commit_consignment(self._terms, consignment_id, writers))

    def discard_consignment(self, consignment_id: str) -> None:
        self._run(consignment_protocol.discard_consignment(self._terms, consignment_id))

    def consignment(self, consignment_id: str) -> ConsignmentDetails:
        return self._run(consignment_protocol.consignment(self._terms, consignment_id))

    def consignments(
        self,
        *,
        state: ConsignmentState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ConsignmentPage:
        return self._run(consignment_protocol.consignments(self._terms, state=state, key=key, limit=limit, after=after))
