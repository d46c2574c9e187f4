"""`NodeDirectory`: where a door learns the map from. On one machine it asks the shards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from restante.calls.nodes import DrainNode, ReadNodes
from restante.cluster.shard_folders import read_failure
from restante.cluster.shard_lines import ShardLines
from restante.errors import RestanteError, Unavailable
from restante.model.access.access import Grant
from restante.model.shards.node_answers import (
    OWN_NODE,
    NodeDrain,
    NodeMap,
    NodeStatus,
    ShardState,
    ShardStatus,
    not_drained,
)

_SECONDS = 2.0
"""How long a shard may take to say how it is. A map in which one shard is silent says more than no map."""


class NodeDirectory(Protocol):
    """The directory of nodes: it says which node has which shard, and can have a node give its shards away."""

    async def read(self, caller: Grant) -> NodeMap: ...
    async def drain(self, call: DrainNode) -> NodeDrain: ...


class ShardProcesses:
    """The shards of one machine, which are one node."""

    def __init__(self, lines: ShardLines, folders: Sequence[Path] = ()) -> None:
        self._lines = lines
        self._folders = folders
        """The folders of the shards; a file in one says why that shard could not be started."""

    async def read(self, caller: Grant) -> NodeMap:
        said = await asyncio.gather(*(self._said(shard, caller) for shard in range(len(self._lines.lines))))
        maps = [one for one in said if isinstance(one, NodeMap)]
        if not maps:
            raise Unavailable("No shard answers. Ask again.")
        shards = tuple(self._shard(number, one) for number, one in enumerate(said))
        return msgspec.structs.replace(maps[0], nodes=(_oldest(maps),), shards=shards)

    async def _said(self, shard: int, caller: Grant) -> NodeMap | RestanteError:
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._lines.lines[shard].call(ReadNodes(), caller)
        except TimeoutError:
            return Unavailable(f"Shard {shard} did not answer within {_SECONDS:g} s.")
        except RestanteError as error:
            return error

    def _shard(self, number: int, said: NodeMap | RestanteError) -> ShardStatus:
        if isinstance(said, NodeMap):
            return said.shards[0]
        own = self._lines.ranges[number]
        failure = read_failure(self._folders[number]) if self._folders else None
        return ShardStatus(
            shard=number,
            first=own.start,
            last=own.stop - 1,
            node=OWN_NODE,
            state=ShardState.SILENT if failure is None else ShardState.FAILED,
            reason=failure or said.message,
        )

    async def drain(self, call: DrainNode) -> NodeDrain:
        raise not_drained(call.node, OWN_NODE)


def _oldest(maps: list[NodeMap]) -> NodeStatus:
    """A node runs since the first of its shards does."""
    return min((found.nodes[0] for found in maps), key=lambda own: own.since)
