"""Shards served on their sockets, and the link of a door in front of them, as one hub that tests call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from restante.calls.call import Answer, Call
from restante.cluster.shard_lines import ShardLines
from restante.hub.engine.core import Core
from restante.model.access.access import Grant
from restante.server.doors.door_link import DoorLink
from restante.settings import Settings
from tests.cluster.several import SHARDS, SeveralHub

T = TypeVar("T")

SECONDS = 60.0


class DoorHub:
    """The calls of several shards as those of one hub."""

    def __init__(
        self, folder: Path, settings: Settings, *, clock: Callable[[], int] | None = None, shards: int = SHARDS
    ) -> None:
        self.several = SeveralHub(folder, settings, shards=shards, doors=0, clock=clock)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._link = self._run(self._linked(settings))

    async def _linked(self, settings: Settings) -> DoorLink:
        return DoorLink(ShardLines(self.several.table.ranges, self.several.folders), settings)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def call(self, call: Call[Answer]) -> Answer:
        return self._run(self._link.call(call))

    def on_behalf_of(self, caller: Grant) -> DoorHub:
        seen = object.__new__(type(self))
        seen.__dict__.update(self.__dict__)
        seen._link = self._link.on_behalf_of(caller)
        return seen

    @property
    def cores(self) -> list[Core]:
        """By the number of the shard."""
        return [served.desk.own.hub.core for served in self.several.shards]

    def close(self) -> None:
        self._run(self._link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.several.stop()
