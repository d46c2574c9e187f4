"""`python -m bench.sizing`: how many cores and nodes a load takes, computed from what the bench measured. It is a model.

It takes the processor time of a message in shards and in doors from a run of `wire_shards`, the cost of a live connection from
one of `wire_door_live`, and the work of the database from one of `wire_store_cost`. It assumes that processor time adds up and
that work spreads evenly over partitions; it knows nothing of other work on the machines. Processors differ: run the workloads on
yours first.
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

from bench.workloads import wire_door_live as live
from bench.workloads import wire_store_cost as store
from bench.workloads.wire_shards import BULK, LAYOUTS, SMALL

RESULTS = Path(__file__).resolve().parent / "results"
BUSY = 0.6
"""The share of a core that is planned for; the rest is for peaks, filing and the nodes that take over from one that died."""
MEMORY_SHARE = 0.5
"""The share of a machine's memory that connections may have."""
PARTITIONS = 256
"""The partitions of a shared store; there are at most as many shards, and a shard works on one core."""
WIDEST = list(LAYOUTS)[-1]
NODE_SESSIONS, READ_SESSIONS = 2, 16
"""Sessions with the database of a node, and those that it may take for reading if it has shards. A shard has one more."""
MACHINES = (1, 10, 100)


@dataclass(frozen=True, slots=True)
class StoreCosts:
    """The work of a database for messages of one kind."""

    commit: float
    """Seconds of processor time of a commit, whatever is in it."""
    message: float
    """Seconds of processor time of each message in a commit."""
    log_bytes: float
    """The bytes of the log for a message."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of processor time and bytes of memory, as measured."""

    small_shard: float
    small_door: float
    bulk_shard: float
    bulk_door: float
    live_push: float
    connection_bytes: float
    small_store: StoreCosts
    bulk_store: StoreCosts


@dataclass(frozen=True, slots=True)
class Load:
    """The load that a cluster is to carry: messages a second, the share of them sent in bulk, and connected recipients."""

    messages: float
    bulk_share: float
    connected: int
    live_share: float


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine on which nodes run: a node for each core."""

    cores: int
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Database:
    """The machine of the store, which all nodes share. These are assumed, and not measured."""

    cores: int
    log_bytes_a_second: float
    """The bytes that its disk takes, synced."""
    network_bytes_a_second: float
    commit_seconds: float
    """How long a commit may take under load. Requests that come to a shard meanwhile share the next commit."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a cluster that carries a load."""

    shard_cores: float
    door_cores: float
    shards: int
    memory_bytes: float
    machines: int
    bound_by: str
    database_commits: float
    database_cores: float
    database_log_bytes: float
    database_sessions: int


def size(load: Load, costs: Costs, machine: Machine, database: Database) -> Size:
    """Machines by processor time and by memory, whichever are more; one more than it takes, so that one may die."""
    small, bulk = load.messages * (1 - load.bulk_share), load.messages * load.bulk_share
    pushed = load.messages * load.live_share
    shard = (small * costs.small_shard + bulk * costs.bulk_shard) / BUSY
    door = (small * costs.small_door + bulk * costs.bulk_door + pushed * costs.live_push) / BUSY
    memory = load.connected * costs.connection_bytes
    by_cores = math.ceil((shard + door) / machine.cores)
    by_memory = math.ceil(memory / (machine.memory_bytes * MEMORY_SHARE))
    machines, shards = max(by_cores, by_memory) + 1, _shards(shard)
    commits = min(small, shards / database.commit_seconds)
    stored = (costs.small_store.commit * commits, costs.small_store.message * small, costs.bulk_store.message * bulk)
    return Size(
        shard_cores=shard,
        door_cores=door,
        shards=shards,
        memory_bytes=memory,
        machines=machines,
        bound_by="processors" if by_cores >= by_memory else "memory of connections",
        database_commits=commits,
        database_cores=sum(stored) / BUSY,
        database_log_bytes=small * costs.small_store.log_bytes + bulk * costs.bulk_store.log_bytes,
        database_sessions=sessions(machines * machine.cores, shards),
    )


def sessions(nodes: int, shards: int) -> int:
    """The most that the database has to have for them."""
    return NODE_SESSIONS * nodes + shards + READ_SESSIONS * min(nodes, shards)


def _shards(cores: float) -> int:
    """As many as it takes, and a power of two: 16 at least, as many as partitions at most."""
    return min(PARTITIONS, max(16, 1 << math.ceil(math.log2(max(cores, 1)))))


def bounds(
    machines: int, machine: Machine, costs: Costs, database: Database | None, *, bulk: bool = False
) -> dict[str, float]:
    """Messages a second at which each part is busy. Without a database the machine has its own disk."""
    shard = costs.bulk_shard if bulk else costs.small_shard
    door = costs.bulk_door if bulk else costs.small_door
    found = {"processors": machines * machine.cores * BUSY / (shard + door), "partitions": PARTITIONS * BUSY / shard}
    if database is None:
        return found
    cost = costs.bulk_store if bulk else costs.small_store
    return {
        **found,
        "the database's processors": _stored(cost, found, shard, database),
        "the database's log": database.log_bytes_a_second / cost.log_bytes,
        "the database's network": database.network_bytes_a_second / cost.log_bytes,
    }


def _stored(cost: StoreCosts, found: Mapping[str, float], shard: float, database: Database) -> float:
    """Messages a second at which the database's processors are busy. When more come than commits, they share them."""
    budget = database.cores * BUSY
    commits = _shards(min(found.values()) * shard / BUSY) / database.commit_seconds
    apart = budget / (cost.commit + cost.message)
    return apart if apart <= commits else max(commits, (budget - commits * cost.commit) / cost.message)


def costs_of(shards: Mapping[str, Any], other: Mapping[str, Any]) -> Costs:
    """The costs from the result files: in the layout with the most shards, where a commit has the fewest messages."""
    small, bulk = f"{SMALL}, processor time", f"{BULK}, processor time"
    processes = _figures(shards, "wire_shards")
    connected, stored = _figures(other, "wire_door_live"), _figures(other, "wire_store_cost")
    bulk_shard, bulk_door = processes[bulk, f"{WIDEST}, shards"], processes[bulk, f"{WIDEST}, doors"]
    return Costs(
        small_shard=processes[small, f"{WIDEST}, shards"],
        small_door=processes[small, f"{WIDEST}, doors"],
        bulk_shard=bulk_shard,
        bulk_door=bulk_door,
        live_push=max(connected[f"{live.WHAT}, {live.TIME}", live.DOOR] - bulk_shard - bulk_door, 0.0),
        connection_bytes=connected[f"{live.WHAT}, {live.MEMORY}", live.DOOR],
        small_store=_small_store(stored),
        bulk_store=StoreCosts(
            0.0, _stored_figure(stored, store.BULK, store.TIME), _stored_figure(stored, store.BULK, store.LOG)
        ),
    )


def _small_store(stored: Mapping[tuple[str, str], float]) -> StoreCosts:
    """The cost of a commit by itself, and what a message adds to it: from commits of one message and of several."""
    one, several = (_stored_figure(stored, name, store.TIME) for name in (store.ONE, store.SMALL))
    shared = _stored_figure(stored, store.SMALL, store.SHARED) / _stored_figure(stored, store.ONE, store.SHARED)
    commit = max((one - several) / (1 - 1 / shared), 0.0) if shared > 1 else one
    return StoreCosts(commit, max(one - commit, 0.0), _stored_figure(stored, store.SMALL, store.LOG))


def _stored_figure(stored: Mapping[tuple[str, str], float], name: str, what: str) -> float:
    return stored[f"{store.WHAT}: {name}, {what}", store.PLACE]


def _figures(run: Mapping[str, Any], workload: str) -> dict[tuple[str, str], float]:
    figures: Sequence[Mapping[str, Any]] = run["workloads"][workload]["figures"]
    return {(figure["what"], figure["name"]): float(figure["value"]) for figure in figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=float, default=142_000, help="messages a second (142,000)")
    parser.add_argument("--bulk-share", type=float, default=0.0, help="the share that is sent in bulk, 0 to 1 (0)")
    parser.add_argument("--connected", type=int, default=10_000_000, help="recipients with a live connection (10⁷)")
    parser.add_argument("--live-share", type=float, default=1.0, help="the share that is pushed to one at once (1)")
    parser.add_argument("--cores", type=int, default=16, help="of a machine (16)")
    parser.add_argument("--memory", type=float, default=64e9, help="bytes of a machine (64e9)")
    parser.add_argument("--database-cores", type=int, default=32, help="of the database's machine (32)")
    parser.add_argument("--database-log", type=float, default=1e9, help="bytes a second that its disk syncs (1e9)")
    parser.add_argument("--database-network", type=float, default=1.25e9, help="bytes a second (1.25e9)")
    parser.add_argument(
        "--commit-seconds", type=float, default=0.02, help="that a commit may take when all is busy (0.02)"
    )
    parser.add_argument("--shards-run", type=Path, default=RESULTS / "shards.json")
    parser.add_argument("--other-run", type=Path, default=RESULTS / "sizing.json")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, too")
    wished = parser.parse_args()
    costs = costs_of(json.loads(wished.shards_run.read_text()), json.loads(wished.other_run.read_text()))
    database = Database(wished.database_cores, wished.database_log, wished.database_network, wished.commit_seconds)
    load = Load(wished.messages, wished.bulk_share, wished.connected, wished.live_share)
    console, machine = Console(), Machine(wished.cores, wished.memory)
    console.print(_cost_table(costs), _size_table(load, costs, machine, database))
    for bulk in (False, True):
        console.print(_bound_table(machine, costs, database, bulk=bulk))
    if wished.plot is not None:
        _draw(wished.plot, machine, costs, database)


def _cost_table(costs: Costs) -> Table:
    table = Table(title="measured", show_header=False)
    for name, small, bulk in (
        ("a message in a shard", costs.small_shard, costs.bulk_shard),
        ("a message in a door", costs.small_door, costs.bulk_door),
        ("a message in the database", costs.small_store.message, costs.bulk_store.message),
    ):
        table.add_row(name, f"{small * 1e6:,.1f} µs", f"{bulk * 1e6:,.2f} µs in bulk")
    table.add_row("a commit in the database", f"{costs.small_store.commit * 1e6:,.0f} µs", "")
    logged = (costs.small_store.log_bytes, costs.bulk_store.log_bytes)
    table.add_row("a message in its log", f"{logged[0]:,.0f} B", f"{logged[1]:,.0f} B in bulk")
    table.add_row("a push to a connection", f"{costs.live_push * 1e6:,.1f} µs", "")
    table.add_row("a connection", f"{costs.connection_bytes / 1e3:,.1f} kB", "")
    return table


def _size_table(load: Load, costs: Costs, machine: Machine, database: Database) -> Table:
    found = size(load, costs, machine, database)
    title = f"{load.messages:,.0f} messages a second, {load.connected:,} connected: a model"
    table = Table(title=title, show_header=False)
    for name, text in (
        ("cores of shards", f"{found.shard_cores:,.0f}"),
        ("cores of doors, pushes included", f"{found.door_cores:,.0f}"),
        ("shards", f"{found.shards}"),
        ("memory of connections", f"{found.memory_bytes / 1e9:,.0f} GB"),
        (f"machines of {machine.cores} cores", f"{found.machines} (bound by {found.bound_by}; one is spare)"),
        ("commits of the database", f"{found.database_commits:,.0f} a second"),
        ("cores of the database", f"{found.database_cores:,.1f}"),
        ("log of the database", f"{found.database_log_bytes / 1e6:,.0f} MB a second"),
        ("sessions of the database", f"{found.database_sessions:,} at most"),
    ):
        table.add_row(name, text)
    return table


def _bound_table(machine: Machine, costs: Costs, database: Database, *, bulk: bool) -> Table:
    kind = "in bulk" if bulk else "small"
    table = Table("machines", "cores", "messages/s", "bound by", "next", title=f"{kind}, at {BUSY:.0%}: a model")
    for machines in MACHINES:
        found = bounds(machines, machine, costs, None if machines == 1 else database, bulk=bulk)
        (least, most), (second, then) = sorted(found.items(), key=lambda each: each[1])[:2]
        cores = f"{machines * machine.cores:,}"
        table.add_row(str(machines), cores, f"{most:,.0f}", least, f"{second}, {then:,.0f}")
    return table


def _draw(path: Path, machine: Machine, costs: Costs, database: Database) -> None:
    """Draw what machines carry, and where the database ends it."""
    from matplotlib import pyplot as plt

    from bench.plots import COLOURS

    counts = [1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100]
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for bulk, name, colour in ((False, "small messages", "restante"), (True, "in bulk", "postgresql")):
        most = [min(bounds(count, machine, costs, database, bulk=bulk).values()) for count in counts]
        axes.plot(counts, most, marker="o", markersize=3, label=name, color=COLOURS[colour])
    axes.set(xscale="log", yscale="log", xlabel=f"machines of {machine.cores} cores", ylabel="messages a second")
    axes.set_title("What machines on one database carry: a model", loc="left", fontsize=10)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
