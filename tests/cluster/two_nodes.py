"""Two nodes of one machine: two shards, and for each a door at an address of its own, which the map calls its node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ParamSpec

import msgspec

from restante.calls.nodes import DrainNode
from restante.cluster.node_directory import ShardProcesses
from restante.cluster.shard_folders import found_table, shard_folder
from restante.cluster.shard_lines import ShardLines
from restante.limits import CONNECTIONS_BACKLOG
from restante.model.access.access import Grant
from restante.model.shards.node_answers import NodeDrain, NodeMap, NodeState, NodeStatus, not_drained
from restante.server.doors.door_service import DoorService
from restante.server.serve import ServedHub, listening_socket, url_of
from restante.server.shard_service import ShardService
from restante.settings import Settings

P = ParamSpec("P")


class TwoNodes:
    """Two shards, and for each a door at an address of its own: the map says that the door is its node."""

    def __init__(self, folder: Path, prepare: Callable[[DoorService], None] = lambda _: None) -> None:
        settings = Settings()
        self.table = found_table(folder, 2, settings.partition_count)
        sockets = [listening_socket("127.0.0.1", 0) for _ in range(2)]
        self.urls = [url_of(bound) for bound in sockets]
        self.moved: dict[int, int] = {}
        """Shards that have gone to the other node."""
        self._folder, self._settings = folder, settings
        self.folders = [shard_folder(folder, number) for number in range(2)]
        self.shards = [
            ServedHub(ShardService(folder, self.table, number, settings, self.urls[number])) for number in range(2)
        ]
        self.doors = []
        for number, bound in enumerate(sockets):
            bound.listen(CONNECTIONS_BACKLOG)
            lines = ShardLines(self.table.ranges, self.folders)
            place = (lines, folder, settings, bound, self.urls[number])
            service = DoorService(*place, {}, None, _Owners(self, lines))
            prepare(service)
            self.doors.append(ServedHub(service))

    def asked(self, number: int) -> Counter[str]:
        """How often each route was asked at a door, by its path."""
        counts = self.doors[number].service.desk.metrics.requests  # type: ignore[attr-defined]  # a door
        found: Counter[str] = Counter()
        for (_, path, _), count in counts.items():
            found[path] += count
        return found

    def in_shard(self, number: int, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        loop = self.shards[number]._loop
        assert loop is not None
        loop.call_soon_threadsafe(partial(function, *args, **kwargs))

    def stop(self) -> None:
        for own in (*self.doors, *self.shards):
            own.release()
        for own in (*self.doors, *self.shards):
            own.stop()


class _Owners(ShardProcesses):
    def __init__(self, nodes: TwoNodes, lines: ShardLines) -> None:
        super().__init__(lines)
        self._nodes = nodes

    async def read(self, caller: Grant) -> NodeMap:
        found, urls = await super().read(caller), self._nodes.urls
        owners = [self._nodes.moved.get(number, number) for number in range(2)]
        return msgspec.structs.replace(
            found,
            nodes=tuple(self._node(found.nodes[0], number, url) for number, url in enumerate(urls)),
            shards=tuple(
                msgspec.structs.replace(own, node=f"mail-{owner}", address=urls[owner], lease_seconds=2.5)
                for own, owner in zip(found.shards, owners, strict=True)
            ),
        )

    def _node(self, one: NodeStatus, number: int, url: str) -> NodeStatus:
        state = NodeState.DRAINING if number in self._nodes.moved else NodeState.SERVING
        return msgspec.structs.replace(one, node=f"mail-{number}", address=url, state=state)

    async def drain(self, call: DrainNode) -> NodeDrain:
        moved = self._nodes.moved
        if call.node not in ("mail-0", "mail-1") or (moved and f"mail-{next(iter(moved))}" != call.node):
            raise not_drained(call.node, "mail-0" if 1 in moved else "mail-1")
        number = int(call.node[-1])
        left = () if number in moved else (number,)
        if call.dry_run:
            return NodeDrain(node=call.node, state=NodeState.SERVING, shards=left)
        moved[number] = 1 - number
        return NodeDrain(node=call.node, state=NodeState.DRAINING, shards=left)
