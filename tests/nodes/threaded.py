"""Nodes in threads of this process, on a real PostgreSQL: the same parts as in processes, sooner started."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from restante.assembly import enter_nodes, found_database, look_at_shards
from restante.cluster.nodes.node_about import NodeAbout
from restante.cluster.nodes.peer_trust import PeerTrust
from restante.server.nodes.node_service import NodePlan, NodeService
from restante.server.serve import ServedHub, listening_socket, url_of
from restante.settings import Settings

TRUST = PeerTrust(b"a secret of the cluster")
SHARDS, PARTITIONS = 4, 16
SETTINGS = Settings(filing=False, housekeeping_seconds=0)


class _Unmade:
    """A node that is made in its event loop."""

    def __init__(self, make: Callable[[], NodeService], url: str) -> None:
        self._make = make
        self.url = url
        self.service: NodeService | None = None

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        self.service = self._make()
        await self.service.run(started)

    def drain(self) -> None:
        if self.service is not None:
            self.service.drain()

    def release(self) -> None:
        self.drain()


class ThreadedNode(ServedHub):
    """One node."""

    def __init__(
        self,
        address: str,
        name: str,
        folder: Path,
        settings: Settings = SETTINGS,
        *,
        digest: str = "alike",
        trust: PeerTrust = TRUST,
    ) -> None:
        folder.mkdir(exist_ok=True)
        chosen = msgspec.structs.replace(
            settings, store_url=address, server=msgspec.structs.replace(settings.server, port=0)
        )
        shared = look_at_shards(address, chosen)
        assert shared is not None, "somebody has founded it"
        bound, peers = listening_socket("127.0.0.1", 0), listening_socket("127.0.0.1", 0)
        peer = url_of(peers).removeprefix("http://")
        about = NodeAbout(
            url=url_of(bound), peer=peer, version="0", formats=(8,), settings=digest, since=time.time_ns() // 1_000
        )
        self.name, self.peer = name, peer
        plan = NodePlan(*shared, partial(enter_nodes, address, name, chosen), about, trust, peers)
        self.unmade = _Unmade(lambda: NodeService(plan, folder, chosen, bound, {}), about.url)
        super().__init__(self.unmade)

    @property
    def node(self) -> NodeService:
        assert self.unmade.service is not None, "it runs"
        return self.unmade.service

    @property
    def shards(self) -> list[int]:
        """Those that it serves now."""
        return sorted(self.node.seats.own)

    def drop_lease(self) -> None:
        """It beats no more, as if it had died; what it was asked is answered all the same."""
        membership = self.node.keeper.membership
        assert membership is not None, "it has entered"
        membership._lease._ending.set()  # type: ignore[attr-defined]  # there is no other way to fall silent

    def be_out_of_reach(self, others: Sequence[ThreadedNode]) -> None:
        """Other nodes reach it no more; clients do, and the store."""
        self.in_loop(self.node._peers.close)
        self._wait_for_loop()
        for other in others:
            for shard in self.shards:
                other.in_loop(partial(other.node.seats._cut, shard))
            other._wait_for_loop()

    def _wait_for_loop(self) -> None:
        """Wait until its event loop has done what it was given."""
        done = threading.Event()
        self.in_loop(done.set)
        done.wait()

    def in_loop(self, work: Callable[[], object]) -> None:
        assert self._loop is not None, "it runs"
        with suppress(asyncio.CancelledError):
            self._loop.call_soon_threadsafe(work)


def founded(address: str) -> str:
    """A database with a few shards."""
    found_database(address, SETTINGS, shards=SHARDS, partitions=PARTITIONS)
    return address
