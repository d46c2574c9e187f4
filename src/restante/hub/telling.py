"""Telling of completed batches: webhooks are posted and messages published until they are taken, or given up."""

from __future__ import annotations

import logging
import uuid

import msgspec

from restante.errors import DataDamaged, RestanteError, Unavailable
from restante.hub.core import Core
from restante.hub.notice_schedule import Place
from restante.hub.notices import batch_and_way
from restante.hub.planning import Draft
from restante.hub.publish import Publish
from restante.model.changes import Space
from restante.model.message import Message
from restante.model.notice import (
    WEBHOOK,
    NoticeState,
    Outcome,
    after_attempt,
    decode_notice,
    encode_notice,
    receiver_of,
)
from restante.model.webhook_signing import signed_headers
from restante.ports.webhook import WebhookCall

ORIGIN = "restante"
KIND = "batch_completed"
_PAGE = 1_000
_SECOND = 1_000_000
_log = logging.getLogger(__name__)


def any_notices(core: Core) -> bool:
    """Whether there may be something to tell from before."""
    return any(core.store.scan(partition.number, Space.BATCH_NOTICE, limit=1) for partition in core.partitions)


def load(core: Core) -> int:
    """Line up what is still to be told; gives how many notices that are."""
    return sum(_load_partition(core, partition.number) for partition in core.partitions)


def tell_always(core: Core) -> None:
    """Deliver notices until the hub is closing."""
    while (turn := core.notices.next_turn(core.clock, core.closing)) is not None:
        # When it cannot even be recorded, the receiver may have been told: it is left alone for longer and longer.
        again_at: int | None = core.clock()
        reached = False
        try:
            again_at, reached = _attempt(core, turn.place)
        except Exception as error:  # noqa: BLE001  # whatever it is, the thread must go on, and the notice is not lost
            if not core.closing.is_set():
                _log.error("A notice could not be delivered, or that not be recorded: %r", error)
        finally:
            core.notices.done(turn, again_at=again_at, reached=reached, now=core.clock())


def _load_partition(core: Core, partition: int) -> int:
    count, after = 0, b""
    while not core.closing.is_set() and (
        entries := core.store.scan(partition, Space.BATCH_NOTICE, start=after, limit=_PAGE)
    ):
        for key, value in entries:
            count += _line_up(core, Place(partition, key), value)
        after = entries[-1][0] + b"\0"
    return count


def _line_up(core: Core, place: Place, value: bytes) -> bool:
    try:
        state = _decoded(place.partition, value)
    except DataDamaged as error:
        _log.error("%s", error)
        return False
    if state.waits:
        core.notices.add(receiver_of(batch_and_way(place.key)[1], state), place, state.next_at)
    return state.waits


def _attempt(core: Core, place: Place) -> tuple[int | None, bool]:
    """Try once, and record it; gives when to try again, and whether the receiver was reached."""
    value = core.store.get(place.partition, Space.BATCH_NOTICE, place.key)
    if value is None:
        return None, True
    state = _decoded(place.partition, value)
    batch, way = batch_and_way(place.key)
    outcome = _post(core, batch, state) if way == WEBHOOK else _publish(core, batch, state)
    after = after_attempt(state, outcome, now=core.clock(), fraction=core.random(1)[0] / 256)
    if after.problem:
        _log.warning(
            "Batch %s: %s was not told of its completion (attempt %d%s): %s",
            batch,
            way,
            after.attempts,
            "" if after.waits else ", given up",
            after.problem,
        )
    kept = core.commit(lambda draft: _record(core, draft, place, way, after))
    return (after.next_at if after.waits and kept else None), outcome.reached


def _record(core: Core, draft: Draft, place: Place, way: str, after: NoticeState) -> bool:
    """Store what became of an attempt, unless the batch was deleted meanwhile."""
    counted = core.tally.notices_failed if after.problem else core.tally.notices_delivered
    draft.applies.append(lambda: counted.update({way: counted.get(way, 0) + 1}))
    if draft.get(place.partition, Space.BATCH_NOTICE, place.key) is None:
        return False
    draft.put(place.partition, Space.BATCH_NOTICE, place.key, encode_notice(after))
    return True


def _post(core: Core, batch: uuid.UUID, state: NoticeState) -> Outcome:
    signed = signed_headers(
        secret=state.secret, webhook_id=str(batch), at_seconds=core.clock() // _SECOND, body=state.payload
    )
    call = WebhookCall(url=state.target, body=state.payload, headers={"content-type": "application/json", **signed})
    try:
        if core.post_webhook is None:
            raise Unavailable("cannot be told: this hub was opened without a way to post webhooks")
        return _outcome(core.post_webhook(call))
    except Exception as error:  # noqa: BLE001  # whatever the port raises: it is tried again later
        return Outcome(problem=error.message if isinstance(error, RestanteError) else repr(error), reached=False)


def _outcome(status: int) -> Outcome:
    if 200 <= status < 300:
        return Outcome()
    if 300 <= status < 400:
        return Outcome(problem=f"answered {status}, and redirects are not followed: give the final address")
    # 410 is how a receiver says that it wants no more.
    return Outcome(problem=f"answered {status}", final=status == 410)


def _publish(core: Core, batch: uuid.UUID, state: NoticeState) -> Outcome:
    """The message has always the same id, so that it is there once however often it is published."""
    message = Message(
        recipient=state.target,
        id=str(uuid.uuid5(batch, "completed")),
        origin=ORIGIN,
        kind=KIND,
        data=msgspec.json.decode(state.payload),
    )
    try:
        core.submit(Publish((message,)))
    except RestanteError as error:
        return Outcome(problem=error.message, final=not error.retriable)
    return Outcome()


def _decoded(partition: int, value: bytes) -> NoticeState:
    try:
        return decode_notice(value)
    except msgspec.DecodeError as error:
        raise DataDamaged(f"A notice in partition {partition} makes no sense: {error}.", partition=partition) from error
