"""One hub of several processes: started, killed in part and as a whole, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.server.wire import Answer, Wire
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(280)


class Served:
    """`restante serve` with several shards, as a process with children."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        command = (sys.executable, "-m", "restante", "serve", "--data", str(folder), "--port", str(port), *options)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip().rpartition(" ")[2]

    def children(self) -> list[int]:
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(number) for number in found.split()]

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def served(folder: Path, *options: str, port: int = 0) -> Iterator[Served]:
    running = Served(folder, *options, port=port)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            running.process.kill()
        running.process.wait()
        if running.process.stdout is not None:
            running.process.stdout.close()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes() if Path("/proc").is_dir() else True


def publish(wire: Wire, name: str) -> Answer:
    return wire.publish({"recipient": name, "data": name, "id": name})


def test_a_hub_of_several_processes_survives_the_death_of_each_and_ends_in_order(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--shards", "2", "--doors", "1") as running:
        wire, stored = Wire(running.url), 0
        for child in running.children():
            stored += 1
            assert publish(wire, f"r{stored}").status == 201
            os.kill(child, signal.SIGKILL)
            stored += 1
            assert _answered(running.url, f"r{stored}").status == 201
        wire = Wire(running.url)
        listed = {own["recipient"] for own in wire.get("/v1/recipients").json()["recipients"]}
        assert listed == {f"r{number + 1}" for number in range(stored)}
        children = running.children()
        assert running.end() == 0
        assert not any(is_there(child) for child in children)


def _answered(url: str, name: str) -> Answer:
    """A door that was killed takes connections with it, a shard may take longer than its callers wait: they come again."""
    answers: list[Answer] = []

    def comes() -> bool:
        with suppress(OSError):
            answers.append(publish(Wire(url), name))
        return bool(answers) and answers[-1].status != 503

    wait_until(comes, "a door answers")
    return answers[-1]


def test_children_end_with_their_supervisor_which_starts_again_at_once(tmp_path: Path) -> None:
    port, before = 0, []
    for round_number in range(3):
        with served(tmp_path / "data", "--shards", "2", "--doors", "1", port=port) as running:
            port = int(running.url.rpartition(":")[2])
            wire = Wire(running.url)
            assert publish(wire, f"r{round_number}").status == 201
            before = running.children()
            running.process.kill()
            running.process.wait()
    wait_until(lambda: not any(is_there(child) for child in before), "the children end")
    with served(tmp_path / "data", port=port) as running:
        listed = {own["recipient"] for own in Wire(running.url).get("/v1/recipients").json()["recipients"]}
        assert listed == {"r0", "r1", "r2"}


def test_a_shard_that_cannot_be_started_again_is_told_of_with_the_reason(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--shards", "2") as running:
        database = tmp_path / "data" / "shard-1" / "restante.db"
        journal, aside = database.with_name("restante.db-wal"), tmp_path / "journal"
        (shard,) = (child for child in running.children() if _has_open(child, database))
        journal.rename(aside)
        whole = database.read_bytes()
        database.write_bytes(b"no database".ljust(len(whole), b"!"))
        os.kill(shard, signal.SIGKILL)

        def state() -> tuple[str, str]:
            shards = Wire(running.url).get("/v1/nodes").json()["shards"]
            return shards[1]["state"], shards[1]["reason"] or ""

        wait_until(lambda: state()[0] == "failed")
        assert "shard 1 did not start" in state()[1]
        database.write_bytes(whole)
        aside.rename(journal)
        wait_until(lambda: state() == ("serving", ""))


def _has_open(pid: int, path: Path) -> bool:
    links = Path(f"/proc/{pid}/fd").iterdir()
    return any(link.readlink() == path for link in links if link.is_symlink())
