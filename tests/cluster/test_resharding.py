"""A data folder gets more or fewer shards: everything goes on, and a crash at any step leaves the old or the new."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

import restante
from restante.calls.batches import OpenBatch
from restante.cli import app
from restante.client.surface.sync import Hub
from restante.cluster.reshard import reshard, shard_count
from restante.cluster.shard_folders import found_table
from restante.errors import InvalidRequest
from restante.server.serve import start
from restante.settings import Settings
from tests.cluster.lived_hub import begin, finish, positions
from tests.cluster.several import SeveralHub
from tests.cluster.test_doctored_folders import doctor
from tests.profiles import some

QUIET = Settings()


@contextmanager
def served(folder: Path) -> Iterator[Hub]:
    """The hub of a folder, with as many shards as it has."""
    shards = shard_count(folder) if folder.exists() else 1
    running = start(folder, port=0) if shards == 1 else SeveralHub(folder, shards=shards)
    try:
        with restante.connect(running.url) as hub:
            yield hub
    finally:
        running.stop()


@pytest.mark.parametrize("way", some(["4", "2 1", "4 2 3 1", "3 1 4"], most=2))
def test_everything_goes_on_with_other_shards(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "data"
    with served(folder) as hub:
        kept = begin(hub)
        before = positions(hub)
    for shards in map(int, way.split()):
        done = reshard(folder, shards, QUIET)
        assert done.after == shards == shard_count(folder)
        report = doctor(folder)
        assert report["verdict"] == "sound", report
        assert [finding for finding in report["findings"] if finding["severity"] != "note"] == []
    with served(folder) as hub:
        assert positions(hub) == before
        finish(hub, kept)
    assert doctor(folder)["verdict"] == "sound"


def test_what_began_in_several_shards_goes_on_in_one(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    found_table(folder, 4, 16)
    with served(folder) as hub:
        kept = begin(hub)
        before = positions(hub)
    reshard(folder, 1, QUIET)
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["blobs"]
    assert doctor(folder)["verdict"] == "sound"
    with served(folder) as hub:
        assert positions(hub) == before
        finish(hub, kept)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output + result.stderr
    return result.stdout


def test_the_commands_say_one_another(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with restante.open(folder) as hub:
        hub.send(recipient="ada", text="hello")
    refused = CliRunner().invoke(app, ["serve", "--data", str(folder), "--shards", "4"])
    wanted = f"restante shards split 4 --data {folder}"
    assert wanted in " ".join(refused.stderr.split())
    told = json.loads(run(*wanted.split()[1:], "--json"))
    assert (told["before"], told["after"]) == (1, 4)
    assert "nothing to do" in run("shards", "split", "4", "--data", str(folder))
    refused = CliRunner().invoke(app, ["serve", "--data", str(folder), "--shards", "1"])
    assert f"restante shards join 1 --data {folder}" in " ".join(refused.stderr.split())
    refused = CliRunner().invoke(app, ["shards", "split", "2", "--data", str(folder)])
    assert f"restante shards join 2 --data {folder}" in " ".join(refused.stderr.split())
    assert "2 shards instead of 4" in run("shards", "join", "2", "--data", str(folder))
    with served(folder):
        refused = CliRunner().invoke(app, ["shards", "join", "--data", str(folder)])
        assert refused.stderr.startswith("error data_locked: ")
    assert "1 shard instead of 2" in run("shards", "join", "--data", str(folder))
    with restante.open(folder) as hub:
        assert hub.recipient("ada").peek() is not None


def test_more_shards_than_partitions_are_refused(tmp_path: Path) -> None:
    with restante.open(tmp_path / "data", settings=Settings(partition_count=2)):
        pass
    with pytest.raises(InvalidRequest, match="1 to 2 shards"):
        reshard(tmp_path / "data", 4, QUIET)


def test_a_unique_key_is_not_parted_from_its_batch(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with restante.open(folder) as hub:
        opened = [
            hub.link.call(OpenBatch(key=f"k{number}", unique=True, batch_id=str(uuid4()))).id for number in range(20)
        ]
    with pytest.raises(InvalidRequest, match="Seal or delete it first"):
        reshard(folder, 4, QUIET)
    assert shard_count(folder) == 1
    with restante.open(folder) as hub:
        for batch in opened:
            hub.batches.get(batch).seal()
    reshard(folder, 4, QUIET)
    assert doctor(folder)["verdict"] == "sound"


_KILLER = """
import json, os, sys
from pathlib import Path
from restante.cluster.reshard import reshard
from restante.settings import Settings

def hook(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir"):
        left -= 1
        if left < 0:
            os._exit(9)

for line in sys.stdin:
    folder, shards, left = json.loads(line)
    child = os.fork()
    if not child:
        try:
            sys.addaudithook(hook)
            reshard(Path(folder), shards, Settings(filing=False, housekeeping_seconds=0))
            os._exit(0)
        finally:
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Has children change the shards of folders; each ends without a word at the n-th step that changes the names of files."""


class Killer:
    """One process, whose children have all imported already: each kill takes as long as the change itself."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _KILLER]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def change(self, folder: Path, shards: int, steps: int) -> int:
        """Change the shards of a folder up to a step; gives the exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), shards, steps]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def killer() -> Iterator[Killer]:
    made = Killer()
    yield made
    made.close()


def _kills(killer: Killer, folder: Path, shards: int, every: int, scratch: Path) -> set[int]:
    """How many shards a folder had after each kill."""
    found: set[int] = set()
    messages = doctor(folder)["checked"]["messages"]
    code, number = 9, 0
    while code == 9:
        work = scratch / "work"
        shutil.copytree(folder, work, ignore=shutil.ignore_patterns("*.sock"))
        code = killer.change(work, shards, number)
        assert code in (0, 9)
        found.add(shard_count(work))
        report = doctor(work)
        assert report["verdict"] == "sound", (number, report)
        assert report["checked"]["messages"] == messages
        if code == 9:
            reshard(work, shards, QUIET)
            assert shard_count(work) == shards
        shutil.rmtree(work)
        number += every
    return found


@pytest.mark.kills
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 2)], ids=["1-3", "3-1", "3-2"])
def test_a_kill_at_any_step_leaves_the_old_or_the_new(killer: Killer, tmp_path: Path, before: int, after: int) -> None:
    folder = tmp_path / "data"
    if before > 1:
        found_table(folder, before, 16)
    with served(folder) as hub:
        begin(hub)
    every = 1 if os.environ.get("RESTANTE_LONG") else 3
    assert _kills(killer, folder, after, every, tmp_path) == {before, after}
