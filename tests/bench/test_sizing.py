"""The model of how many nodes a load takes: what it adds up, and what bounds it."""

from __future__ import annotations

import math

import pytest

from bench.sizing import BUSY, PARTITIONS, Costs, Load, Node, costs_of, most_messages, size
from bench.workloads.wire_shards import BULK, SMALL

COSTS = Costs(
    small_shard=100e-6,
    small_door=50e-6,
    bulk_shard=4e-6,
    bulk_door=2e-6,
    live_push=10e-6,
    connection_bytes=25_000,
)
NODE = Node(cores=16, memory_bytes=64e9)


def test_processor_time_adds_up_and_one_node_is_spare() -> None:
    found = size(Load(96_000, 0.0, 0, 0.0, 200), COSTS, NODE)
    assert found.shard_cores == pytest.approx(16)
    assert found.door_cores == pytest.approx(8)
    assert (found.nodes, found.bound_by) == (3, "processors")
    assert found.store_bytes_a_second == 19_200_000


def test_connections_bound_a_quiet_cluster_by_memory() -> None:
    found = size(Load(100, 0.0, 10_000_000, 1.0, 200), COSTS, NODE)
    assert (found.nodes, found.bound_by) == (9, "memory of connections")


def test_bulk_and_pushes_are_counted_at_their_own_cost() -> None:
    pushed = size(Load(60_000, 1.0, 0, 1.0, 200), COSTS, NODE)
    assert pushed.shard_cores == pytest.approx(60_000 * 14e-6 / BUSY)
    assert pushed.door_cores == pytest.approx(60_000 * 2e-6 / BUSY)


def test_more_cores_carry_more_until_every_partition_is_a_shard() -> None:
    assert most_messages(16, COSTS) == pytest.approx(16 * BUSY / 150e-6)
    assert most_messages(160, COSTS) == pytest.approx(10 * most_messages(16, COSTS))
    assert most_messages(10**6, COSTS) == pytest.approx(PARTITIONS * BUSY / 100e-6)


def test_costs_are_those_of_the_layout_with_the_most_shards() -> None:
    values = {"shards": 0.0003, "doors": 0.0002}
    figures = [
        {"what": f"{what}, processor time", "name": f"{layout}, {kind}", "value": value * scale}
        for layout, scale in (("2 shards, 1 door", 1), ("4 shards, 2 doors", 2))
        for what in (SMALL, BULK)
        for kind, value in values.items()
    ]
    live = {
        "workloads": {
            "wire_live_throughput": {
                "lines": [{"what": "W11 1,000 connections, over bare sockets", "ours": {"value": 100_000}}]
            },
            "wire_live_idle": {
                "lines": [{"what": "W15 10,000 idle connections, memory of each", "ours": {"value": 24_000}}]
            },
        }
    }
    found = costs_of({"workloads": {"wire_shards": {"figures": figures}}}, live)
    assert found.small_shard == pytest.approx(0.0006)
    assert found.bulk_door == pytest.approx(0.0004)
    assert math.isclose(found.live_push, 1e-5)
    assert found.connection_bytes == 24_000
