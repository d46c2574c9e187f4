"""A hub in this process as asynchronous programs use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

import msgspec

from restante.calls.call import Answer, Call
from restante.calls.mailboxes import Dequeue, ListPartitions, PartitionOf, Peek
from restante.calls.nodes import ReadNodes
from restante.calls.publishing import Publish
from restante.hub.door import (
    in_process_actions,
    in_process_backplane,
    in_process_batches,
    in_process_feed,
    in_process_groups,
)
from restante.hub.door.hub import ApartHub, OpenHub
from restante.hub.door.in_process_live import InProcessLive
from restante.hub.door.in_process_watch import OwnWays, Watch, in_thread
from restante.hub.door.other_shards import OtherShards
from restante.hub.engine.commit_request import CommitRequest, closed
from restante.hub.publishing.calls import any_special
from restante.model.access.access import EVERYTHING, Grant
from restante.model.batches.batch_answers import BatchStatus
from restante.model.mailboxes.answers import BundleAnswer, Dequeued, Reason, Receipt
from restante.model.publishing.few_or_many import Few

P = ParamSpec("P")
T = TypeVar("T")

_THREADS_MAX = 32


class InProcess(InProcessLive):
    """The asynchronous link to a hub in this process.

    A small publish is queued from the event loop itself and answered by the committer; everything that reads runs in
    threads of its own.
    """

    def __init__(self, hub: OpenHub) -> None:
        self._hub = hub
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "restante-aio")

    @property
    def hub(self) -> OpenHub:
        return self._hub

    def on_behalf_of(self, caller: Grant) -> InProcess:
        """The link on behalf of a caller who may do what the grant says."""
        if caller is EVERYTHING:
            return self
        seen = object.__new__(type(self))
        seen._hub, seen._threads = self._hub.on_behalf_of(caller), self._threads
        return seen

    def in_order(self) -> InProcess:
        """The same link, because requests in the queue of one hub stay in order."""
        return self

    def queues_at_once(self, call: Publish) -> bool:
        """Whether a publish has its place among others as soon as it is called; larger ones are made ready and planned apart."""
        if not isinstance(call.sent, Few) or self.hub.crowded or self.hub.asks_first(call):
            return False
        return call.source is None and not any_special(call.sent.messages)

    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(self._threads, partial(function, *args, **kwargs), closed)

    async def call(self, call: Call[Answer]) -> Answer:
        """Carry a call out: in a thread, except for calls that have a way of their own in the event loop."""
        own = _OWN_WAYS.get(type(call))
        if own is None:
            return await self.thread(self._hub.call, call)
        answer: Answer = await own(self, call)
        return answer

    @contextmanager
    def peeking(self, call: Peek) -> Iterator[Watch[BundleAnswer | Reason]]:
        """A peek to be looked for and waited for."""
        now = msgspec.structs.replace(call, wait=0)
        watch = Watch(self, lambda: self._hub.call(now), lambda found: isinstance(found, BundleAnswer))
        with self._hub.listening(call.recipient, watch.ring):
            yield watch

    def watching_batch(self, batch_id: str) -> AbstractContextManager[Watch[BatchStatus]]:
        """A batch to be looked at, and waited for until it is complete."""
        return in_process_batches.watching(self, batch_id)

    def apart(self, *, timeout: float | None = None) -> ApartHub:
        """The link for the threads of a member."""
        return self._hub.apart(timeout=timeout)

    def other_shards(self) -> OtherShards:
        return OtherShards(self._hub.core)

    async def close(self) -> None:
        self._hub.hand_over(asyncio.get_running_loop())
        await self.thread(self._hub.close)
        self._threads.shutdown(wait=False)


async def _publish(link: InProcess, call: Publish) -> Receipt:
    """A few messages are queued here; many are checked and laid out in a thread."""
    loop = asyncio.get_running_loop()
    if not isinstance(call.sent, Few) or link.hub.crowded or link.hub.asks_first(call):
        link.hub.hand_over(loop)  # The thread must not come before what was sent before it.
        return await link.thread(link.hub.call, call)
    future: asyncio.Future[CommitRequest[Receipt]] = loop.create_future()
    link.hub.publish_soon(call, future)
    return (await future).answer()


async def _peek(link: InProcess, call: Peek) -> BundleAnswer | Reason:
    """A peek that waits takes no thread meanwhile."""
    if call.wait <= 0:
        return await link.thread(link.hub.call, call)
    with link.peeking(call) as watch:
        return await watch.wait(await watch.look(), call.wait)


async def _dequeue(link: InProcess, call: Dequeue) -> Dequeued:
    future: asyncio.Future[CommitRequest[Dequeued]] = asyncio.get_running_loop().create_future()
    link.hub.dequeue_soon(call, future)
    return (await future).answer()


async def _at_once(link: InProcess, call: Call[Answer]) -> Answer:
    """The answer that is known without reading anything."""
    return link.hub.call(call)


_OWN_WAYS: OwnWays = {
    Publish: _publish,
    Peek: _peek,
    Dequeue: _dequeue,
    ListPartitions: _at_once,
    PartitionOf: _at_once,
    ReadNodes: _at_once,
    **in_process_batches.OWN_WAYS,
    **in_process_feed.OWN_WAYS,
    **in_process_groups.OWN_WAYS,
    **in_process_actions.OWN_WAYS,
    **in_process_backplane.OWN_WAYS,
}
