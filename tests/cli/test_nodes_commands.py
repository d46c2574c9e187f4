"""`restante nodes` and `restante shards`: who has which partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from restante.cli.nodes.shards import print_rounds, print_shards
from restante.cluster.shard_folders import found_table
from restante.model.mailboxes.answers import moment
from restante.model.shards.node_answers import (
    DoubtState,
    NodeMap,
    RoundInDoubt,
    RoundsInDoubt,
    ShardState,
    ShardStatus,
)
from restante.server.serve import start
from tests.cli.places import Place, run


def test_a_hub_alone_is_one_node_with_one_shard(place: Place) -> None:
    with place.opened():
        pass
    answer = place.answer("nodes", "list")
    assert [(own["node"], own["state"]) for own in answer["nodes"]] == [("local", "serving")]
    assert "local" in place.run("nodes", "list").stdout
    (shard,) = answer["shards"]
    assert (shard["first"], shard["last"]) == (0, answer["partition_count"] - 1)
    shown = place.run("shards", "list").stdout
    assert f"0-{shard['last']}" in shown
    assert "serving" in shown
    assert place.answer("shards", "list")["shards"][0]["fence"] >= shard["fence"]
    assert place.answer("shards", "rounds") == {"rounds": []}
    assert place.run("shards", "rounds").stdout == "No round is in doubt.\n"


def test_the_last_node_is_not_drained(place: Place) -> None:
    with place.opened():
        pass
    for options in ((), ("--dry-run",), ("--yes",)):
        refused = place.run("nodes", "drain", "local", *options)
        assert refused.exit_code == 1
        assert "last_node" in refused.stderr
    assert "node_unknown" in place.run("nodes", "drain", "elsewhere", "--yes").stderr


def test_over_the_network_the_address_is_shown(tmp_path: Path) -> None:
    with start(tmp_path) as served:
        assert served.url in run("shards", "list", "--hub", served.url).stdout


def test_a_shard_that_does_not_serve_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    failed = ShardStatus(
        shard=3,
        first=12,
        last=15,
        node=None,
        state=ShardState.FAILED,
        reason="restante.db is damaged.",
        lease_seconds=1.25,
    )
    print_shards(NodeMap(epoch=1, partition_count=16, nodes=(), shards=(failed,)))
    told = capsys.readouterr().out
    assert "nobody" in told
    assert "Shard 3 is failed: restante.db is damaged." in told


def test_a_round_in_doubt_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    doubt = RoundInDoubt(
        consignment="018f4e2a-0000-7000-8000-000000000001",
        round=2,
        state=DoubtState.DECIDED,
        shard=0,
        partitions=(7,),
        home=1,
        messages=5,
        since=moment(0),
        advice="Waits for shard 3.",
    )
    print_rounds(RoundsInDoubt(rounds=(doubt,)))
    told = capsys.readouterr().out
    assert doubt.consignment in told
    assert "Waits for shard 3." in told


def test_a_folder_of_several_shards_is_told_as_such(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    found_table(folder, 2, 16)
    answer = run("shards", "list", "--data", str(folder))
    assert answer.exit_code == 1
    assert f"restante serve --data {folder}" in answer.stderr
