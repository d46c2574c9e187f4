"""`SeatDirectory`: the map of several nodes, as the store says it, and the call that has one of them give its shards away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from restante.calls.nodes import DrainNode
from restante.cluster.nodes.handshake import Purpose
from restante.cluster.nodes.keeper import NodeKeeper
from restante.cluster.nodes.peer_connection import tell_peer
from restante.cluster.nodes.peer_trust import PeerTrust
from restante.cluster.nodes.shard_seats import NodeSeat, ShardSeats
from restante.errors import LastNode, Unavailable
from restante.model.access.access import Grant
from restante.model.shards.node_answers import (
    NodeDrain,
    NodeMap,
    NodeState,
    NodeStatus,
    ShardState,
    ShardStatus,
    not_drained,
)
from restante.ports.membership import ShardRow


class SeatDirectory:
    """A `NodeDirectory` that does not read the store, but answers from what the keeper saw last."""

    def __init__(self, seats: ShardSeats, keeper: NodeKeeper, trust: PeerTrust) -> None:
        self._seats = seats
        self._keeper = keeper
        self._trust = trust

    async def read(self, caller: Grant) -> NodeMap:
        del caller  # the route leaves out why a shard does not serve if the caller may not see it
        if not self._seats.survey.shards:
            raise Unavailable("This node has not seen the store yet. Ask again.")
        return NodeMap(
            epoch=self._seats.survey.epoch,
            partition_count=self._seats.ranges[-1].stop,
            nodes=tuple(_node(seat) for seat in self._seats.nodes.values()),
            shards=tuple(self._shard(row) for row in self._seats.survey.shards),
        )

    async def drain(self, call: DrainNode) -> NodeDrain:
        named = [seat for seat in self._seats.nodes.values() if seat.row.name == call.node and seat.about is not None]
        if not named:
            raise not_drained(call.node, "")
        own = tuple(row.shard for row in self._seats.survey.shards if row.owner in {seat.row.session for seat in named})
        if call.dry_run:
            return NodeDrain(node=call.node, state=_node(named[0]).state, shards=own)
        if not any(_takes_shards(seat) for seat in self._seats.nodes.values() if seat not in named):
            raise LastNode(f"No other node could take the shards of {call.node}. Start one first.", node=call.node)
        await self._tell(named)
        return NodeDrain(node=call.node, state=NodeState.DRAINING, shards=own)

    async def _tell(self, named: Sequence[NodeSeat]) -> None:
        for seat in named:
            if seat.row.session == self._keeper.session:
                self._keeper.drain()
            elif seat.about is not None:
                try:
                    await tell_peer(seat.about.peer, self._trust, Purpose.DRAIN)
                except OSError as error:
                    raise Unavailable(f"Node {seat.row.name} does not answer. Try again.") from error

    def _shard(self, row: ShardRow) -> ShardStatus:
        own = self._seats.ranges[row.shard]
        seat = None if row.owner is None else self._seats.nodes.get(row.owner)
        state = (
            ShardState.MOVING if row.heir is not None else ShardState.LOADING if seat is None else ShardState.SERVING
        )
        if row.owner == self._keeper.session and row.shard not in self._seats.own and state is ShardState.SERVING:
            state = ShardState.LOADING
        return ShardStatus(
            shard=row.shard,
            first=own.start,
            last=own.stop - 1,
            node=None if seat is None else seat.row.name,
            address=None if seat is None or seat.about is None else seat.about.url,
            fence=row.fence,
            state=state,
            reason=self._keeper.failures.get(row.shard),
            lease_seconds=None if row.owner is None else self._keeper.lease_seconds(row.owner),
        )


def _takes_shards(seat: NodeSeat) -> bool:
    return seat.about is not None and not seat.about.draining


def _node(seat: NodeSeat) -> NodeStatus:
    about = seat.about
    if about is None:
        return NodeStatus(node=seat.row.name, state=NodeState.SILENT, since=datetime.fromtimestamp(0, UTC))
    return NodeStatus(
        node=seat.row.name,
        address=about.url,
        state=NodeState.DRAINING if about.draining else NodeState.SERVING,
        version=about.version,
        formats=about.formats,
        settings=about.settings,
        since=datetime.fromtimestamp(about.since / 1_000_000, UTC),
    )
