"""Clients that come and go, read slowly and are cut off, and a hub that is killed, under a stream of publishes.

What each of them shows is the mailbox, whole and in order.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
import restante.aio
from restante.client.transport.options import Retrying
from restante.model.publishing.message import Message
from tests.client.proxy import CuttingProxy
from tests.crash.served import Served
from tests.profiles import by_profile

RECIPIENTS = ("ada", "bob")
LONG = bool(os.environ.get("RESTANTE_LONG"))
MESSAGES = 5_000 if LONG else by_profile(dev=150, ci=600)
KILLS = 12 if LONG else by_profile(dev=1, ci=2)
SEEDS = range(6 if LONG else 1)
PATIENT = Retrying(times=1_000, seconds=300, first_pause=0.01, longest_pause=0.1)
LAST = "the last"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "data", partition_count=2, live__queue_messages=8) as process:
        yield process


@pytest.fixture
def proxy(served: Served) -> Iterator[CuttingProxy]:
    with CuttingProxy(served.url) as between:
        yield between


class Publisher(threading.Thread):
    """Publishes in handfuls, each of which is stored once, whatever becomes of the hub."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(name="publisher")
        self._url = url
        self._chance = random.Random(seed)
        self.published = 0
        self.progress = threading.Condition()

    def run(self) -> None:
        with restante.connect(self._url, retries=PATIENT, timeout=10) as hub:
            while self.published < MESSAGES:
                size = self._chance.choice([1, 1, 2, 30, 70, 300])
                hub.producer.send([self._letter() for _ in range(size)])
                with self.progress:
                    self.published += size
                    self.progress.notify_all()
            hub.producer.send([Message(recipient=name, data=LAST) for name in RECIPIENTS])

    def _letter(self) -> Message:
        text = "x" * self._chance.choice([0, 10, 1_000, 20_000])
        return Message(recipient=self._chance.choice(RECIPIENTS), data=text)

    def wait_for(self, count: int) -> None:
        with self.progress:
            self.progress.wait_for(lambda: self.published >= min(count, MESSAGES), 120)


def follow_in_a_thread(url: str, name: str, seed: int) -> list[int]:
    """Comes and goes, and goes on where it was."""
    chance, shown, position = random.Random(seed), list[int](), 0
    with restante.connect(url, retries=PATIENT, timeout=10) as hub:
        while True:
            left = chance.randint(1, 400)
            for message in (live := hub.recipient(name).live(after=position)):
                shown.append(message.sequence_number or 0)
                position, left = live.position or 0, left - 1
                if message.data == LAST:
                    return shown
                if not left:
                    break


async def follow(url: str, name: str, seed: int) -> list[int]:
    """The same in a task. Now and then it reads nothing for a while, as one that is busy elsewhere."""
    chance, shown, position = random.Random(seed), list[int](), 0
    async with restante.aio.connect(url, retries=PATIENT, timeout=10) as hub:
        while True:
            left = chance.randint(1, 1_000)
            async with hub.recipient(name).live(after=position) as live:
                async for message in live:
                    shown.append(message.sequence_number or 0)
                    position, left = live.position or 0, left - 1
                    if message.data == LAST:
                        return shown
                    if not left:
                        break
                    if chance.random() < 0.02:
                        await asyncio.sleep(chance.random() * 0.1)


class Reader(threading.Thread):
    """One client, in whichever way."""

    def __init__(self, url: str, name: str, seed: int) -> None:
        super().__init__(name=f"reader {seed}")
        self.recipient = name
        self._url = url
        self._seed = seed
        self.shown: list[int] = []

    def run(self) -> None:
        if self._seed % 2:
            self.shown = follow_in_a_thread(self._url, self.recipient, self._seed)
        else:
            self.shown = asyncio.run(follow(self._url, self.recipient, self._seed))


def mailbox(url: str, name: str) -> list[int]:
    """All of it, by history."""
    numbers: list[int] = []
    with restante.connect(url) as hub:
        after: int | None = 0
        while after is not None:
            page = hub.recipient(name).history(after=after, limit=1_000)
            numbers += [message.sequence_number or 0 for message in page.messages]
            after = page.next
    return numbers


def disturb(served: Served, proxy: CuttingProxy, publisher: Publisher, seed: int) -> None:
    chance, steps = random.Random(seed), 2 * KILLS
    for step in range(1, steps + 1):
        publisher.wait_for(step * MESSAGES // (steps + 1))
        chance.choice([proxy.cut_before, proxy.cut_after])(chance.randint(1, 5))
        if step % 2:
            served.kill()
            served.start()
    publisher.join()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_each_client_shows_is_the_mailbox_whole_and_in_order(
    served: Served, proxy: CuttingProxy, seed: int
) -> None:
    publisher = Publisher(served.url, seed)
    readers = [Reader(proxy.url, RECIPIENTS[number % 2], 10 * seed + number // 2) for number in range(8)]
    for thread in (publisher, *readers):
        thread.start()
    disturb(served, proxy, publisher, seed)
    for reader in readers:
        reader.join(120)
    assert proxy.cuts > 0
    for name in RECIPIENTS:
        whole = mailbox(served.url, name)
        assert len(whole) > MESSAGES // 4
        for reader in readers:
            if reader.recipient == name:
                assert reader.shown == whole
    served.check_log()
