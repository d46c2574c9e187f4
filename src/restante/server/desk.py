"""The desk that the handlers share: the hub, who may use it, how much is under way, what was counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from restante.calls.call import Answer, Call
from restante.calls.publishing import Publish
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.hub.door.other_shards import OtherShards
from restante.model.access.access import EVERYTHING, Grant
from restante.server.access.gate import Gate
from restante.server.access.passes import Passes
from restante.server.access.tickets import Tickets
from restante.server.connections.room import Room
from restante.server.health.health_rounds import HealthRounds
from restante.server.health.measures import measure_server
from restante.server.health.metrics import Metrics
from restante.server.health.rates import HubRates, Rates
from restante.server.live.connected_clients import ConnectedClients
from restante.settings import Settings
from restante.settings.tree import KeyPath

P = ParamSpec("P")
T = TypeVar("T")


class ServedLink(Protocol):
    """The link that answers calls: the hub in this process, or the shards that a door carries calls to."""

    def on_behalf_of(self, caller: Grant) -> ServedLink: ...
    def in_order(self) -> ServedLink:
        """For a connection whose publishes are stored in the order sent."""
        ...

    def queues_at_once(self, call: Publish) -> bool:
        """Whether a publish that is called has its place in the order before anything else is done; others have to be waited for."""
        ...

    async def call(self, call: Call[Answer]) -> Answer: ...
    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def close(self) -> None: ...


@dataclass
class DoorDesk:
    """The part of the desk that needs no hub in its own process: a door has no more than this."""

    link: ServedLink
    settings: Settings
    gate: Gate
    folder: Path | None
    """The data folder, if the store has one."""
    metrics: Metrics
    url: str = ""
    """The address under which this hub is reached."""
    places: Mapping[KeyPath, str] = field(default_factory=dict)
    """Where each setting came from that is not the default."""
    room: Room = field(init=False)
    passes: Passes = field(init=False)
    """The grants of those whose connections last."""
    rates: Rates = field(init=False)
    """The rates of the last hour."""
    draining: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.room = Room(self.settings.server)
        self.passes = Passes(self.gate)
        self.rates = Rates(self.metrics)

    @property
    def crowded(self) -> bool:
        """Whether publishers have to wait, or to file: then not in an event loop."""
        return False

    def link_of(self, caller: Grant) -> ServedLink:
        """The link of a caller, with its rights."""
        return self.link.on_behalf_of(caller)

    async def call(self, call: Call[Answer], caller: Grant = EVERYTHING) -> Answer:
        """Have a call answered with the rights of a caller, if there is room for one more that reads, or commits little."""
        with self.room.read():
            return await self.link_of(caller).call(call)

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what reads or commits in a thread, if there is room."""
        with self.room.read():
            return await self.link.thread(function, *args, **kwargs)


@dataclass
class Desk(DoorDesk):
    """One hub as the server sees it."""

    own: InProcess = field(init=False)
    """The link to the hub of this process."""
    post: ConnectedClients = field(init=False)
    """The live connections, which get messages pushed."""
    other_shards: OtherShards = field(init=False)
    """The way from live clients here to the shards that this hub does not have."""
    tickets: Tickets = field(init=False)
    """The tickets that browsers carry in addresses."""
    health: HealthRounds = field(init=False)
    """How the hub is, as of the last round."""

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.link, InProcess), "a hub is served by the process that has it"
        self.own = self.link
        self.post = ConnectedClients(self.hub, self.settings.live, drain_seconds=self.settings.server.drain_seconds)
        self.other_shards = self.own.other_shards()
        self.tickets = Tickets(time.monotonic)
        measure_server(self.hub, self.metrics.api, self.folder)
        self.health = HealthRounds(self.hub, self.settings.health)
        self.rates = HubRates(self.hub, self.metrics, self.post)

    @property
    def hub(self) -> OpenHub:
        return self.own.hub

    @property
    def crowded(self) -> bool:
        return self.hub.crowded

    def own_of(self, caller: Grant) -> InProcess:
        """The link of a caller to the hub of this process, with its rights."""
        return self.own.on_behalf_of(caller)
