"""The guide's way from a folder to several nodes and back, command by command, with a hub that has lived."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from bench.server import free_port
from restante.cluster.reshard import shard_count
from restante.server.serve import start
from tests.cluster.lived_hub import Kept, begin, finish, positions
from tests.cluster.several import SeveralHub
from tests.postgresql_server import schema_address

CHECKOUT = Path(__file__).parents[2]
GUIDE = CHECKOUT / "docs" / "guide" / "cluster.md"
DATABASE = "postgresql://mail@db.example.org/mail"
SECONDS = 120


def commands(mark: str) -> list[str]:
    """Those of the block below a mark."""
    found = re.search(rf"^<!-- {mark} -->\n```console\n(.*?)^```\n", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return [line.removeprefix("$ ") for line in found[1].splitlines()]


class Shell:
    """Commands in a folder, with the guide's addresses replaced by real ones."""

    def __init__(self, folder: Path, database: str) -> None:
        self._folder = folder
        self._port, self._peers = free_port(), free_port()
        self._places = {
            DATABASE: f"'{database}'",
            "http://127.0.0.1:8470": f"http://127.0.0.1:{self._port}",
            "0.0.0.0:8472": f"127.0.0.1:{self._peers}",
        }
        self._environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT / "src"),
            "RESTANTE_SERVER__PORT": str(self._port),
            "RESTANTE_CLUSTER_SECRET": "a secret of the cluster",
        }
        self._background: list[subprocess.Popen[str]] = []
        self.url = f"http://127.0.0.1:{self._port}"

    def run(self, command: str) -> str:
        for place, real in self._places.items():
            command = command.replace(place, real)
        if command.endswith("&"):
            return self._start(command.removesuffix("&"))
        options = {"cwd": self._folder, "env": self._environment, "text": True, "timeout": SECONDS}
        done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, **options)  # type: ignore[call-overload]  # all by name
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return str(done.stdout)

    def _start(self, command: str) -> str:
        with (self._folder / "node.log").open("w") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._background.append(process)
        assert process.stdout is not None
        said = process.stdout.readline()
        assert self.url in said, (self._folder / "node.log").read_text()
        return said

    def stop(self) -> None:
        for process in self._background:
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
            assert process.stdout is not None
            process.stdout.close()
        self._background = []


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path, schema_address(tmp_path))
    yield made
    made.stop()


def lived_in(folder: Path, shards: int) -> tuple[Kept, dict[str, list[tuple[int | None, str]]]]:
    running = start(folder, port=0) if shards == 1 else SeveralHub(folder, shards=shards)
    try:
        with restante.connect(running.url) as hub:
            return begin(hub), positions(hub)
    finally:
        running.stop()


@pytest.mark.long
@pytest.mark.parametrize("shards", [4, 1])
def test_a_folder_grows_into_nodes_and_back(tmp_path: Path, shell: Shell, shards: int) -> None:
    kept, before = lived_in(tmp_path / "mail", shards)
    told = [shell.run(command) for command in commands("grow")]
    assert told[2].startswith("postgresql://")
    assert "16 shards instead of 1" in " ".join(told[2].split())
    assert told[-1].count("serving") == 16
    assert shard_count(tmp_path / "mail") == shards, "the folder stays as it is"
    with restante.connect(shell.url) as hub:
        assert positions(hub) == before
    shell.stop()
    for command in commands("shrink"):
        shell.run(command)
    with restante.open(tmp_path / "back") as hub:
        assert positions(hub) == before
        finish(hub, kept)


@pytest.mark.wire
def test_what_went_on_in_nodes_comes_back(tmp_path: Path, shell: Shell) -> None:
    kept, _ = lived_in(tmp_path / "mail", 4)
    for command in commands("grow"):
        shell.run(command)
    with restante.connect(shell.url) as hub:
        finish(hub, kept)
        after = positions(hub)
    shell.stop()
    for command in commands("shrink"):
        shell.run(command)
    with restante.open(tmp_path / "back") as hub:
        assert positions(hub) == after
