"""Doors in other processes that wait for what became of their records. A wait takes no thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from restante.calls.backplane import AwaitRecords
from restante.hub.backplane.outcomes import RecordOutcomes, outcomes_of, places_of, wait_is_worth_it
from restante.hub.door.in_process_watch import OwnWays, Threads
from restante.model.backplane.backplane_answers import RecordOutcome


async def await_records(link: Threads, call: AwaitRecords) -> tuple[RecordOutcome, ...]:
    core, loop, rung = link.hub.core, asyncio.get_running_loop(), asyncio.Event()

    def ring() -> None:
        loop.call_soon_threadsafe(rung.set)

    with core.memory(RecordOutcomes).waiting(places_of(call.records), ring) as wait:
        if wait_is_worth_it(core, wait):
            with suppress(TimeoutError):
                async with asyncio.timeout(call.seconds):
                    await rung.wait()
        if not wait.open:
            return outcomes_of(core, call.records, wait)
        return await link.thread(outcomes_of, core, call.records, wait)


OWN_WAYS: OwnWays = {AwaitRecords: await_records}
