"""`ShardSeats`: where each shard is now, as far as this node knows, and the connections that lead there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from restante.cluster.nodes.handshake import Purpose
from restante.cluster.nodes.node_about import NodeAbout, decode_about
from restante.cluster.nodes.peer_connection import connect_peer
from restante.cluster.nodes.peer_trust import PeerTrust
from restante.errors import NotOwner, Unavailable
from restante.hub.door.in_process import InProcess
from restante.model.shards.ranges import Ranges
from restante.ports.membership import NodeRow, StoreSurvey

P = TypeVar("P", bound=asyncio.Protocol)


class ServedShard(Protocol):
    """A shard that this process serves."""

    @property
    def link(self) -> InProcess: ...

    def protocol(self, purpose: Purpose) -> asyncio.Protocol:
        """The protocol that takes a connection of another node."""
        ...

    async def connect(self, made: Callable[[], P]) -> P:
        """A connection of this process to the HTTP server of the shard."""
        ...


class NodeSeat(NamedTuple):
    """A node, and what it says of itself."""

    row: NodeRow
    about: NodeAbout | None


class ShardSeats:
    """Used in one event loop."""

    def __init__(self, ranges: Ranges, trust: PeerTrust) -> None:
        self.ranges = ranges
        self.own: dict[int, ServedShard] = {}
        """The shards that this node serves now."""
        self.survey = StoreSurvey(0, (), ())
        self.nodes: dict[str, NodeSeat] = {}
        self.look: Callable[[], None] = lambda: None
        """Have the store looked at soon: something is not where it was."""
        self._trust = trust
        self._owners: list[str | None] = [None] * len(ranges)
        self._leading: list[set[asyncio.Transport]] = [set() for _ in ranges]
        """The connections to shards of other nodes."""

    def update(self, survey: StoreSurvey) -> None:
        """Take what the store says now. Connections to a shard's former owner are cut: it may be silent for ever."""
        self.survey = survey
        self.nodes = {row.session: NodeSeat(row, decode_about(row.about)) for row in survey.nodes}
        for row, before in zip(survey.shards, tuple(self._owners), strict=True):
            self._owners[row.shard] = row.owner
            if before != row.owner:
                self._cut(row.shard)

    def about(self, session: str | None) -> NodeAbout | None:
        seat = None if session is None else self.nodes.get(session)
        return None if seat is None else seat.about

    def owner(self, shard: int) -> NodeAbout | None:
        """The node that has a shard; None if nobody is known to."""
        return self.about(self._owners[shard])

    def ask_owner(self, shard: int, text: str) -> Unavailable:
        """The error about a shard that this node does not reach: who has it, if that is known."""
        owner = None if shard in self.own else self.owner(shard)
        if owner is None:
            return Unavailable(text)
        first = self.ranges[shard].start
        return NotOwner(f"{text} Its owner is at {owner.url}.", partition=first, owner=owner.url)

    async def connect(self, shard: int, purpose: Purpose, made: Callable[[], P]) -> P:
        """A connection to the node that has a shard; `OSError` if nobody is there now."""
        own = self.own.get(shard)
        if own is not None:
            return await own.connect(made)
        about = self.owner(shard)
        if about is None:
            self.look()
            raise ConnectionRefusedError("nobody has it at the moment")
        try:
            protocol = await connect_peer(about.peer, self._trust, purpose, shard, made)
        except OSError:
            self.look()
            raise
        transport: asyncio.Transport = protocol.transport  # type: ignore[attr-defined]  # of all that connect here
        self._leading[shard] = {one for one in self._leading[shard] if not one.is_closing()} | {transport}
        return protocol

    def close(self) -> None:
        """Cut all connections to shards of other nodes."""
        for shard in range(len(self.ranges)):
            self._cut(shard)

    def _cut(self, shard: int) -> None:
        for transport in self._leading[shard]:
            transport.abort()
        self._leading[shard].clear()


class ShardPlace:
    """The place of one shard for one purpose: connections go to the node that has the shard at that moment."""

    def __init__(self, seats: ShardSeats, shard: int, purpose: Purpose) -> None:
        self._seats = seats
        self._shard = shard
        self._purpose = purpose

    async def connect(self, made: Callable[[], P]) -> P:
        return await self._seats.connect(self._shard, self._purpose, made)

    def away(self, text: str) -> Unavailable:
        return self._seats.ask_owner(self._shard, text)


def places_of(seats: ShardSeats, purpose: Purpose) -> Sequence[ShardPlace]:
    return [ShardPlace(seats, shard, purpose) for shard in range(len(seats.ranges))]
