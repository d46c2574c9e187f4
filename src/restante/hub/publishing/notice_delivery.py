"""Delivering notices of completed batches: webhook calls and messages are repeated until they succeed or are given up."""

from __future__ import annotations

import logging
import threading
import uuid

import msgspec

from restante import limits
from restante.calls.shards import DeliverNotice
from restante.errors import DataDamaged, RestanteError, Unavailable
from restante.hub.batches.memory import BatchMemory
from restante.hub.batches.notice_schedule import NoticePlace
from restante.hub.batches.notices import batch_and_way, receiver_of
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Ask, Procedure, run
from restante.hub.engine.tasks import Task, Tasks, guarded
from restante.hub.publishing.publish import large_publish
from restante.hub.publishing.sent import own_columns
from restante.model.access.access import EVERYTHING, Grant
from restante.model.batches.notice import (
    NOT_REACHED,
    WEBHOOK,
    NoticeOutcome,
    NoticeState,
    after_attempt,
    decode_notice,
    encode_notice,
)
from restante.model.batches.webhook_rules import signed_headers
from restante.model.publishing.message import HUB_ORIGIN, Message
from restante.model.storage.changes import Space
from restante.ports.webhook import WebhookCall

KIND = "batch_completed"
_PAGE = 1_000
_SECOND = 1_000_000
_log = logging.getLogger(__name__)


def start_on_demand(core: Core, tasks: Tasks) -> None:
    """Start one delivery thread for each added notice, up to a bound. Notices left in the store have the first thread."""
    teller = _Teller(core, tasks)
    core.memory(BatchMemory).notices.wanted = teller.start_one


class _Teller:
    """Starts the threads that deliver notices: one for each notice, up to as many as can be under way at a time.

    So there is always a thread for messages to the mailboxes of each shard, whatever webhooks and other shards do.
    """

    def __init__(self, core: Core, tasks: Tasks) -> None:
        self._tasks = tasks
        self._lock = threading.Lock()
        self._started = 1 if _any_notices(core) else 0
        self._most = limits.WEBHOOKS_AT_ONCE_MAX + (1 if core.shard is None else len(core.shard.carrier.ranges()))

    def start_one(self) -> None:
        with self._lock:
            if self._started >= self._most:
                return
            self._started += 1
        try:
            self._tasks.start(_MORE)
        except RuntimeError as error:  # The commit that added the notice must not fail for lack of a thread.
            _log.error("No thread to tell of completed batches: %s", error)


def _any_notices(core: Core) -> bool:
    """Whether the store may have notices. In a shared store the thread looks instead, so that a moving shard opens quickly."""
    if core.shard is not None and core.store.shared:
        return True
    return any(core.store.scan(partition.number, Space.BATCH_NOTICE, limit=1) for partition in core.partitions)


def load(core: Core) -> int:
    """Queue the stored notices that still wait for delivery; return how many."""
    return sum(_load_partition(core, partition.number) for partition in core.partitions)


def _tell_what_was_left(core: Core) -> None:
    loaded = False
    while not loaded and not core.closing.is_set():
        loaded = guarded(core, lambda core: 1 + load(core)) > 0
    tell_always(core)


def tell_always(core: Core) -> None:
    """Deliver notices until the hub is closing."""
    while (turn := core.memory(BatchMemory).notices.next_turn(core.clock, core.closing)) is not None:
        # If the attempt cannot be recorded, the receiver may have got the notice: `done` then backs off longer each time.
        again_at: int | None = core.clock()
        reached = False
        try:
            again_at, reached = _attempt(core, turn.place)
        except Exception as error:  # noqa: BLE001  # the thread must go on, and the notice must not be lost
            if not core.closing.is_set():
                _log.error("A notice could not be delivered, or that not be recorded: %r", error)
        finally:
            core.memory(BatchMemory).notices.done(turn, again_at=again_at, reached=reached, now=core.clock())


def _load_partition(core: Core, partition: int) -> int:
    count, after = 0, b""
    while not core.closing.is_set() and (
        entries := core.store.scan(partition, Space.BATCH_NOTICE, start=after, limit=_PAGE)
    ):
        for key, value in entries:
            count += _line_up(core, NoticePlace(partition, key), value)
        after = entries[-1][0] + b"\0"
    return count


def _line_up(core: Core, place: NoticePlace, value: bytes) -> bool:
    try:
        state = _decoded(place.partition, value)
    except DataDamaged as error:
        _log.error("%s", error)
        return False
    if state.waits:
        core.memory(BatchMemory).notices.add(
            receiver_of(core, batch_and_way(place.key)[1], state), place, state.next_at
        )
    return state.waits


def _attempt(core: Core, place: NoticePlace) -> tuple[int | None, bool]:
    """Try once, and record the outcome; return when to try again (None: never), and whether the receiver was reached."""
    value = core.store.get(place.partition, Space.BATCH_NOTICE, place.key)
    if value is None:
        return None, True
    state = _decoded(place.partition, value)
    batch, way = batch_and_way(place.key)
    outcome = _post(core, batch, state) if way == WEBHOOK else _publish(core, batch, state)
    after = after_attempt(state, outcome, now=core.clock(), fraction=core.random(1)[0] / 256)
    kept = core.commit(lambda draft: _record(core, draft, place, way, after))
    if after.problem:
        _log.warning(
            "Batch %s: %s was not told of its completion (attempt %d%s): %s",
            batch,
            way,
            after.attempts,
            "" if after.waits else ", given up",
            outcome.detail or after.problem,
        )
    return (after.next_at if after.waits and kept else None), outcome.reached


def _record(core: Core, draft: RequestDraft, place: NoticePlace, way: str, after: NoticeState) -> bool:
    """Store the state after an attempt, unless the batch was deleted meanwhile."""
    counted = core.memory(BatchMemory).notices_failed if after.problem else core.memory(BatchMemory).notices_delivered
    draft.applies.append(lambda: counted.update({way: counted.get(way, 0) + 1}))
    if draft.get(place.partition, Space.BATCH_NOTICE, place.key) is None:
        return False
    draft.put(place.partition, Space.BATCH_NOTICE, place.key, encode_notice(after))
    return True


def _post(core: Core, batch: uuid.UUID, state: NoticeState) -> NoticeOutcome:
    signed = signed_headers(
        secret=state.secret, webhook_id=str(batch), at_seconds=core.clock() // _SECOND, body=state.payload
    )
    call = WebhookCall(url=state.target, body=state.payload, headers={"content-type": "application/json", **signed})
    try:
        post = core.memory(BatchMemory).post_webhook
        if post is None:
            raise Unavailable("cannot be notified: this hub was opened without a way to post webhooks")
        return _outcome(post(call))
    except Exception as error:  # noqa: BLE001  # whatever the port raises, the call is tried again later
        detail = error.message if isinstance(error, RestanteError) else repr(error)
        return NoticeOutcome(problem=NOT_REACHED, reached=False, detail=detail)


def _outcome(status: int) -> NoticeOutcome:
    if 200 <= status < 300:
        return NoticeOutcome()
    if 300 <= status < 400:
        return NoticeOutcome(problem=f"answered {status}, and redirects are not followed: give the final address")
    # With 410 a receiver says that it wants no more calls.
    return NoticeOutcome(problem=f"answered {status}", final=status == 410)


def deliver(core: Core, call: DeliverNotice, _: Grant) -> None:
    """Publish a notice into a mailbox of this hub. Repeated calls publish it once, because its id is fixed."""
    message = Message(
        recipient=call.recipient,
        id=str(uuid.uuid5(uuid.UUID(bytes=call.batch), "completed")),
        origin=HUB_ORIGIN,
        kind=KIND,
        data=msgspec.json.decode(call.payload),
    )
    core.submit(large_publish(core, own_columns(message), None))


def _publish(core: Core, batch: uuid.UUID, state: NoticeState) -> NoticeOutcome:
    call = DeliverNotice(state.target, batch.bytes, state.payload)
    try:
        if core.locate(state.target).partition in core.owned:
            deliver(core, call, EVERYTHING)
        else:
            run(core, _delivery(core, call))
    except RestanteError as error:
        return NoticeOutcome(problem=error.message, final=not error.retriable, reached=not error.retriable)
    return NoticeOutcome()


def _delivery(core: Core, call: DeliverNotice) -> Procedure[None]:
    yield Ask(core.locate(call.recipient).partition, call)


def _decoded(partition: int, value: bytes) -> NoticeState:
    try:
        return decode_notice(value)
    except msgspec.DecodeError as error:
        raise DataDamaged(f"A notice in partition {partition} makes no sense: {error}.", partition=partition) from error


def _wake(core: Core) -> None:
    core.memory(BatchMemory).notices.wake()


TASK = Task(
    "notices",
    _tell_what_was_left,
    wake=_wake,
    is_wanted=_any_notices,
    prepare=start_on_demand,
    waits_outside=True,
    component="webhooks",
)
_MORE = Task("notices", tell_always, wake=_wake, waits_outside=True, component="webhooks")
