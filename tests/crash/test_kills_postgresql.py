"""A hub on PostgreSQL keeps what it answered: killed, paused for longer than its lease, or with its server restarted."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

import restante
from restante.client.surface.surface import Hub
from restante.errors import BundleUnknown, Unavailable
from restante.hub.doctor.doctor import examine
from restante.model.publishing.message import Message
from restante.stores.postgresql import PostgresqlMoment
from tests.crash.campaign import CHECKOUT, LONG, kill_often
from tests.crash.ledger import Ledger
from tests.crash.load import SETTINGS
from tests.postgresql_server import PostgresqlServer, schema_address

KILLS, KILLS_PER_SCHEMA = (100, 25) if LONG else (8, 8)
"""After each kill all messages are read: a schema that has many of them would take ever longer."""
RESTARTS = 30 if LONG else 4
CHECKING = msgspec.structs.replace(SETTINGS, filing=False)
PUBLISHERS = 4
T = TypeVar("T")


@pytest.mark.parametrize("seed", range(11, 11 + KILLS // KILLS_PER_SCHEMA))
def test_a_hub_that_is_killed_again_and_again_keeps_what_it_acknowledged(tmp_path: Path, seed: int) -> None:
    address = schema_address(tmp_path)
    ledger = Ledger()

    def check(_: object) -> None:
        with restante.open(address, settings=CHECKING) as hub:
            ledger.check(hub)

    kill_often(
        "tests.crash.child",
        ledger,
        lambda life: [address, str(life)],
        check,
        kills=KILLS_PER_SCHEMA,
        seed=seed,
        lines_max=160,
        lines_first=2,
    )
    assert all((ledger.published, ledger.bundles, ledger.dequeued)), "the children did not get to do everything"


def test_a_hub_that_was_paused_for_longer_than_its_lease_stores_nothing_more(tmp_path: Path) -> None:
    address = schema_address(tmp_path)
    command = [sys.executable, "-m", "tests.crash.child", address, "1"]
    ledger = Ledger()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(100)]
        child.send_signal(signal.SIGSTOP)
        with restante.open(address, settings=CHECKING) as hub:
            numbers = [status.visible_sequence for status in hub.partitions()]
            child.send_signal(signal.SIGCONT)
            said += child.stdout.readlines()
            assert [status.visible_sequence for status in hub.partitions()] == numbers
            words = [json.loads(line) for line in said if line.endswith(b"\n")]
            assert words[-1][0] == "failed"
            for line in words:
                if line[0] != "failed":
                    ledger.read(line)
            ledger.check(hub)
    assert child.returncode == 1


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    yield server
    server.remove()


def test_a_server_that_is_restarted_under_load_loses_nothing_and_doubles_nothing(server: PostgresqlServer) -> None:
    generator = random.Random(3)
    with restante.open(server.address, settings=SETTINGS) as hub:
        lines = [_Line(hub, number) for number in range(PUBLISHERS)]
        for _ in range(RESTARTS):
            for line in lines:
                line.wait_for_more(20)
            server.stop(generator.choice([signal.SIGINT, signal.SIGQUIT]))
            server.start()
        for line in lines:
            line.finish()
        for line in lines:
            assert line.collected == line.acknowledged
    moment = PostgresqlMoment.open(server.address)
    assert examine(moment).sound
    moment.close()


class _Line:
    """One recipient, with somebody who publishes one message after the other, and somebody who collects.

    Both repeat what failed until it is answered, as the clients of a hub do.
    """

    def __init__(self, hub: Hub, number: int) -> None:
        self._hub = hub
        self._name = f"recipient-{number}"
        self.acknowledged: list[str] = []
        self.collected: list[str] = []
        self._more = threading.Semaphore(0)
        self._ending = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guarded, args=[deed]) for deed in (self._publish, self._collect)]
        for thread in self._threads:
            thread.start()

    def wait_for_more(self, count: int) -> None:
        for _ in range(count):
            assert self._more.acquire(timeout=60), self._failures

    def finish(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(60)
        assert not self._failures
        while bundle := self._hub.recipient(self._name).peek():
            self.collected += [message.id or "" for message in bundle.messages]
            bundle.dequeue()

    def _guarded(self, deed: Callable[[], None]) -> None:
        try:
            while not self._ending.is_set():
                deed()
        except BaseException as error:  # noqa: BLE001  # handed to the test, whatever it is
            self._failures.append(error)

    def _publish(self) -> None:
        message = Message(recipient=self._name, id=f"{self._name}-{len(self.acknowledged)}", data=b"data")
        self._until_answered(lambda: self._hub.producer.send([message]))
        self.acknowledged.append(message.id or "")
        self._more.release()

    def _collect(self) -> None:
        recipient = self._hub.recipient(self._name)
        bundle = self._until_answered(lambda: recipient.peek(wait=0.01))
        if bundle is None:
            return
        try:
            self._until_answered(bundle.dequeue)
        except BundleUnknown as error:
            if "dequeued_at" not in error.details:  # an attempt that was not answered
                raise
        self.collected += [message.id or "" for message in bundle.messages]

    def _until_answered(self, deed: Callable[[], T]) -> T:
        while True:
            try:
                return deed()
            except Unavailable:
                self._ending.wait(0.01)
