"""`python -m bench.sizing`: how many cores and nodes a load takes, computed from what the bench measured. It is a model.

It takes the processor time of a message in shards and in doors from a run of `wire_shards`, and the cost and the memory of live
connections from a run of the live workloads. It assumes that processor time adds up and that work spreads evenly over
partitions; it knows nothing of other work on the nodes. Processors differ: run both workloads on yours first.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.workloads.wire_shards import BULK, LAYOUTS, SMALL

RESULTS = Path(__file__).resolve().parent / "results"
BUSY = 0.6
"""The share of a core that is planned for; the rest is for peaks, filing and the nodes that take over from one that died."""
NODE_MEMORY_SHARE = 0.5
"""The share of a node's memory that connections may have."""
PARTITIONS = 256
"""Of a shared store; there are at most as many shards, and a shard works on one core."""
WIDEST = list(LAYOUTS)[-1]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of processor time and bytes of memory, as measured."""

    small_shard: float
    small_door: float
    bulk_shard: float
    bulk_door: float
    live_push: float
    connection_bytes: float


@dataclass(frozen=True, slots=True)
class Load:
    """What a cluster is to carry: messages a second, the share of them sent in bulk, and connected recipients."""

    messages: float
    bulk_share: float
    connected: int
    live_share: float
    message_bytes: int


@dataclass(frozen=True, slots=True)
class Node:
    cores: int
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Size:
    """What it takes."""

    shard_cores: float
    door_cores: float
    memory_bytes: float
    store_bytes_a_second: float
    nodes: int
    bound_by: str


def size(load: Load, costs: Costs, node: Node) -> Size:
    """Nodes by processor time and by memory, whichever are more; one more than it takes, so that one may die."""
    small, bulk = load.messages * (1 - load.bulk_share), load.messages * load.bulk_share
    pushed = load.messages * load.live_share
    shard = (small * costs.small_shard + bulk * costs.bulk_shard + pushed * costs.live_push) / BUSY
    door = (small * costs.small_door + bulk * costs.bulk_door) / BUSY
    memory = load.connected * costs.connection_bytes
    by_cores = math.ceil((shard + door) / node.cores)
    by_memory = math.ceil(memory / (node.memory_bytes * NODE_MEMORY_SHARE))
    bound = "processors" if by_cores >= by_memory else "memory of connections"
    return Size(shard, door, memory, load.messages * load.message_bytes, max(by_cores, by_memory) + 1, bound)


def most_messages(cores: int, costs: Costs, bulk_share: float = 0.0) -> float:
    """Messages a second that so many cores carry, with as many shards as it takes, but no more than partitions."""
    needed = size(Load(1.0, bulk_share, 0, 0.0, 0), costs, Node(1, math.inf))
    return min(cores / (needed.shard_cores + needed.door_cores), PARTITIONS / needed.shard_cores)


def costs_of(shards: Mapping[str, Any], live: Mapping[str, Any]) -> Costs:
    """From the result files; in the layout with the most shards, where a commit has the fewest messages."""
    small, bulk = f"{SMALL}, processor time", f"{BULK}, processor time"
    figures = shards["workloads"]["wire_shards"]["figures"]
    return Costs(
        small_shard=_figure(figures, small, f"{WIDEST}, shards"),
        small_door=_figure(figures, small, f"{WIDEST}, doors"),
        bulk_shard=_figure(figures, bulk, f"{WIDEST}, shards"),
        bulk_door=_figure(figures, bulk, f"{WIDEST}, doors"),
        live_push=1 / _line(live, "wire_live_throughput", "W11 1,000 connections, over bare sockets"),
        connection_bytes=_line(live, "wire_live_idle", "W15 10,000 idle connections, memory of each"),
    )


def _figure(figures: Sequence[Mapping[str, Any]], what: str, name: str) -> float:
    return next(float(figure["value"]) for figure in figures if (figure["what"], figure["name"]) == (what, name))


def _line(run: Mapping[str, Any], workload: str, what: str) -> float:
    return next(
        float(line["ours"]["value"]) for line in run["workloads"][workload]["lines"] if line["what"].startswith(what)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=float, default=142_000, help="messages a second (142,000)")
    parser.add_argument("--bulk-share", type=float, default=0.0, help="the share that is sent in bulk, 0 to 1 (0)")
    parser.add_argument("--connected", type=int, default=10_000_000, help="recipients with a live connection (10⁷)")
    parser.add_argument("--live-share", type=float, default=1.0, help="the share that is pushed to one at once (1)")
    parser.add_argument("--message-bytes", type=int, default=200)
    parser.add_argument("--cores", type=int, default=16, help="of a node (16)")
    parser.add_argument("--memory", type=float, default=64e9, help="bytes of a node (64e9)")
    parser.add_argument("--shards-run", type=Path, default=RESULTS / "shards.json")
    parser.add_argument("--live-run", type=Path, default=RESULTS / "live.json")
    wished = parser.parse_args()
    costs = costs_of(json.loads(wished.shards_run.read_text()), json.loads(wished.live_run.read_text()))
    load = Load(wished.messages, wished.bulk_share, wished.connected, wished.live_share, wished.message_bytes)
    _tell(load, costs, Node(wished.cores, wished.memory))


def _tell(load: Load, costs: Costs, node: Node) -> None:
    found, console = size(load, costs, node), Console()
    table = Table(
        title=f"{load.messages:,.0f} messages a second, {load.connected:,} connected: a model", show_header=False
    )
    table.add_row("cores of shards", f"{found.shard_cores:,.0f}")
    table.add_row("cores of doors", f"{found.door_cores:,.0f}")
    table.add_row("memory of connections", f"{found.memory_bytes / 1e9:,.0f} GB")
    table.add_row("into the store", f"{found.store_bytes_a_second / 1e6:,.1f} MB/s of data")
    table.add_row(f"nodes of {node.cores} cores", f"{found.nodes:,} (bound by {found.bound_by}; one is spare)")
    console.print(table)
    most = Table("cores", "small messages/s", "in bulk/s", title=f"at {BUSY:.0%} of each core: a model")
    for cores in (node.cores, 10 * node.cores, 100 * node.cores):
        most.add_row(f"{cores:,}", f"{most_messages(cores, costs):,.0f}", f"{most_messages(cores, costs, 1.0):,.0f}")
    console.print(most)


if __name__ == "__main__":
    main()
