"""A client and a hub of two nodes: it goes straight to owners, and survives the death of either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import restante
import restante.aio
from restante.model.storage.partition import partition_of
from tests.cli.places import run
from tests.cluster.two_nodes import TwoNodes
from tests.server.wire import Wire
from tests.waiting import wait_until


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[TwoNodes]:
    running = TwoNodes(tmp_path / "data")
    yield running
    running.stop()


def names(shard: int, count: int) -> list[str]:
    found = (f"r{number}" for number in range(10_000))
    return list(islice((name for name in found if partition_of(name, 16) // 8 == shard), count))


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
        thread.join()
    assert (seen, reconnects) == (["before", "after"], 1)


def test_the_list_of_partitions_names_the_owner_of_each(nodes: TwoNodes) -> None:
    wire = Wire(nodes.urls[1])
    listed = wire.get("/v1/partitions").json()["partitions"]
    wire.close()
    assert [own["owner"] for own in listed] == [nodes.urls[0]] * 8 + [nodes.urls[1]] * 8


def test_a_node_is_drained_by_a_command_and_the_last_one_is_not(nodes: TwoNodes) -> None:
    at = ("--hub", ",".join(nodes.urls))
    assert run("nodes", "drain", "mail-0", "--dry-run", *at).stdout == "mail-0 would give 1 shard away.\n"
    assert nodes.moved == {}
    drained = run("nodes", "drain", "mail-0", "--yes", *at)
    assert drained.stdout == "mail-0 has no shard any more, and may be ended.\n"
    assert nodes.moved == {0: 1}
    assert "draining" in run("nodes", "list", *at).stdout
    assert "last_node" in run("nodes", "drain", "mail-1", "--yes", *at).stderr
