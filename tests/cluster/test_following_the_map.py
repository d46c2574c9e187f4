"""A client and a hub of two nodes: it goes straight to owners, and survives the death of either."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import ParamSpec

import msgspec
import pytest

import restante
import restante.aio
from restante.calls.nodes import DrainNode
from restante.cluster.node_directory import ShardProcesses
from restante.cluster.shard_folders import found_table, shard_folder
from restante.cluster.shard_lines import ShardLines
from restante.limits import CONNECTIONS_BACKLOG
from restante.model.access.access import Grant
from restante.model.shards.node_answers import NodeDrain, NodeMap, NodeState, NodeStatus
from restante.model.storage.partition import partition_of
from restante.server.doors.door_service import DoorService
from restante.server.serve import ServedHub, listening_socket, url_of
from restante.server.shard_service import ShardService
from restante.settings import Settings
from tests.waiting import wait_until

P = ParamSpec("P")


class TwoNodes:
    """Two shards, and for each a door at an address of its own: the map says that the door is its node."""

    def __init__(self, folder: Path) -> None:
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
            self.doors.append(ServedHub(DoorService(*place, {}, None, _Owners(self, lines))))

    def asked(self, number: int) -> Counter[str]:
        """How often each route was asked at a door, by its path."""
        counts = self.doors[number].service.counter.metrics.requests  # type: ignore[attr-defined]  # a door
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
        node: NodeStatus = found.nodes[0]
        owners = [self._nodes.moved.get(number, number) for number in range(2)]
        return msgspec.structs.replace(
            found,
            nodes=tuple(msgspec.structs.replace(node, node=f"mail-{n}", address=url) for n, url in enumerate(urls)),
            shards=tuple(
                msgspec.structs.replace(own, node=f"mail-{owner}", address=urls[owner])
                for own, owner in zip(found.shards, owners, strict=True)
            ),
        )

    async def drain(self, call: DrainNode) -> NodeDrain:
        number = int(call.node.removeprefix("mail-"))
        if not call.dry_run:
            self._nodes.moved[number] = 1 - number
        return NodeDrain(node=call.node, state=NodeState.DRAINING, shards=())


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[TwoNodes]:
    running = TwoNodes(tmp_path / "data")
    yield running
    running.stop()


def names(shard: int, count: int) -> list[str]:
    found = (f"r{number}" for number in range(10_000))
    return [name for name in found if partition_of(name, 16) // 8 == shard][:count]


PEEK = "/v1/recipients/{recipient}/peek"


def test_what_is_about_a_mailbox_goes_straight_to_its_node(nodes: TwoNodes) -> None:
    with restante.connect(",".join(nodes.urls)) as hub:
        for name in (*names(0, 5), *names(1, 7)):
            hub.recipient(name).peek()
    assert [nodes.asked(number)[PEEK] for number in range(2)] == [5, 7]


def test_a_client_that_was_given_one_address_learns_the_others(nodes: TwoNodes) -> None:
    with restante.connect(nodes.urls[0]) as hub:
        hub.link._terms.places._look_at = 0.0  # type: ignore[attr-defined]
        for name in names(1, 40):
            hub.recipient(name).peek()
    assert nodes.asked(1)[PEEK] == 25


@pytest.mark.parametrize("dead", [0, 1])
def test_the_death_of_a_node_is_survived(nodes: TwoNodes, dead: int) -> None:
    with restante.connect(",".join(nodes.urls)) as hub:
        for name in (*names(0, 2), *names(1, 2)):
            hub.send(recipient=name, text="before")
        nodes.doors[dead].stop()
        for name in (*names(0, 2), *names(1, 2)):
            hub.send(recipient=name, text="after")
        for name in (*names(0, 2), *names(1, 2)):
            texts = [message.data for bundle in _bundles(hub, name) for message in bundle]
            assert texts == ["before", "after"]


def _bundles(hub: object, name: str) -> Iterator[list[restante.Message]]:
    for bundle in hub.recipient(name).bundles(idle=0):  # type: ignore[attr-defined]  # of the surface
        yield list(bundle.messages)
        bundle.dequeue()


def test_the_death_of_a_node_is_survived_by_tasks(nodes: TwoNodes) -> None:
    async def scene() -> list[int]:
        async with restante.aio.connect(",".join(nodes.urls)) as hub:
            for name in names(0, 3):
                await hub.send(recipient=name, text="before")
            await asyncio.to_thread(nodes.doors[0].stop)
            found = []
            for name in names(0, 3):
                bundle = await hub.recipient(name).peek()
                assert bundle is not None
                found.append(len(bundle.messages))
            return found

    assert asyncio.run(scene()) == [1, 1, 1]


def test_a_live_client_goes_where_its_mailbox_went(nodes: TwoNodes) -> None:
    name = names(0, 1)[0]
    seen: list[object] = []
    post, partition = nodes.shards[0].desk.post, partition_of(name, 16)

    with restante.connect(",".join(nodes.urls)) as hub, hub.recipient(name).live() as live:
        thread = threading.Thread(target=lambda: seen.extend(message.data for message in live), daemon=True)
        thread.start()
        wait_until(lambda: len(post) == 1)
        hub.send(recipient=name, text="before")
        wait_until(lambda: len(seen) == 1)
        nodes.in_shard(0, post.move, (partition,), nodes.urls[1])
        wait_until(lambda: live.reconnects == 1 and len(post) == 1)
        nodes.doors[0].stop()
        hub.send(recipient=name, text="after")
        wait_until(lambda: len(seen) == 2)
        reconnects = live.reconnects
        live.close()
        thread.join(20)
    assert (seen, reconnects) == (["before", "after"], 1)
