"""The calls about batches that asynchronous programs make in the event loop itself, or wait for there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from restante.calls.batches import AcknowledgeEach, AcknowledgeItems, ReadBatch, WaitForBatch
from restante.hub.door.in_process_watch import OwnWays, Threads, Watch
from restante.hub.engine.commit_request import CommitRequest
from restante.limits import ACKNOWLEDGED_SMALL_MAX
from restante.model.batches.batch_answers import Acknowledged, BatchStatus, is_complete, is_counted_elsewhere


async def acknowledge(link: Threads, call: AcknowledgeItems) -> Acknowledged:
    (answer,) = await acknowledge_each(link, AcknowledgeEach((call,)))
    return answer


async def acknowledge_each(link: Threads, call: AcknowledgeEach) -> tuple[Acknowledged, ...]:
    """Small acknowledgements go to the committer from the event loop itself."""
    if sum(map(_named, call.calls)) > ACKNOWLEDGED_SMALL_MAX or link.hub.crowded:
        return await link.thread(link.hub.call, call)
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[CommitRequest[Acknowledged]]] = [loop.create_future() for _ in call.calls]
    link.hub.acknowledge_soon(call, futures)
    requests = [await future for future in futures]
    if any(map(link.hub.is_to_be_finished, requests)):
        return tuple([await link.thread(link.hub.finish, request) for request in requests])
    return tuple([request.answer() for request in requests])


@contextmanager
def watching(link: Threads, batch_id: str) -> Iterator[Watch[BatchStatus]]:
    """A batch to be looked at, and waited for until it is complete."""
    watch = Watch(link, lambda: link.hub.call(ReadBatch(batch_id)), is_complete, is_silent=is_counted_elsewhere)
    with link.hub.listening_to_batch(batch_id, watch.ring):
        yield watch


async def wait_for_batch(link: Threads, call: WaitForBatch) -> BatchStatus | None:
    """Wait for a batch; a caller that waits takes no thread meanwhile."""
    with watching(link, call.batch_id) as watch:
        found = await watch.wait(await watch.look(), call.seconds)
    return found if is_complete(found) else None


def _named(call: AcknowledgeItems) -> int:
    return len(call.items) + len(call.ranges) + sum([len(one.indices) for one in call.indices])


OWN_WAYS: OwnWays = {AcknowledgeItems: acknowledge, AcknowledgeEach: acknowledge_each, WaitForBatch: wait_for_batch}
