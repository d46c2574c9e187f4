"""Three nodes on one PostgreSQL under load: killed, stopped, paused, cut off, their server restarted. Nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from restante.model.shards.ranges import even_ranges, shard_of
from restante.model.storage.partition import partition_of
from restante.stores.postgresql.lease import LEASE_SECONDS
from tests.crash.campaign import LONG
from tests.nodes.node_load import NodeLoad, Prober
from tests.nodes.node_processes import PARTITIONS, SHARDS, NodeCluster, NodeProcess, wait_for

pytestmark = pytest.mark.timeout(7_200 if LONG else 900)
ROUNDS, PARTS = (500, 20) if LONG else (20, 2)
"""So many things happen to nodes, in so many campaigns, which workers share."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodeCluster]:
    cluster = NodeCluster(tmp_path)
    yield cluster
    cluster.close()


def kill(_: NodeCluster, node: NodeProcess) -> None:
    node.kill()
    wait_for(1)
    node.start()


def stop_and_join(_: NodeCluster, node: NodeProcess) -> None:
    node.stop()
    node.start()


def pause(_: NodeCluster, node: NodeProcess) -> None:
    """For longer than its lease: the others have taken its shards when it wakes."""
    node.send(signal.SIGSTOP)
    wait_for(LEASE_SECONDS + 2)
    node.send(signal.SIGCONT)


def cut_off(_: NodeCluster, node: NodeProcess) -> None:
    node.proxy.cut_all(deaf=True)
    wait_for(LEASE_SECONDS + 1)
    node.proxy.hear()


def cut_for_a_moment(_: NodeCluster, node: NodeProcess) -> None:
    node.proxy.cut_all(deaf=False)


def lose_an_answer(_: NodeCluster, node: NodeProcess) -> None:
    """Between COMMIT and its answer."""
    node.proxy.cut_after_commit()


def restart_server(cluster: NodeCluster, _: NodeProcess) -> None:
    cluster.restart_server(random.choice([signal.SIGINT, signal.SIGQUIT]))


EVENTS: tuple[Callable[[NodeCluster, NodeProcess], None], ...] = (
    kill,
    stop_and_join,
    pause,
    cut_for_a_moment,
    cut_off,
    lose_an_answer,
    restart_server,
)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_to_nodes_nothing_is_lost_or_doubled(cluster: NodeCluster, part: int) -> None:
    generator, rounds = random.Random(23 + part), ROUNDS // PARTS
    load = NodeLoad(cluster.address)
    try:
        load.wait_for_more()
        for number in range(part * rounds, (part + 1) * rounds):
            EVENTS[number % len(EVENTS)](cluster, generator.choice(cluster.nodes))
            load.wait_for_more()
        load.finish()
    finally:
        load.end()


def _probers(cluster: NodeCluster, gone: NodeProcess) -> list[Prober]:
    """One for each shard, at the nodes that stay."""
    names = (f"probe-{number}" for number in range(10_000))
    wanted = dict.fromkeys(range(SHARDS), "")
    for name in names:
        wanted[shard_of(even_ranges(PARTITIONS, SHARDS), partition_of(name, PARTITIONS))] = name
        if all(wanted.values()):
            break
    address = ",".join(node.url for node in cluster.nodes if node is not gone)
    probers = [Prober(address, name) for name in wanted.values()]
    for prober in probers:
        prober.start()
    return probers


def test_a_dead_node_is_succeeded_and_one_that_leaves_or_joins_is_hardly_missed(
    cluster: NodeCluster, record_property: Callable[[str, object], None]
) -> None:
    node = cluster.nodes[0]
    probers = _probers(cluster, node)
    wait_for(2)
    found: dict[str, list[float]] = {"kill": [], "leave": [], "join": []}

    def measured(name: str, deed: Callable[[], None], seconds: float) -> None:
        for prober in probers:
            prober.take_longest()
        deed()
        wait_for(seconds)
        found[name].append(max(prober.take_longest() for prober in probers))

    for _ in range(20 if LONG else 3):
        measured("kill", node.kill, LEASE_SECONDS + 4)
        measured("join", node.start, 8)
        measured("leave", node.stop, 2)
        measured("join", node.start, 8)
    for prober in probers:
        prober.finish()
    for name, seconds in found.items():
        record_property(name, [round(one, 2) for one in seconds])
    print({name: [round(one, 2) for one in seconds] for name, seconds in found.items()})
