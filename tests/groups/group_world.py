"""A hub with groups whose clocks go on only when they are told to."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa

from restante.assembly import open_hub
from restante.calls.groups import (
    DefineGroup,
    JoinGroup,
    LeaveGroup,
    ReadGroup,
    ReadNext,
    SendHeartbeat,
    WriteCheckpoint,
)
from restante.calls.publishing import Publish
from restante.hub.door.hub import OpenHub
from restante.hub.engine.core import Core
from restante.hub.groups.members import end_leases, keep_shard
from restante.hub.groups.memory import GroupMemory
from restante.model.groups.group_answers import Assigned, Checkpointed, GroupStatus, Joined, NextPage, ReadAfter
from restante.model.publishing.message import Message
from restante.ports.store import Store
from restante.settings import GroupSettings, Settings
from restante.stores.memory import MemoryStore
from tests.cluster.door_hub import DoorHub
from tests.hub.engines import FakeClock

HEARTBEAT = 3.0
LEASE = 3 * HEARTBEAT
HANDOVER = 30.0
QUIET = Settings(
    partition_count=4,
    housekeeping_seconds=0,
    filing=False,
    groups=GroupSettings(heartbeat_seconds=HEARTBEAT, handover_seconds=HANDOVER),
)


class Asleep(threading.Event):
    """What the thread of leases waits for in a world: that its hub closes, and nothing else."""

    def __init__(self, core: Core) -> None:
        super().__init__()
        self._closing, self.is_waited_for = core.closing, threading.Event()

    def set(self) -> None:
        if self._closing.is_set():
            super().set()

    def wait(self, timeout: float | None = None) -> bool:
        self.is_waited_for.set()
        return super().wait()


class GroupWorld:
    """One hub. `advance` moves both of its clocks; leases end when `end` is called, and not when the hub's thread looks."""

    def __init__(self, store: Store | None = None, settings: Settings = QUIET) -> None:
        self.clock = FakeClock()
        self.seconds = 0.0
        self.settings = settings
        self.store = store if store is not None else MemoryStore()
        self.hub = self._open()

    def _open(self) -> OpenHub:
        hub = open_hub(None, settings=self.settings, clock=self.clock, store=self.store)
        self._take_clock(hub.core)
        return hub

    def _take_clock(self, core: Core) -> None:
        memory = core.memory(GroupMemory)
        before, memory.wake = memory.wake, Asleep(core)
        before.set()
        assert memory.wake.is_waited_for.wait(60)
        memory.monotonic = lambda: self.seconds
        for member_id, heard in memory.heard.items():
            memory.heard[member_id] = type(heard)(self.seconds, heard.clock)

    @property
    def cores(self) -> list[Core]:
        """Of all shards."""
        return [self.hub.core]

    def core_of(self, partition: int) -> Core:
        return next(core for core in self.cores if partition in core.owned)

    def open_again(self) -> None:
        assert isinstance(self.store, MemoryStore)
        self.hub.close()
        self.store = self.store.survivor()
        self.hub = self._open()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.seconds += seconds

    def end(self) -> int:
        return end_leases(self.hub.core)

    def define(self, group: str = "g", **given: Any) -> GroupStatus:
        return self.hub.call(DefineGroup(group, **given))

    def join(self, member: str, group: str = "g") -> Joined:
        return self.hub.call(JoinGroup(group, member))

    def leave(self, member_id: str, group: str = "g") -> None:
        self.hub.call(LeaveGroup(group, member_id))

    def beat(self, member_id: str, group: str = "g") -> dict[int, Assigned]:
        answer = self.hub.call(SendHeartbeat(group, member_id))
        return {own.partition: own for own in answer.partitions}

    def checkpoint(self, own: Assigned, position: int, group: str = "g", **given: Any) -> Checkpointed:
        return self.hub.call(WriteCheckpoint(group, own.partition, position, own.generation, **given))

    def next(self, member_id: str, owned: Sequence[Assigned], group: str = "g", **given: Any) -> tuple[NextPage, ...]:
        after = tuple(ReadAfter(**msgspec.structs.asdict(own)) for own in owned)
        return self.hub.call(ReadNext(group, member_id, after, **given)).pages

    def status(self, group: str = "g") -> GroupStatus:
        return self.hub.call(ReadGroup(group))

    def publish(self, count: int, *, kind: str = "k", first: int = 0) -> None:
        self.hub.call(Publish.of([Message(recipient=f"r{first + n}", kind=kind, data=b"x") for n in range(count)]))


class SeveralWorld(GroupWorld):
    """The same behind a door, with a shard for each of the four partitions."""

    def __init__(self, folder: Path, settings: Settings = QUIET) -> None:
        self.folder = folder
        super().__init__(settings=settings)

    def _open(self) -> OpenHub:
        hub = DoorHub(self.folder, self.settings, clock=self.clock)
        for core in hub.cores:
            self._take_clock(core)
        return cast("OpenHub", hub)  # as far as calls go

    @property
    def cores(self) -> list[Core]:
        return cast("DoorHub", self.hub).cores

    def open_again(self) -> None:
        self.hub.close()
        self.hub = self._open()

    def end(self) -> int:
        ended = sum(end_leases(core) for core in self.cores)
        for core in self.cores:
            keep_shard(core)
        return ended


PLACES = ("here", "doors")


def world_in(place: str, folder: Path, settings: Settings = QUIET) -> GroupWorld:
    return SeveralWorld(folder, settings) if place == "doors" else GroupWorld(settings=settings)


def numbers(page: NextPage) -> list[int]:
    return numbers_in(page.table)


def numbers_in(table: pa.Table) -> list[int]:
    """The sequence numbers of changes."""
    found: list[int] = table["sequence_number"].to_numpy().tolist()
    return found
