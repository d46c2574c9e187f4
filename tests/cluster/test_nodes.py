"""The map of nodes and shards: of one process, and of several processes on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import restante
from restante.calls.nodes import DrainNode
from restante.errors import LastNode, NodeUnknown
from restante.hub.door.node_calls import settings_digest
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import start
from restante.settings import ServerSettings, Settings
from tests.cluster.several import SeveralHub
from tests.server.wire import Wire


def test_a_hub_in_one_process_is_one_node_with_one_shard(tmp_path: Path) -> None:
    with restante.open(tmp_path) as hub:
        found = hub.nodes()
        (node,), (shard,) = found.nodes, found.shards
    assert (node.node, node.address, node.state.value, node.version) == ("local", None, "serving", restante.__version__)
    assert (shard.first, shard.last, shard.node, shard.address) == (0, 15, "local", None)
    assert (found.partition_count, shard.state.value, shard.reason, shard.lease_seconds) == (16, "serving", None, None)


def test_every_owner_has_a_higher_fence(tmp_path: Path) -> None:
    fences = []
    for _ in range(3):
        with restante.open(tmp_path) as hub:
            fences.append(hub.nodes().shards[0].fence)
    assert fences == sorted(set(fences))


def test_over_the_network_the_map_has_the_address(tmp_path: Path) -> None:
    with start(tmp_path) as served, restante.connect(served.url) as hub:
        found = hub.nodes()
    assert [own.address for own in found.nodes] == [own.address for own in found.shards] == [served.url]


def test_the_only_node_cannot_be_drained(tmp_path: Path) -> None:
    with start(tmp_path) as served, restante.connect(served.url) as hub:
        for dry_run in (True, False):
            with pytest.raises(LastNode) as refused:
                hub.link.call(DrainNode("local", dry_run=dry_run))
            assert refused.value.details["node"] == "local"
        with pytest.raises(NodeUnknown):
            hub.link.call(DrainNode("a node/with ünusual letters"))


def test_shards_of_one_machine_are_one_node_at_one_address(tmp_path: Path) -> None:
    several = SeveralHub(tmp_path / "data")
    try:
        with restante.connect(several.url) as hub:
            found = hub.nodes()
            with pytest.raises(LastNode):
                hub.link.call(DrainNode("local"))
    finally:
        several.stop()
    assert [own.address for own in found.nodes] == [several.url]
    assert [(own.shard, own.first, own.last) for own in found.shards] == [(0, 0, 3), (1, 4, 7), (2, 8, 11), (3, 12, 15)]
    assert {(own.node, own.address, own.state.value) for own in found.shards} == {("local", several.url, "serving")}


def test_a_silent_shard_is_in_the_map_and_operators_see_why(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data" / "tokens.json")
    tokens.path.parent.mkdir()
    seen = {role: tokens.create(roles=[role]) for role in (Role.OPERATOR, Role.READER)}
    several = SeveralHub(tmp_path / "data", Settings(server=ServerSettings()))
    try:
        several.stop_shard(2)
        operator, reader = (_shards(several.url, seen[role]) for role in (Role.OPERATOR, Role.READER))
    finally:
        several.stop()
    assert [own["state"] for own in operator] == ["serving", "serving", "silent", "serving"]
    assert [own["state"] for own in reader] == ["serving", "serving", "silent", "serving"]
    assert "Shard 2 does not answer" in operator[2]["reason"]
    assert [own["reason"] for own in reader] == [None] * 4


def _shards(url: str, token: str) -> list[dict[str, Any]]:
    wire = Wire(url, token=token)
    answer = wire.get("/v1/nodes").json()
    wire.close()
    shards: list[dict[str, Any]] = answer["shards"]
    return shards


def test_the_digest_is_of_what_all_nodes_have_alike() -> None:
    plain = Settings()
    elsewhere = msgspec.structs.replace(plain, server=msgspec.structs.replace(plain.server, host="0.0.0.0", port=9000))
    other = msgspec.structs.replace(plain, partition_count=32)
    assert settings_digest(plain, 7) == settings_digest(elsewhere, 7)
    assert settings_digest(plain, 7) != settings_digest(other, 7)
    assert settings_digest(plain, 7) != settings_digest(plain, 8)
