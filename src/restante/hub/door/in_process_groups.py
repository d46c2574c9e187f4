"""Groups of a hub in this process as asynchronous programs read them. A wait takes no thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from restante.calls.groups import ReadNext, SendHeartbeat, WriteCheckpoint
from restante.hub.door.in_process_watch import OwnWays, Threads
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.groups.checkpoints import asks_home
from restante.hub.groups.few_pages import look_few
from restante.hub.groups.members import state_running
from restante.hub.groups.next_pages import check_next, listening, look_next, nothing_to_do, read_on
from restante.limits import GROUP_GATHER_SECONDS, WAIT_SECONDS_MAX
from restante.model.groups.group_answers import Checkpointed, HeartbeatAnswer, NextAnswer


async def read_next(link: Threads, call: ReadNext) -> NextAnswer:
    core, loop = link.hub.core, asyncio.get_running_loop()
    check_next(core, call)
    state_running(core, call)
    if call.wait <= 0:
        return await _look(link, call)
    rung, deadline = asyncio.Event(), loop.time() + min(call.wait, WAIT_SECONDS_MAX)

    def ring() -> None:
        if not rung.is_set():
            loop.call_soon_threadsafe(rung.set)

    with listening(core, call, ring):
        while True:
            rung.clear()
            found = await _look(link, call)
            if not nothing_to_do(found) or not await _heard(rung, deadline):
                return found
            await asyncio.sleep(GROUP_GATHER_SECONDS)
            call = read_on(call, found)


async def _look(link: Threads, call: ReadNext) -> NextAnswer:
    """A few changes that memory has are found here, in the event loop; others are read in a thread."""
    found = look_few(link.hub.core, call) if call.few else None
    return await link.thread(look_next, link.hub.core, call) if found is None else found


async def _heard(rung: asyncio.Event, deadline: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            await rung.wait()
    return rung.is_set()


async def checkpoint(link: Threads, call: WriteCheckpoint) -> Checkpointed:
    if asks_home(link.hub.core, call.release):
        return await link.thread(link.hub.call, call)
    future: asyncio.Future[CommitRequest[Checkpointed]] = asyncio.get_running_loop().create_future()
    link.hub.checkpoint_soon(call, future)
    return (await future).answer()


async def heartbeat(link: Threads, call: SendHeartbeat) -> HeartbeatAnswer:
    """Renew a member's lease, for which nothing is read or stored."""
    return link.hub.call(call)


OWN_WAYS: OwnWays = {ReadNext: read_next, WriteCheckpoint: checkpoint, SendHeartbeat: heartbeat}
