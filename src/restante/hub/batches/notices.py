"""Notices of completed batches: their receivers and the state of their delivery, kept until the batch is deleted.

A notice is put in the commit of the completion, so none is lost; `hub/publishing/notice_delivery` delivers it. Every attempt
is recorded. If the hub stops before it can record one, the attempt is repeated; the receiver recognises it by its id.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from functools import partial

import msgspec

from restante.hub.batches.memory import BatchMemory
from restante.hub.batches.notice_schedule import NoticePlace
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.model.batches.batch import BatchRow, Counts
from restante.model.batches.batch_answers import Delivery
from restante.model.batches.notice import (
    NOTIFY,
    WEBHOOK,
    NoticeReceiver,
    NoticeState,
    decode_notice,
    encode_notice,
    webhook_receiver,
)
from restante.model.mailboxes.answers import moment
from restante.model.shards.ranges import shard_of
from restante.model.storage.changes import Space

_WAYS = (WEBHOOK, NOTIFY)
_ID_BYTES = 16


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a notice of a completed batch."""

    id: str
    key: str | None
    completed_at: datetime
    items: int
    duplicates: int
    duplicates_waiting: int


def put_notices(core: Core, draft: RequestDraft, partition: int, batch_id: bytes, row: BatchRow, total: Counts) -> None:
    """Store the notices that the batch asked for, in the commit of its completion."""
    targets = {WEBHOOK: row.webhook_url, NOTIFY: row.notify}
    if not any(targets.values()):
        return
    completion = Completion(
        id=uuid_text(batch_id),
        key=row.key,
        completed_at=moment(row.completed_at),
        items=total.items + total.added,
        duplicates=total.duplicates,
        duplicates_waiting=total.duplicates_waiting,
    )
    payload = msgspec.json.encode(completion)
    for way in _WAYS:
        if targets[way]:
            secret = row.webhook_secret if way == WEBHOOK else b""
            state = NoticeState(targets[way], secret, payload, next_at=row.completed_at, owner=row.owner)
            place = NoticePlace(partition, notice_key(batch_id, way))
            draft.put(partition, Space.BATCH_NOTICE, place.key, encode_notice(state))
            draft.applies.append(
                partial(core.memory(BatchMemory).notices.add, receiver_of(core, way, state), place, state.next_at)
            )


def receiver_of(core: Core, way: str, state: NoticeState) -> NoticeReceiver:
    if way == WEBHOOK:
        return webhook_receiver(state)
    partition = core.locate(state.target).partition
    return NoticeReceiver(
        state.owner, shard=0 if core.shard is None else shard_of(core.shard.carrier.ranges(), partition)
    )


def deliveries(core: Core, partition: int, batch_id: bytes) -> tuple[Delivery, ...]:
    """The state of delivering the notices of a batch, as committed; empty if it is not complete, or has no notices."""
    found = ((way, core.store.get(partition, Space.BATCH_NOTICE, notice_key(batch_id, way))) for way in _WAYS)
    return tuple(_delivery(way, decode_notice(value)) for way, value in found if value is not None)


def notice_key(batch_id: bytes, way: str) -> bytes:
    return batch_id + way.encode()


def batch_and_way(key: bytes) -> tuple[uuid.UUID, str]:
    """The batch of a notice, and whether it is a webhook or a message."""
    return uuid.UUID(bytes=key[:_ID_BYTES]), key[_ID_BYTES:].decode()


def _delivery(way: str, state: NoticeState) -> Delivery:
    return Delivery(
        to=way,
        attempts=state.attempts,
        last_attempt_at=moment(state.last_at) if state.last_at else None,
        next_attempt_at=moment(state.next_at) if state.waits else None,
        delivered_at=moment(state.delivered_at) if state.delivered_at else None,
        problem=state.problem or None,
    )
