"""The calls about batches that asynchronous programs make in the event loop itself, or wait for there."""

from __future__ import annotations

import asyncio

from restante.calls.batches import AcknowledgeEach, AcknowledgeItems, ReadBatch, WaitForBatch
from restante.hub.door.in_process_threads import OwnWays, Threads
from restante.hub.engine.committer import CommitRequest
from restante.limits import ACKNOWLEDGED_SMALL_MAX, WAIT_SECONDS_MAX
from restante.model.batches.batch_answers import Acknowledged, BatchState, BatchStatus


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


async def wait_for_batch(link: Threads, call: WaitForBatch) -> BatchStatus | None:
    """Who waits for a batch takes no thread meanwhile."""
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    deadline = loop.time() + min(max(call.seconds, 0), WAIT_SECONDS_MAX)

    def ring() -> None:
        loop.call_soon_threadsafe(rung.set)

    with link.hub.listening_to_batch(call.batch_id, ring):
        while True:
            found = await link.thread(link.hub.call, ReadBatch(call.batch_id))
            if found.state is BatchState.COMPLETE:
                return found
            if loop.time() >= deadline or link.hub.closing:
                return None
            try:
                async with asyncio.timeout_at(deadline):
                    await rung.wait()
            except TimeoutError:
                continue
            rung.clear()


def _named(call: AcknowledgeItems) -> int:
    return len(call.items) + len(call.ranges) + sum([len(one.indices) for one in call.indices])


OWN_WAYS: OwnWays = {AcknowledgeItems: acknowledge, AcknowledgeEach: acknowledge_each, WaitForBatch: wait_for_batch}
