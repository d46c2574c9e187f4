"""Nodes as processes, each with a proxy of its own before the database, which cuts it off when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from bench.server import LOCALHOST, free_port
from restante.assembly import found_database
from restante.settings import Settings
from tests.crash.campaign import CHECKOUT
from tests.postgresql_server import DoubtfulProxy, PostgresqlServer
from tests.waiting import wait_until

SHARDS, PARTITIONS = 6, 32
_SECRET = "a secret of the cluster"


class NodeProcess:
    """`restante serve --node`, which can be killed, paused, stopped and started again under the same addresses."""

    def __init__(self, name: str, folder: Path, address: str, settings: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._settings = dict(settings or {})
        """As variables of its environment."""
        self.proxy = DoubtfulProxy(address)
        self._folder = folder / name
        self._port, self._peer = free_port(), free_port()
        self.url = f"http://{LOCALHOST}:{self._port}"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Return when it serves."""
        options = {
            "--data": str(self._folder),
            "--store": self.proxy.address,
            "--node": self.name,
            "--port": str(self._port),
            "--listen": f"{LOCALHOST}:{self._peer}",
        }
        command = [sys.executable, "-m", "restante", "serve", *(part for option in options.items() for part in option)]
        own = {"RESTANTE_CLUSTER_SECRET": _SECRET, "RESTANTE_HOUSEKEEPING_SECONDS": "2", **self._settings}
        environment = {**os.environ, **own}
        with (self._folder.parent / f"{self.name}.log").open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=CHECKOUT, text=True
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert self.url in said, (said, self.log())

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None, "it was started"
        self.process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        """In order: its shards go to the others first."""
        self.send(signal.SIGTERM)
        assert self._reap() == 0, self.log()

    def log(self) -> str:
        return (self._folder.parent / f"{self.name}.log").read_text()[-4_000:]

    def close(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.send(signal.SIGCONT)
                self.kill()
        self.proxy.close()

    def _reap(self) -> int:
        assert self.process is not None, "it was started"
        code = self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        return code


class NodeCluster:
    """Three nodes, and their database."""

    def __init__(self, folder: Path, names: str = "abc", settings: Mapping[str, str] | None = None) -> None:
        self.server = PostgresqlServer()
        self.nodes = [NodeProcess(name, folder, self.server.address, settings) for name in names]
        try:
            found_database(self.server.address, Settings(), shards=SHARDS, partitions=PARTITIONS)
            with ThreadPoolExecutor(len(self.nodes)) as threads:
                list(threads.map(NodeProcess.start, self.nodes))
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """For clients: all nodes."""
        return ",".join(node.url for node in self.nodes)

    def restart_server(self, how: signal.Signals) -> None:
        self.server.stop(how)
        self.server.start()

    def close(self) -> None:
        for node in self.nodes:
            node.close()
        self.server.remove()


def wait_for(seconds: float) -> None:
    """Let time pass that the campaign is about, such as a lease."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until)
