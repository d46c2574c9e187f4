"""A database gets more or fewer shards: everything goes on, and whatever ends it at whatever moment leaves the old or the new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

import restante
from restante.assembly import found_database
from restante.client.surface.sync import Hub
from restante.cluster.database_reshard import database_shard_count, reshard_database
from restante.errors import DataLocked, RestanteError
from restante.server.serve import start
from restante.settings import Settings
from tests.cli.places import run
from tests.cluster.lived_hub import begin, finish, positions
from tests.nodes.threaded import ThreadedNode
from tests.postgresql_server import DoubtfulProxy, schema_address
from tests.waiting import wait_until

QUIET = Settings()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return schema_address(tmp_path)


@contextmanager
def served(address: str, folder: Path) -> Iterator[Hub]:
    """The hub of a database: alone with one shard, two nodes with several."""
    with ExitStack() as stack:
        if database_shard_count(address, QUIET) == 1:
            alone = start(folder, msgspec.structs.replace(QUIET, store_url=address))
            stack.callback(alone.stop)
            urls = [alone.url]
        else:
            nodes = [ThreadedNode(address, name, folder.with_name(name), QUIET) for name in ("a", "b")]
            for node in nodes:
                stack.callback(node.stop)
            wait_until(lambda: all(node.shards for node in nodes))
            urls = [node.url for node in nodes]
        yield stack.enter_context(restante.connect(",".join(urls)))


def sound(address: str) -> None:
    report = json.loads(run("doctor", "--store", address, "--json").stdout)
    assert report["verdict"] == "sound", report
    assert [finding for finding in report["findings"] if finding["severity"] != "note"] == []


@pytest.mark.parametrize(
    "way", [pytest.param("1 4", marks=pytest.mark.wire), pytest.param("4 1", marks=pytest.mark.wire), "1 3 2 1 4"]
)
def test_everything_goes_on_with_other_shards(tmp_path: Path, address: str, way: str) -> None:
    first, *rest = map(int, way.split())
    found_database(address, QUIET, shards=first, partitions=16)
    with served(address, tmp_path / "data") as hub:
        kept = begin(hub)
        before = positions(hub)
    for shards in rest:
        done = reshard_database(address, shards, QUIET)
        assert done.after == shards == database_shard_count(address, QUIET)
        sound(address)
    with served(address, tmp_path / "data") as hub:
        assert positions(hub) == before
        finish(hub, kept)
    sound(address)


def test_the_commands_say_one_another(tmp_path: Path, address: str) -> None:
    nothing = run("shards", "split", "4", "--store", address)
    assert (nothing.exit_code, "restante migrate --store" in " ".join(nothing.stderr.split())) == (1, True)
    found_database(address, QUIET, shards=1)
    told = json.loads(run("shards", "split", "4", "--store", address, "--json").stdout)
    assert (told["store"], told["before"], told["after"]) == (address, 1, 4)
    assert "nothing to do" in run("shards", "split", "4", "--store", address).stdout
    refused = run("shards", "split", "2", "--store", address)
    assert f"restante shards join 2 --store {address}" in " ".join(refused.stderr.split())
    with served(address, tmp_path / "data"):
        refused = run("shards", "join", "--store", address)
        assert refused.stderr.startswith("error data_locked: "), refused.stderr
    assert "1 shard instead of 4" in " ".join(run("shards", "join", "--store", address).stdout.split())
    with restante.open(address) as hub:
        hub.send(recipient="ada", text="hello")


@pytest.mark.parametrize("moment", ["before", pytest.param("after", marks=pytest.mark.wire)])
def test_a_connection_lost_in_the_cut_leaves_the_old_or_the_new(tmp_path: Path, address: str, moment: str) -> None:
    found_database(address, QUIET, shards=1, partitions=16)
    with served(address, tmp_path / "data") as hub:
        kept = begin(hub)
    proxy = DoubtfulProxy(address)
    try:
        cut_in_the_cut(proxy, moment)
        with pytest.raises(RestanteError):
            reshard_database(proxy.address, 4, QUIET)
        assert proxy.cuts == 1
    finally:
        proxy.close()
    assert database_shard_count(address, QUIET) == (1 if moment == "before" else 4)
    reshard_database(address, 4, QUIET)
    sound(address)
    with served(address, tmp_path / "data") as hub:
        finish(hub, kept)


def cut_in_the_cut(proxy: DoubtfulProxy, moment: str) -> None:
    """Nothing else writes the epoch: the connection that does so is lost at that statement, or with the answer to its commit."""
    seen = False

    def rule(chunk: bytes, answer: bool) -> int | None:
        nonlocal seen
        seen = seen or (not answer and b"epoch = epoch + 1" in chunk)
        if moment == "before":
            return 0 if seen and not answer else None
        return 0 if seen and answer and b"COMMIT\0" in chunk else None

    proxy._rule = rule


def test_who_comes_meanwhile_is_not_run_over(tmp_path: Path, address: str) -> None:
    found_database(address, QUIET, shards=4, partitions=16)
    with served(address, tmp_path / "data") as hub:
        hub.send(recipient="ada", text="hello")
        with pytest.raises(DataLocked):
            reshard_database(address, 2, QUIET)
        assert hub.recipient("ada").peek() is not None
    assert database_shard_count(address, QUIET) == 4


_KILLED = """
import os, sys
import psycopg
from restante.cluster.database_reshard import reshard_database
from restante.settings import Settings

left, execute = int(sys.argv[3]), psycopg.Connection.execute
def counted(self, *arguments, **options):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return execute(self, *arguments, **options)
psycopg.Connection.execute = counted
reshard_database(sys.argv[1], int(sys.argv[2]), Settings(filing=False, housekeeping_seconds=0))
"""
"""Changes the shards of a database, and ends without a word at the n-th statement."""


@pytest.mark.kills
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1)], ids=["1-4", "4-1"])
def test_a_kill_at_any_statement_leaves_the_old_or_the_new(
    tmp_path: Path, address: str, before: int, after: int
) -> None:
    found_database(address, QUIET, shards=before, partitions=16)
    with served(address, tmp_path / "data") as hub:
        kept = begin(hub)
    every, number, code = (3 if os.environ.get("RESTANTE_LONG") else 25), 0, 9
    while code == 9:
        command = [sys.executable, "-c", _KILLED, address, str(after), str(number)]
        code = subprocess.run(command, env=os.environ, check=False).returncode
        assert code in (0, 9)
        assert database_shard_count(address, QUIET) in (before, after)
        sound(address)
        number += every
    assert database_shard_count(address, QUIET) == after
    with served(address, tmp_path / "data") as hub:
        finish(hub, kept)
