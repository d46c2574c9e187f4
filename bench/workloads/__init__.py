"""The workloads, one file each, in the order they are run.

A workload's file opens with its title, and has `run(bench)` that gives an `Outcome`. It is named by `--only`. Those
over the wire, beside real servers, have names that begin with `wire_`, and are given a `WireBench`.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from bench.context import Bench
from bench.outcome import Outcome

ORDER = (
    "publish_one",
    "publish_many",
    "publish_again",
    "peek",
    "dequeue",
    "singles",
    "sustained",
    "growth",
    "open_store",
    "large_store",
    "room",
    "emptied",
    "batches_alone",
    "consignments",
)
WIRE_ORDER = (
    "wire_publish_one",
    "wire_publish_many",
    "wire_fetch",
    "wire_acknowledge",
    "wire_one_by_one",
    "wire_connections",
    "wire_processor_time",
    "wire_pipelined",
    "wire_beside_bulk",
    "wire_emptied",
    "wire_store",
    "wire_store_cost",
    "wire_shards",
    "wire_idempotent",
    "wire_batches",
    "wire_feed",
    "wire_feed_beside",
    "wire_groups",
    "wire_actions",
    "wire_live_throughput",
    "wire_live_latency",
    "wire_live_fanout",
    "wire_live_stuck",
    "wire_live_idle",
    "wire_door_live",
    "wire_spark_write",
    "wire_spark_read",
    "wire_spark_store",
    "wire_spark_lag",
    "wire_spark_partitioned",
)
WIRE_ALONE = frozenset(
    {
        "wire_idempotent",
        "wire_processor_time",
        "wire_shards",
        "wire_feed_beside",
        "wire_groups",
        "wire_actions",
        "wire_door_live",
        "wire_live_stuck",
        "wire_spark_read",
        "wire_spark_store",
        "wire_spark_lag",
        "wire_spark_partitioned",
    }
)
"""The workloads where the hub is compared with itself, or with the least that there is: the peers are not started for them."""


class Workload(Protocol):
    __doc__: str | None

    def run(self, bench: Bench) -> Outcome: ...


def workload(name: str) -> Workload:
    return cast("Workload", importlib.import_module(f"bench.workloads.{name}"))


def title(name: str) -> str:
    lines = (workload(name).__doc__ or name).splitlines()
    return lines[0].rstrip(".")
