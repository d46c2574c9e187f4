"""What the tests of buffered producers share: letters to two partitions, callbacks that note, links that can be held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from restante.calls.publishing import Publish
from restante.client.surface import sync
from restante.errors import RestanteError
from restante.model.publishing.message import Message
from restante.model.storage.partition import partition_of

SECONDS = 30
SOME_ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
QUICK: dict[str, Any] = {"retry_backoff_factor": 0.001, "retry_backoff_max": 0.01, "retry_seconds": 20}
ADA, BOB = "ada", next(name for name in ("bob", "cy", "dora", "eve") if partition_of(name, 2) != partition_of("ada", 2))
"""Of different partitions."""
HERS, HIS = partition_of(ADA, 2), partition_of(BOB, 2)


def letter(number: int, recipient: str = ADA, **more: Any) -> Message:
    return Message(recipient=recipient, data=number, **more)


def stored(hub: sync.Hub, recipient: str = ADA) -> list[object]:
    got: list[object] = []
    for bundle in hub.recipient(recipient).bundles(idle=0):
        got += [message.data for message in bundle.messages]
        bundle.dequeue()
    return got


class Tally:
    """Callbacks that note what they are told; a test can wait for the errors."""

    def __init__(self) -> None:
        self.stored: list[Message] = []
        self.failed: list[tuple[list[object], int, RestanteError]] = []
        self.changed = threading.Condition()

    def on_success(self, messages: Sequence[Message], partition: int) -> None:
        assert {partition_of(message.recipient, 2) for message in messages} == {partition}
        with self.changed:
            self.stored += messages
            self.changed.notify_all()

    def on_error(self, messages: Sequence[Message], partition: int, error: RestanteError) -> None:
        assert {partition_of(message.recipient, 2) for message in messages} == {partition}
        with self.changed:
            self.failed.append(([message.data for message in messages], partition, error))
            self.changed.notify_all()

    @property
    def callbacks(self) -> dict[str, Any]:
        return {"on_success": self.on_success, "on_error": self.on_error}

    @property
    def numbers(self) -> list[object]:
        return [message.data for message in self.stored]

    @property
    def errors(self) -> list[tuple[list[object], type]]:
        return [(numbers, type(error)) for numbers, _, error in self.failed]

    def wait_for(self, enough: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(enough, SECONDS)


class HeldLink:
    """A real link whose publishes wait until the test lets them go."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self.arrived = threading.Semaphore(0)
        self.go = threading.Event()

    def call(self, call: Any) -> Any:
        if isinstance(call, Publish):
            self.arrived.release()
            assert self.go.wait(SECONDS)
        return self._link.call(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


class AsyncHeldLink:
    def __init__(self, link: Any) -> None:
        self._link = link
        self.arrived = asyncio.Event()
        self.go = asyncio.Event()

    async def call(self, call: Any) -> Any:
        if isinstance(call, Publish):
            self.arrived.set()
            await self.go.wait()
        return await self._link.call(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


class BrokenLink:
    """A real link with a defect: the first publish raises what it should not."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self.broken = True

    def call(self, call: Any) -> Any:
        if isinstance(call, Publish) and self.broken:
            self.broken = False
            raise RuntimeError("a defect")
        return self._link.call(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)
