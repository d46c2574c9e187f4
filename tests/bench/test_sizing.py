"""The model of how many machines a load takes: what it adds up, and what bounds it; and the workloads that it rests on."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import sizing, wire
from bench.display import Display
from bench.peers.postgresql import Postgresql
from bench.server import Server
from bench.sizing import (
    BUSY,
    PARTITIONS,
    Costs,
    Database,
    Load,
    Machine,
    StoreCosts,
    bounds,
    costs_of,
    sessions,
    size,
)
from bench.workloads import wire_door_live as live
from bench.workloads import wire_store_cost as store
from bench.workloads import workload
from bench.workloads.wire_shards import BULK, SMALL
from tests.bench.test_live import TINY

COSTS = Costs(
    small_shard=100e-6,
    small_door=50e-6,
    bulk_shard=4e-6,
    bulk_door=2e-6,
    live_push=10e-6,
    connection_bytes=25_000,
    small_store=StoreCosts(commit=60e-6, message=12e-6, log_bytes=1_000),
    bulk_store=StoreCosts(commit=0.0, message=6e-6, log_bytes=500),
)
MACHINE = Machine(cores=16, memory_bytes=64e9)
DATABASE = Database(cores=20, log_bytes_a_second=1e9, network_bytes_a_second=1.25e9, commit_seconds=0.004)


def test_processor_time_adds_up_and_one_machine_is_spare() -> None:
    found = size(Load(96_000, 0.0, 0, 0.0), COSTS, MACHINE, DATABASE)
    assert found.shard_cores == pytest.approx(16)
    assert found.door_cores == pytest.approx(8)
    assert (found.machines, found.bound_by, found.shards) == (3, "processors", 16)


def test_messages_share_the_commits_of_the_database_when_there_are_more_of_them() -> None:
    found = size(Load(96_000, 0.0, 0, 0.0), COSTS, MACHINE, DATABASE)
    assert found.database_commits == pytest.approx(16 / 0.004)
    assert found.database_cores == pytest.approx((4_000 * 60e-6 + 96_000 * 12e-6) / BUSY)
    assert found.database_log_bytes == pytest.approx(96e6)
    assert found.database_sessions == sessions(48, 16) == 2 * 48 + 16 + 16 * 16
    assert size(Load(100, 0.0, 0, 0.0), COSTS, MACHINE, DATABASE).database_commits == pytest.approx(100)


def test_connections_bound_a_quiet_cluster_by_memory() -> None:
    found = size(Load(100, 0.0, 10_000_000, 1.0), COSTS, MACHINE, DATABASE)
    assert (found.machines, found.bound_by) == (9, "memory of connections")


def test_bulk_and_pushes_are_counted_at_their_own_cost() -> None:
    pushed = size(Load(60_000, 1.0, 0, 1.0), COSTS, MACHINE, DATABASE)
    assert pushed.shard_cores == pytest.approx(60_000 * 4e-6 / BUSY)
    assert pushed.door_cores == pytest.approx(60_000 * 12e-6 / BUSY)
    assert pushed.database_commits == 0


def test_one_machine_is_bound_by_its_cores_until_every_partition_is_a_shard() -> None:
    assert bounds(1, MACHINE, COSTS, None) == {
        "processors": pytest.approx(16 * BUSY / 150e-6),
        "partitions": pytest.approx(PARTITIONS * BUSY / 100e-6),
    }


def test_many_machines_are_bound_by_what_they_share() -> None:
    found = bounds(100, MACHINE, COSTS, DATABASE)
    assert found["processors"] == pytest.approx(1_600 * BUSY / 150e-6)
    assert found["the database's log"] == pytest.approx(1e6)
    assert found["the database's network"] == pytest.approx(1.25e6)
    assert found["the database's processors"] == pytest.approx((20 * BUSY - 64_000 * 60e-6) / 12e-6)
    assert min(found, key=lambda name: found[name]) == "the database's processors"
    few = replace(DATABASE, cores=1)
    assert bounds(100, MACHINE, COSTS, few)["the database's processors"] == pytest.approx(BUSY / 72e-6)
    assert bounds(100, MACHINE, COSTS, DATABASE, bulk=True)["the database's processors"] == pytest.approx(2e6)


def figure(what: str, name: str, value: float) -> dict[str, Any]:
    return {"what": what, "name": name, "value": value}


def test_costs_are_those_of_the_layout_with_the_most_shards() -> None:
    values = {"shards": 3e-4, "doors": 2e-4}
    shards = [
        figure(f"{what}, processor time", f"{layout}, {kind}", value * scale)
        for layout, scale in (("2 shards, 1 door", 1), ("4 shards, 2 doors", 2))
        for what in (SMALL, BULK)
        for kind, value in values.items()
    ]
    connected = [
        figure(f"{live.WHAT}, {live.TIME}", live.DOOR, 1.1e-3),
        figure(f"{live.WHAT}, {live.MEMORY}", live.DOOR, 24_000),
    ]
    stored = [
        figure(f"{store.WHAT}: {name}, {what}", store.PLACE, value)
        for name, found in {
            store.ONE: {store.TIME: 100e-6, store.SHARED: 1.0, store.LOG: 900.0},
            store.SMALL: {store.TIME: 28e-6, store.SHARED: 10.0, store.LOG: 700.0},
            store.BULK: {store.TIME: 5e-6, store.SHARED: 3e4, store.LOG: 400.0},
        }.items()
        for what, value in found.items()
    ]
    other = {"wire_door_live": {"figures": connected}, "wire_store_cost": {"figures": stored}}
    found = costs_of({"workloads": {"wire_shards": {"figures": shards}}}, {"workloads": other})
    assert found.small_shard == pytest.approx(6e-4)
    assert found.bulk_door == pytest.approx(4e-4)
    assert found.live_push == pytest.approx(1e-4)
    assert found.connection_bytes == 24_000
    assert (found.small_store.commit, found.small_store.message) == pytest.approx((80e-6, 20e-6))
    assert found.small_store.log_bytes == 700
    assert found.bulk_store == StoreCosts(0.0, 5e-6, 400.0)


def test_the_model_is_told_from_the_results_that_are_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["bench.sizing", "--plot", str(tmp_path / "sizing.png")])
    sizing.main()
    assert (tmp_path / "sizing.png").stat().st_size > 1_000
    told = capsys.readouterr().out
    assert "142,000 messages a second, 10,000,000 connected: a model" in told
    assert "cores of the database" in told
    assert json.loads((sizing.RESULTS / "sizing.json").read_text(encoding="utf-8"))["workloads"].keys() == {
        "wire_door_live",
        "wire_store_cost",
    }


@pytest.mark.wire
@pytest.mark.parametrize("name", ["wire_door_live", "wire_store_cost"])
def test_the_workloads_measure_something(name: str) -> None:
    scale = replace(TINY, one_by_one=20, connection_rounds=2, spread=500, send_recipients=50)
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as place, ExitStack() as stack:
        folder = Path(place)
        started: dict[str, Server] = {}
        if name == "wire_store_cost":
            (folder / "server").mkdir()
            started[Postgresql.name] = stack.enter_context(closing(Postgresql(folder / "server")))
        bench = wire.WireBench(scale, root=folder, kept=folder, display=Display(), servers=started)
        outcome = workload(name).run(bench)
    kept = json.loads((sizing.RESULTS / "sizing.json").read_text(encoding="utf-8"))["workloads"][name]["figures"]
    assert {(what, found.name) for what, found in outcome.figures} == {(one["what"], one["name"]) for one in kept}
    # So little work may take no tick of the processor's clock.
    assert all(found.value > 0 for what, found in outcome.figures if what.endswith((store.LOG, store.SHARED)))
