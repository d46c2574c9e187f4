"""A shard that a node has taken: its hub, and a server of its own that answers the requests which doors pass on."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from restante.backplanes.lent_backplane import LentBackplane
from restante.cluster.call_server import CallAnswers, CallConnections
from restante.cluster.nodes.handshake import Purpose
from restante.cluster.nodes.keeper import StoreLook
from restante.cluster.nodes.shard_seats import ShardSeats
from restante.hub.door.in_process import InProcess
from restante.hub.door.open_store import look_ahead
from restante.hub.door.opening_rows import BlobsAhead
from restante.model.health.bounds import Measure, Reading, flag
from restante.ports.backplane import Backplane
from restante.ports.carrier import Shard, ShardCarrier
from restante.ports.clock import running_seconds
from restante.ports.store import Store
from restante.server.access.web_access import CarriedAccess
from restante.server.routes.health import HEALTH_PATHS
from restante.server.serve import ServedPlace, Service
from restante.settings import Settings
from restante.settings.tree import KeyPath

P = TypeVar("P", bound=asyncio.Protocol)

_DRAIN_SECONDS = 1.0
"""The time for what is under way when a shard moves."""
_RATE_SECONDS = 20.0


class NodeShard(Service):
    """A shard served in this process, without a socket of its own."""

    def __init__(  # noqa: PLR0913 - all that a shard is made of
        self,
        store: Store,
        shard: Shard,
        *,
        settings: Settings,
        url: str,
        home: Path,
        places: Mapping[KeyPath, str],
        measure: Measure,
        backplane: Backplane | None = None,
        ahead: BlobsAhead | None = None,
    ) -> None:
        super().__init__(
            None,
            settings,
            insecure=True,
            store=store,
            ahead=ahead,
            places=places,
            place=ServedPlace(None, url, home, shard),
            backplane=None if backplane is None else LentBackplane(backplane),
        )
        self.desk.hub.register_measure("nodes", measure)
        self.application.web = CarriedAccess(settings.server, self.desk.gate, url, free_paths=HEALTH_PATHS)
        self._calls = CallConnections()
        self._running: asyncio.Future[None] | None = None
        self._since = running_seconds()

    @property
    def link(self) -> InProcess:
        return self.desk.own

    @property
    def rate(self) -> float | None:
        seconds = running_seconds() - self._since
        return None if seconds < _RATE_SECONDS else self.desk.hub.commit_totals[0] / seconds

    async def begin(self) -> None:
        """Return when it serves."""
        served = asyncio.Event()
        self._running = asyncio.ensure_future(self.run(served.set))
        waiting = asyncio.ensure_future(served.wait())
        await asyncio.wait((self._running, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._running.done():
            self._running.result()

    def protocol(self, purpose: Purpose) -> asyncio.Protocol:
        return CallAnswers(self.desk.own, self._calls) if purpose is Purpose.CALLS else self._request_protocol()

    async def connect(self, made: Callable[[], P]) -> P:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        for end in (here, there):
            end.setblocking(False)
        await loop.connect_accepted_socket(self._request_protocol, there)
        _, protocol = await loop.create_unix_connection(made, sock=here)
        return protocol

    async def close(self, owner: str | None) -> None:
        if owner is not None:
            self.desk.post.move(self.desk.hub.owned, owner)
        self.drain()
        assert self._running is not None, "it was begun"
        await self._running
        self._calls.close()

    def _tell(self) -> None:
        """The node's keeper says which shards are served."""

    async def _begin_health(self) -> None:
        """Nobody waits for the first round: those who look, ask a door."""
        self.desk.health.begin()

    async def _close_hub(self) -> None:
        """The next owner waits for the hub to let go, and for nothing else."""
        self.desk.health.leave()
        await self.desk.link.close()

    def _request_protocol(self) -> asyncio.Protocol:
        return self.connection(config=self.server.config, server_state=self.server.server_state, app_state={})


def _unlike(seats: ShardSeats) -> Iterator[Reading]:
    """Whether a shard would be served otherwise by another node."""
    settings = {seat.row.name: seat.about.settings for seat in tuple(seats.nodes.values()) if seat.about is not None}
    usual = Counter(settings.values()).most_common(1)
    others = sorted(name for name, own in settings.items() if own != usual[0][0])
    reason = f"{' and '.join(others)} run with other settings or tokens than the rest. Give all nodes the same."
    yield flag("unlike_settings", reason if others else None)


def _look_ahead(partitions: range, look: StoreLook) -> BlobsAhead:
    with look() as store:
        return look_ahead(store, partitions)


class NodeShardHost:
    """Opens the shards of a node, in threads."""

    def __init__(
        self,
        settings: Settings,
        url: str,
        home: Path,
        places: Mapping[KeyPath, str],
        carrier: ShardCarrier,
        seats: ShardSeats,
        backplane: Backplane | None = None,
    ) -> None:
        drain = min(settings.server.drain_seconds, _DRAIN_SECONDS)
        server = msgspec.structs.replace(settings.server, drain_seconds=drain)
        self._made = partial(
            NodeShard,
            settings=msgspec.structs.replace(settings, server=server),
            url=url,
            home=home,
            places=places,
            measure=partial(_unlike, seats),
            backplane=backplane,
        )
        self._carrier = carrier

    async def look_ahead(self, partitions: range, look: StoreLook) -> BlobsAhead:
        return await asyncio.to_thread(_look_ahead, partitions, look)

    async def open(self, partitions: range, store: Store, ahead: BlobsAhead | None) -> NodeShard:
        hosted = await asyncio.to_thread(self._made, store, Shard(partitions, self._carrier), ahead=ahead)
        await hosted.begin()
        return hosted
