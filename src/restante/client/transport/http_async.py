"""The link over HTTP for asynchronous programs: `restante.client.transport.http_sync` with `await`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar, cast

from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from restante.calls.batches import AcknowledgeItems
from restante.calls.call import Answer, Call
from restante.client.batches import batch_protocol
from restante.client.batches.joint_async import AsyncJointCalls
from restante.client.batches.joint_calls import joint_call
from restante.client.consignments import consignment_protocol
from restante.client.feed import feed_protocol
from restante.client.live.live_socket_async import AsyncSocketDoor
from restante.client.sockets.frame_link_async import AsyncFrameLink
from restante.client.transport import protocol
from restante.client.transport.dialogues import Dialogues, dialogue_of
from restante.client.transport.exchange import Dialogue, HttpRequest, LongWork, Pause, Reply
from restante.client.transport.http import closed, configured, failure_of, filled, response_of
from restante.client.transport.options import Retrying, Terms
from restante.model.batches.batch_answers import Acknowledged
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.wire.publish import EncodedPublish, encode_publish

T = TypeVar("T")

DIALOGUES: Dialogues = {
    **protocol.DIALOGUES,
    **batch_protocol.DIALOGUES,
    **consignment_protocol.DIALOGUES,
    **feed_protocol.DIALOGUES,
}


class AsyncHttpLink:
    """For the tasks of one event loop; each call takes a connection of the pool for itself."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._closing = threading.Event()
        self._joint: AsyncJointCalls | None = None
        """Made when it is needed: then there is an event loop."""
        builder = ClientBuilder()
        self._pool = [configured(builder, terms.address, connect_seconds=terms.timeout).build()]
        """One client, shared with the links made of this one; none when they are closed, for it holds on to connections."""

    async def _run(self, dialogue: Dialogue[T]) -> T:
        reply: Any = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            if isinstance(step, HttpRequest):
                reply = await self._exchange(step)
            elif isinstance(step, LongWork):
                reply = await asyncio.to_thread(step.function)
            else:
                assert isinstance(step, Pause)
                await asyncio.sleep(step.seconds)
                reply = None

    async def _exchange(self, request: HttpRequest) -> Reply:
        if self._closing.is_set():
            raise closed()
        address = self._terms.address
        try:
            builder = self._pool[0].request(request.method, address.url + request.target)
            response = await filled(builder, request, address).build().send()
            return response_of(response, await response.bytes())
        except PyreqwestError as error:
            return failure_of(error, request)
        except IndexError as error:
            raise closed() from error

    def with_retrying(self, retrying: Retrying) -> AsyncHttpLink:
        """A link over the same connections, with other patience. Closing one closes both."""
        other = copy(self)
        other._terms = replace(self._terms, retrying=retrying)  # noqa: SLF001 - a copy of itself
        other._joint = None  # noqa: SLF001 - a copy of itself
        return other

    def frames(self) -> AsyncFrameLink:
        """A link of its own to the same hub, for parcels over one web socket."""
        return AsyncFrameLink(self._terms)

    def encode(self, sent: object) -> EncodedPublish:
        """What a publish would send. It takes that in place of the messages."""
        return encode_publish(sent, now_ms=self._terms.now_ms(), random=self._terms.random)

    async def publish(
        self,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> Receipt:
        dialogue = protocol.publish(self._terms, sent, partition=partition, producer=producer, batch=batch)
        return await self._run(dialogue)

    async def call(self, call: Call[Answer]) -> Answer:
        """Say a call to the hub, and hear what it answers."""
        if isinstance(call, AcknowledgeItems):
            return cast("Answer", await self._acknowledge_jointly(call))
        return await self._run(dialogue_of(DIALOGUES, self._terms, call))

    async def _acknowledge_jointly(self, call: AcknowledgeItems) -> Acknowledged:
        """A small call may share a request with others that are made at the same time."""
        joint = joint_call(call)
        if joint.is_large:
            (answer,) = await self._acknowledge((joint.text,))
            return answer
        return await self._joint_calls().acknowledge(joint)

    async def _acknowledge(self, calls: Sequence[bytes]) -> tuple[Acknowledged, ...]:
        return await self._run(batch_protocol.acknowledge(self._terms, calls))

    def _joint_calls(self) -> AsyncJointCalls:
        loop = asyncio.get_running_loop()
        if self._joint is None or self._joint.loop is not loop:
            self._joint = AsyncJointCalls(loop, self._acknowledge)
        return self._joint

    def live(self, recipient: str, *, client: str | None = None) -> AsyncSocketDoor:
        """The way to a mailbox that is followed. Nothing is connected yet."""
        return AsyncSocketDoor(self._terms, recipient, client)

    async def close(self) -> None:
        self._closing.set()
        while self._pool:
            await self._pool.pop().close()
