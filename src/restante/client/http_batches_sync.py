"""The calls about batches of the link over HTTP, for programs that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from restante.client import batch_protocol
from restante.client.acknowledgement_text import text_of
from restante.client.exchange import Dialogue
from restante.client.joint_calls import joint_call
from restante.client.joint_sync import JointCalls
from restante.client.options import Terms
from restante.model.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchPage,
    BatchState,
    BatchStatus,
    Counting,
    ItemGroups,
    ItemIndices,
    ItemRange,
    PendingPage,
    ProgressPage,
    Reaped,
    Sealed,
    Webhook,
)
from restante.model.items import Call

T = TypeVar("T")


class BatchCalls:
    """What a link over HTTP can do with batches; whoever inherits it carries the dialogues out."""

    _terms: Terms
    _joint: JointCalls

    def _run(self, dialogue: Dialogue[T]) -> T:
        """Carry a dialogue out."""
        raise NotImplementedError

    def open_batch(
        self,
        *,
        key: str | None = None,
        unique: bool = False,
        counting: Counting = Counting.EXACT,
        webhook: Webhook | None = None,
        notify: str | None = None,
        batch_id: str | None = None,
    ) -> BatchOpened:
        return self._run(
            batch_protocol.open_batch(
                self._terms,
                key=key,
                unique=unique,
                counting=counting,
                webhook=webhook,
                notify=notify,
                batch_id=batch_id,
            )
        )

    def add_items(self, batch_id: str, count: int, *, request_id: str | None = None) -> ItemGroups:
        return self._run(batch_protocol.add_items(self._terms, batch_id, count, request_id=request_id))

    def seal_batch(self, batch_id: str) -> Sealed:
        return self._run(batch_protocol.seal_batch(self._terms, batch_id))

    def acknowledge(
        self, items: Sequence[str] = (), *, ranges: Sequence[ItemRange] = (), indices: Sequence[ItemIndices] = ()
    ) -> Acknowledged:
        """A small call may share a request with others that are made at the same time."""
        call = joint_call(items, ranges=ranges, indices=indices)
        if call.is_large:
            (answer,) = self._acknowledge((call.text,))
            return answer
        return self._joint.acknowledge(call)

    def acknowledge_each(self, calls: Sequence[Call]) -> tuple[Acknowledged, ...]:
        """In one request."""
        if not calls:
            return ()
        texts = [text_of(call.items, ranges=call.ranges, indices=call.indices) for call in calls]
        return self._acknowledge(texts)

    def batch_status(self, batch_id: str) -> BatchStatus:
        return self._run(batch_protocol.batch_status(self._terms, batch_id))

    def batches(
        self,
        *,
        state: BatchState | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> BatchPage:
        return self._run(batch_protocol.batches(self._terms, state=state, key=key, limit=limit, after=after))

    def pending_items(self, batch_id: str, *, limit: int | None = None, after: str | None = None) -> PendingPage:
        return self._run(batch_protocol.pending_items(self._terms, batch_id, limit=limit, after=after))

    def batch_progress(
        self, batch_id: str, *, waiting: bool = False, limit: int | None = None, after: str | None = None
    ) -> ProgressPage:
        dialogue = batch_protocol.batch_progress(self._terms, batch_id, waiting=waiting, limit=limit, after=after)
        return self._run(dialogue)

    def wait_batch(self, batch_id: str, seconds: float) -> BatchStatus | None:
        return self._run(batch_protocol.wait_batch(self._terms, batch_id, seconds))

    def delete_batch(self, batch_id: str) -> None:
        self._run(batch_protocol.delete_batch(self._terms, batch_id))

    def reap_batches(self, *, dry_run: bool = False) -> Reaped:
        return self._run(batch_protocol.reap_batches(self._terms, dry_run=dry_run))

    def _acknowledge(self, calls: Sequence[bytes]) -> tuple[Acknowledged, ...]:
        return self._run(batch_protocol.acknowledge(self._terms, calls))
