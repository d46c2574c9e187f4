"""Producers that publish through a bad network to a hub that is killed again and again."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack

import restante
import restante.aio
from restante.client.producers import producer_async, producer_sync
from restante.client.publishing.parcel import Parcel
from restante.client.surface import asynchronous, sync
from restante.errors import InvalidClientState, ProducerDisconnected, Unavailable
from tests.crash.served import Served
from tests.producers.campaign_ledger import Tally
from tests.producers.campaign_plan import Cancelled, Configuration, Outcome, Plan

TIMEOUT_SECONDS = 0.25
"""Less than the network holds a request back."""
CANCELLED_SECONDS = 0.03
CANCELLED_RATE = 0.08
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 0.05
Expected = (Unavailable, InvalidClientState, ProducerDisconnected)


def run_sync(plan: Plan, url: str, configuration: Configuration, *, pipelined: bool) -> None:
    """A program that waits, with a thread for each of its partitions."""
    with ThreadPoolExecutor(len(plan.lanes)) as threads:
        while not plan.done:
            with ExitStack() as stack:
                hub = stack.enter_context(restante.connect(url, timeout=TIMEOUT_SECONDS))
                client = stack.enter_context(_sync_client(hub, plan, configuration, pipelined=pipelined))
                _rounds_sync(plan, client, threads)
                configuration = client.state()


def _sync_client(
    hub: sync.Hub, plan: Plan, configuration: Configuration, *, pipelined: bool
) -> producer_sync.ProducerClient:
    return producer_sync.ProducerClient(
        hub,
        enable_idempotent_partitions=True,
        partition_config=configuration,
        pipelined=pipelined,
        retry_total=plan.retries,
        retry_backoff_factor=FIRST_PAUSE_SECONDS,
        retry_backoff_max=LONGEST_PAUSE_SECONDS,
    )


def _rounds_sync(plan: Plan, client: producer_sync.ProducerClient, threads: ThreadPoolExecutor) -> None:
    def send(parcel: Parcel) -> Outcome:
        try:
            return client.send_parcel(parcel)
        except Expected as error:
            return error

    while not plan.done:
        errands = plan.next_round(client.create_parcel)
        outcomes = threads.map(send, [posting.parcel for _, posting in errands])
        for (lane, _), outcome in zip(errands, outcomes, strict=True):
            plan.settle(lane, outcome)
        if plan.wants_restart():
            plan.restarted()
            return


async def run_async(plan: Plan, url: str, configuration: Configuration, *, pipelined: bool) -> None:
    """The same as one that is asynchronous; it also cancels some of its sends."""
    while not plan.done:
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(restante.aio.connect(url, timeout=TIMEOUT_SECONDS))
            client = await stack.enter_async_context(_async_client(hub, plan, configuration, pipelined=pipelined))
            await _rounds_async(plan, client)
            configuration = client.state()


def _async_client(
    hub: asynchronous.Hub, plan: Plan, configuration: Configuration, *, pipelined: bool
) -> producer_async.ProducerClient:
    return producer_async.ProducerClient(
        hub,
        enable_idempotent_partitions=True,
        partition_config=configuration,
        pipelined=pipelined,
        retry_total=plan.retries,
        retry_backoff_factor=FIRST_PAUSE_SECONDS,
        retry_backoff_max=LONGEST_PAUSE_SECONDS,
    )


async def _rounds_async(plan: Plan, client: producer_async.ProducerClient) -> None:
    async def send(parcel: Parcel, patience: float | None) -> Outcome:
        try:
            async with asyncio.timeout(patience):
                return await client.send_parcel(parcel)
        except TimeoutError:
            return Cancelled()
        except Expected as error:
            return error

    while not plan.done:
        errands = plan.next_round(client.create_parcel)
        sends = [send(posting.parcel, _patience(plan.chance)) for _, posting in errands]
        for (lane, _), outcome in zip(errands, await asyncio.gather(*sends), strict=True):
            plan.settle(lane, outcome)
        if plan.wants_restart():
            plan.restarted()
            return


def _patience(chance: random.Random) -> float | None:
    return chance.random() * CANCELLED_SECONDS if chance.random() < CANCELLED_RATE else None


def campaign(served: Served, works: Sequence[Callable[[], None]], tally: Tally, *, kills: int, every: int) -> None:
    """Run them all at once, and kill the hub so often, each time after so many more parcels. It comes back each time."""

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test must hear of it
            tally.failed(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            tally.wait_for_parcels(every)
            served.kill()
            tally.count(kills=1)
            served.check_folder()
            served.start()
    except BaseException as error:
        tally.failed(error)
        raise
    finally:
        for thread in threads:
            thread.join()
    tally.check_no_failure()
