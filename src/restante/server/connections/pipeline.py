"""The publish socket: many small publishes over one WebSocket, stored in the order sent, each answered by its number.

Small frames that are plainly valid go the short way (`ShortFrames`), unless they would overtake another. Others go through
`_Pipeline`: small ones straight into the committer's queue, in order. A large frame, or one that needs a closer look, is
prepared in a thread, and may be planned after small ones of the same commit, so it is waited for before the next frame goes
in. Numbered frames of one producer follow each other without waiting; `FrameOrder` says which others must wait for them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from restante.calls.publishing import Publish
from restante.errors import Internal, RestanteError
from restante.limits import PIPELINE_FRAMES_MAX
from restante.model.access.access import Role
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import Few, Many, few_or_many
from restante.server.access.passes import Pass
from restante.server.connections.exchange import ClientGone, Exchange
from restante.server.connections.incoming_messages import read_apart
from restante.server.connections.short_frames import ShortFrames
from restante.server.desk import Desk, DoorDesk
from restante.server.requests.publish_headers import Label, label_of
from restante.server.route_table import Route
from restante.server.routes.publishing import count
from restante.wire.frames import decode_frame, encode_problem, encode_receipt, number_of
from restante.wire.problems import problem_of

Publishing = asyncio.Task[None]


@dataclass(slots=True)
class _Lane:
    """The numbered frames under way in one partition, all of one producer group."""

    group: int
    tasks: set[Publishing] = field(default_factory=set)


class FrameOrder:
    """The numbered frames of one connection that are under way."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}

    def ahead(self, partition: int | None, producer: ProducerNumbers | None) -> list[Publishing]:
        """The frames that the next frame must not overtake."""
        if not self._lanes:
            return []
        if partition is None:
            return [task for lane in self._lanes.values() for task in lane.tasks]
        lane = self._lanes.get(partition)
        if lane is None or (producer is not None and producer.group == lane.group):
            return []
        return list(lane.tasks)

    def add(self, task: Publishing, partition: int, producer: ProducerNumbers) -> None:
        """Note a numbered frame that went into the queue, after the frames that it must not overtake."""
        lane = self._lanes.get(partition)
        if lane is None or lane.group != producer.group:
            lane = self._lanes[partition] = _Lane(producer.group)
        lane.tasks.add(task)
        task.add_done_callback(lambda done: self._remove(done, partition, lane))

    def _remove(self, task: Publishing, partition: int, lane: _Lane) -> None:
        lane.tasks.discard(task)
        if not lane.tasks and self._lanes.get(partition) is lane:
            del self._lanes[partition]


_log = logging.getLogger("restante.server")

_GOING_AWAY = 1001
_NOT_ALLOWED = 1008
_REASON_CHARACTERS_MAX = 120
"""A close frame has room for a reason of 123 bytes."""


async def serve_pipeline(desk: Desk, exchange: Exchange) -> None:
    """Serve one WebSocket from its acceptance to its end."""
    await exchange.accept_socket()
    exchange.say_goodbye_itself()
    with desk.passes.held(exchange) as held:
        await _Pipeline(desk, exchange, held).run()


async def _first(*some: asyncio.Future[Any]) -> None:
    await asyncio.wait(some, return_when=asyncio.FIRST_COMPLETED)


SOCKETS = (Route("GET", "/v1/publish", serve_pipeline, frozenset({Role.PUBLISHER})),)


def _short_frames(
    desk: DoorDesk, exchange: Exchange, held: Pass, others: Collection[asyncio.Task[None]]
) -> ShortFrames | None:
    """The short way of a connection's frames; None for a door, whose desk has no hub."""
    own = exchange.scope.get("restante.socket")
    if own is None or not isinstance(desk, Desk):
        return None
    return ShortFrames(desk, own, held, exchange.correlation_id, others)


class _Pipeline:
    def __init__(self, desk: Desk, exchange: Exchange, held: Pass) -> None:
        self._desk = desk
        self._exchange = exchange
        self._held = held
        self._correlation_id = exchange.correlation_id
        self._room = asyncio.Semaphore(PIPELINE_FRAMES_MAX)
        self._answers: set[asyncio.Task[None]] = set()
        self._barrier: asyncio.Task[None] | None = None
        """The large publish that the next frame must wait for, if any."""
        self._order = FrameOrder()
        self._link = desk.link.in_order()
        self._short = _short_frames(desk, exchange, held, self._answers)

    async def run(self) -> None:
        drained = asyncio.ensure_future(self._desk.draining.wait())
        ended = asyncio.ensure_future(_first(drained, self._held.lost))
        try:
            while not ended.done():
                event = await self._next(ended)
                if event is None:
                    break
                await self._take(event)
                if self._short is not None:
                    self._short.taken_up()
            await self._finish()
        except ClientGone:
            pass
        finally:
            ended.cancel()
            drained.cancel()
            for task in self._answers:
                task.cancel()

    async def _next(self, ended: asyncio.Future[None]) -> str | bytes | None:
        """The next frame; None when the hub is closing, or the client is no longer admitted."""
        await self._room.acquire()
        frame = asyncio.ensure_future(self._exchange.receive_event())
        await asyncio.wait((frame, ended), return_when=asyncio.FIRST_COMPLETED)
        if not frame.done():
            frame.cancel()
            return None
        event = frame.result()
        if event["type"] == "websocket.disconnect":
            raise ClientGone
        found = event.get("text")
        return event["bytes"] if found is None else found  # type: ignore[no-any-return]

    async def _finish(self) -> None:
        """Wait for the frames under way, and close."""
        if self._short is not None:
            await self._short.finished()
        if self._answers:
            await asyncio.gather(*self._answers, return_exceptions=True)
        code, reason = _GOING_AWAY, "The hub is shutting down."
        try:
            self._held.check()
        except RestanteError as error:
            code, reason = _NOT_ALLOWED, f"{error.code}: {error.message}"
        await self._exchange.close_socket(code, reason[:_REASON_CHARACTERS_MAX])

    async def _take(self, data: str | bytes) -> None:
        """Put one frame into the queue. Its answer is sent after its commit."""
        number: int | None = None
        with ExitStack() as taken:
            try:
                own = taken.enter_context(self._desk.room.publish())
                own.grow_to(len(data))
                frame = await read_apart(self._desk, len(data), decode_frame, data)
                number = frame.header.number
                label = label_of(frame.header)
                sent = few_or_many(await read_apart(self._desk, len(data), frame.messages, own.make))
                if self._held.lost.done():
                    self._held.check()
            except RestanteError as error:
                taken.close()
                await self._refuse(number_of(data) if number is None else number, error)
                return
            await self._turn(label)
            room = taken.pop_all()
        task = asyncio.ensure_future(self._publish(number, sent, label, room))
        task.add_done_callback(lambda _: room.close())  # Also if the task is cancelled before it begins.
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        if label.partition is not None and label.producer is not None:
            self._order.add(task, label.partition, label.producer)
        self._barrier = None if self._desk.link.queues_at_once(Publish(sent, *label)) else task
        await asyncio.sleep(0)  # Lets the task put its frame into the queue before the next one.

    async def _turn(self, label: Label) -> None:
        """Wait until the next frame would overtake none that it must not overtake."""
        ahead = self._order.ahead(label.partition, label.producer)
        if self._barrier is not None:
            ahead.append(self._barrier)
        if ahead:
            await asyncio.wait(ahead)

    async def _publish(self, number: int, sent: Few | Many, label: Label, room: ExitStack) -> None:
        """Store a frame, which takes room until then, and answer it."""
        started = time.perf_counter()
        try:
            with room:
                receipt = await self._link.on_behalf_of(self._held.grant).call(Publish(sent, *label))
        except RestanteError as error:
            await self._refuse(number, error)
            return
        except Exception:  # noqa: BLE001  # the client must get an answer; the log has the details
            _log.exception("A frame failed.", extra={"fields": {"correlation_id": self._correlation_id}})
            await self._refuse(number, Internal("The hub failed. Its log has more, by the correlation id."))
            return
        count(self._desk, sent, receipt, time.perf_counter() - started)
        await self._put(encode_receipt(number, receipt))

    async def _refuse(self, number: int | None, error: RestanteError) -> None:
        await self._put(encode_problem(number, problem_of(error, correlation_id=self._correlation_id)))

    async def _put(self, text: str) -> None:
        """Send an answer. Its frame takes room until then, so that a client that reads no answers is not read from either."""
        # If the client has gone or broken the protocol, the next event says so.
        with suppress(OSError, RuntimeError):
            await self._exchange.send_text(text)
        self._room.release()
