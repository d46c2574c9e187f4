"""Clients of a served hub, many at once: they send in every way there is, peek and dequeue, until told to stop.

Some are patient and leave repeating to the client library. The others give up soon, and call again themselves.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
from itertools import count
from types import TracebackType
from typing import Self, TypeVar

import msgspec
import pyarrow as pa

import restante
import restante.aio
from restante.client.surface import asynchronous, sync
from restante.client.surface.surface import Dequeued
from restante.client.transport.options import Retrying
from restante.errors import BundleUnknown, RestanteError
from restante.model.publishing.message import Message
from tests.crash.campaign import pause
from tests.crash.load import ParcelName, message_id
from tests.crash.served import Served
from tests.crash.wire_ledger import WireLedger

T = TypeVar("T")

ORIGINS = ("charges", "series")
RECIPIENTS = tuple(f"recipient {number}" for number in range(6))
COLLECTED_BY_THREADS, COLLECTED_BY_A_TASK = (RECIPIENTS[:2], RECIPIENTS[2:4]), RECIPIENTS[4:]
PATIENT = Retrying(times=10_000, seconds=120, first_pause=0.01, longest_pause=0.05)
HASTY = Retrying(times=1, seconds=120, first_pause=0.01, longest_pause=0.02)
WAIT_SECONDS = 0.05
SMALL, LARGE, WINDOW = 3, 300, 40
LARGE_BYTES = 3_000
"""Some large tables do not fit into the database: they go into a file of their own."""


def parcel(name: ParcelName, size: int) -> list[Message]:
    generator = random.Random(repr(name))
    filler = "x" * (LARGE_BYTES if size == LARGE and generator.random() < 0.3 else 10)
    return [
        Message(
            recipient=generator.choice(RECIPIENTS),
            origin=generator.choice(ORIGINS),
            kind=generator.choice(["k", "l"]),
            id=message_id(name, index),
            data=[name.publisher, name.turn, index, filler],
        )
        for index in range(size)
    ]


def table_of(messages: Sequence[Message]) -> pa.Table:
    return pa.table(
        {
            "recipient": [message.recipient for message in messages],
            "origin": [message.origin for message in messages],
            "kind": [message.kind for message in messages],
            "id": [message.id for message in messages],
            "data": pa.array([msgspec.json.encode(message.data) for message in messages], pa.binary()),
            "media_type": ["application/json"] * len(messages),
        }
    )


class WireLoad:
    """The clients of one hub. Use it in a `with` statement: they stop at its end, when all they began is done."""

    def __init__(self, url: str, ledger: WireLedger) -> None:
        self._url, self._ledger = url, ledger
        self._stopping = threading.Event()
        work: list[Callable[[], None]] = [
            lambda: self._send(1, SMALL, PATIENT),
            lambda: self._send(2, SMALL, HASTY),
            lambda: self._send_tables(3),
            lambda: self._pipeline(4),
            lambda: self._collect(COLLECTED_BY_THREADS[0], PATIENT),
            lambda: self._collect(COLLECTED_BY_THREADS[1], HASTY),
            self._look_on,
            lambda: asyncio.run(self._tasks()),
        ]
        self._threads = [threading.Thread(target=self._guarded, args=(each,)) for each in work]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if error is None:
            self._ledger.check_no_failure()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test must hear of it
            self._stopping.set()
            self._ledger.failed(error)

    # Programs that wait

    def _again(self, call: Callable[[], T]) -> T | None:
        """Call until it is answered; None if the load ends first, in failure."""
        while not self._ledger.failures:
            try:
                return call()
            except RestanteError as error:
                self._ledger.refused(error)
        return None

    def _send(self, publisher: int, size: int, retrying: Retrying) -> None:
        with restante.connect(self._url, retries=retrying) as hub:
            for turn in count():
                if self._stopping.is_set():
                    return
                self._publish(hub, ParcelName(0, publisher, turn), size, lambda messages: messages)

    def _send_tables(self, publisher: int) -> None:
        with restante.connect(self._url, retries=PATIENT) as hub:
            for turn in count():
                if self._stopping.is_set():
                    return
                self._publish(hub, ParcelName(0, publisher, turn), LARGE, table_of)

    def _publish(self, hub: sync.Hub, name: ParcelName, size: int, shape: Callable[[list[Message]], object]) -> None:
        messages = parcel(name, size)
        self._ledger.sends(name, messages)
        receipt = self._again(lambda: hub.producer.send(shape(messages)))
        if receipt is not None:
            self._ledger.published(name, receipt)

    def _pipeline(self, publisher: int) -> None:
        with restante.connect(self._url, retries=PATIENT) as hub, hub.producer.pipeline() as pipeline:
            for turn in count():
                if self._stopping.is_set():
                    return
                name = ParcelName(0, publisher, turn)
                messages = parcel(name, WINDOW)
                self._ledger.sends(name, messages)
                for promise in [pipeline.send(message) for message in messages]:
                    receipt = promise.result()
                    assert receipt.accepted + receipt.duplicates >= 1
                self._ledger.pipelined(name)

    def _collect(self, names: Sequence[str], retrying: Retrying) -> None:
        """Nobody else dequeues for these recipients."""
        generator = random.Random(repr(names))
        with restante.connect(self._url, retries=retrying) as hub:
            while not self._stopping.is_set():
                name, origin = generator.choice(names), generator.choice(ORIGINS)
                most = generator.choice([1, 10, 500])
                self._collect_once(hub, name, origin, most)

    def _collect_once(self, hub: sync.Hub, name: str, origin: str, most: int) -> None:
        mailbox = hub.recipient(name)
        bundle = self._again(lambda: mailbox.peek(origins=[origin], max_messages=most, wait=WAIT_SECONDS))
        if bundle is None:
            return
        self._ledger.peeked(name, bundle.bundle_id, bundle.messages)
        self._ledger.collects(bundle.bundle_id)
        refusals = len(self._ledger.refusals)
        done = self._again(lambda: dequeue_of(mailbox, bundle.bundle_id, lambda: len(self._ledger.refusals) > refusals))
        if done is not None:
            self._ledger.dequeued(bundle.bundle_id, bundle.messages, done.messages)

    def _look_on(self) -> None:
        """Peeks at everybody's mail, and dequeues nothing."""
        generator = random.Random(0)
        with restante.connect(self._url, retries=PATIENT) as hub:
            while not self._stopping.is_set():
                name, origin = generator.choice(RECIPIENTS), generator.choice(ORIGINS)
                bundle = hub.recipient(name).peek(origins=[origin], max_messages=7)
                if bundle is not None:
                    self._ledger.peeked(name, bundle.bundle_id, bundle.messages)

    # Asynchronous programs

    async def _tasks(self) -> None:
        async with restante.aio.connect(self._url, retries=PATIENT) as hub, asyncio.TaskGroup() as group:
            for publisher in (5, 6):
                group.create_task(self._send_asynchronously(hub, publisher))
            group.create_task(self._pipeline_asynchronously(hub, 7))
            group.create_task(self._collect_asynchronously(hub))

    async def _send_asynchronously(self, hub: asynchronous.Hub, publisher: int) -> None:
        for turn in count():
            if self._stopping.is_set():
                return
            name = ParcelName(0, publisher, turn)
            messages = parcel(name, SMALL)
            self._ledger.sends(name, messages)
            self._ledger.published(name, await hub.producer.send(messages))

    async def _pipeline_asynchronously(self, hub: asynchronous.Hub, publisher: int) -> None:
        async with hub.producer.pipeline() as pipeline:
            for turn in count():
                if self._stopping.is_set():
                    return
                name = ParcelName(0, publisher, turn)
                messages = parcel(name, WINDOW)
                self._ledger.sends(name, messages)
                for receipt in await asyncio.gather(*[pipeline.send(message) for message in messages]):
                    assert receipt.accepted + receipt.duplicates >= 1
                self._ledger.pipelined(name)

    async def _collect_asynchronously(self, hub: asynchronous.Hub) -> None:
        generator = random.Random(1)
        while not self._stopping.is_set():
            name, origin = generator.choice(COLLECTED_BY_A_TASK), generator.choice(ORIGINS)
            bundle = await hub.recipient(name).peek(origins=[origin], max_messages=50, wait=WAIT_SECONDS)
            if bundle is not None:
                self._ledger.peeked(name, bundle.bundle_id, bundle.messages)
                self._ledger.collects(bundle.bundle_id)
                done = await bundle.dequeue()
                self._ledger.dequeued(bundle.bundle_id, bundle.messages, done.messages)


def dequeue_of(mailbox: sync.Recipient, bundle_id: str, tried_before: Callable[[], bool]) -> Dequeued:
    """A dequeue that is called again finds out that it was done."""
    try:
        return mailbox.dequeue(bundle_id)
    except BundleUnknown as error:
        done = error.details.get("messages")
        if not tried_before() or "dequeued_at" not in error.details or not isinstance(done, int):
            raise
        return Dequeued(bundle_id=bundle_id, messages=done)


def kill_under_load(
    served: Served,
    ledger: WireLedger,
    check: Callable[[], None] = lambda: None,
    *,
    kills: int,
    seed: int,
    answers_max: int,
) -> WireLedger:
    """Kill the hub so often, each time after up to so many answers. It comes back at its address; the clients go on all the time."""
    generator = random.Random(seed)
    with WireLoad(served.url, ledger):
        for _ in range(kills):
            ledger.wait_for(generator.choice([1, *(generator.randrange(answers_max) for _ in range(3))]))
            pause(generator.random() * 0.003)
            served.kill()
            check()
            served.start()
        ledger.wait_for(answers_max)
    return ledger


def drain(url: str, ledger: WireLedger) -> None:
    """Collect all that is left."""
    with restante.connect(url) as hub:
        for name in RECIPIENTS:
            for bundle in hub.recipient(name).bundles(idle=0):
                ledger.peeked(name, bundle.bundle_id, bundle.messages)
                ledger.collects(bundle.bundle_id)
                ledger.dequeued(bundle.bundle_id, bundle.messages, bundle.dequeue().messages)
