"""A standalone Spark cluster of real processes on this machine: a master and two workers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from bench.server import free_port
from restante.spark.sessions import java
from tests.spark.small_spark import SMALL_JAVA

_START_SECONDS_MAX = 120
_WORKERS = 2


class Cluster:
    """Started with `with`; what it writes is in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self.url = f"spark://127.0.0.1:{free_port()}"

    def _start(self, name: str, *arguments: str, host: str, until: str) -> None:
        """Returns when it has said what it is to say."""
        environment = {
            **os.environ,
            "JAVA_HOME": str(java.home(java.find())),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL_JAVA,
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        process = subprocess.Popen(
            [
                str(self._home / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{name}",
                *("--host", host, "--webui-port", "0"),
                *arguments,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self._processes.append(process)
        said = threading.Event()

        def read() -> None:
            assert process.stderr is not None
            with (self._folder / "cluster.log").open("a") as log:
                for line in process.stderr:
                    log.write(line)
                    if until in line:
                        said.set()
            said.set()

        reader = threading.Thread(target=read, daemon=True)
        self._readers.append(reader)
        reader.start()
        assert said.wait(_START_SECONDS_MAX), name
        assert process.poll() is None, (self._folder / "cluster.log").read_text()[-3_000:]

    def __enter__(self) -> Self:
        port = self.url.rpartition(":")[2]
        try:
            self._start("master.Master", "--port", port, host="127.0.0.1", until="state: ALIVE")
            for number in range(_WORKERS):
                folder = self.worker(number)
                folder.mkdir()
                bounds = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder))
                # Hosts of their own: Spark never has two attempts at one task on the same host.
                host = f"127.0.0.{number + 1}"
                self._start("worker.Worker", *bounds, self.url, host=host, until="Successfully registered")
        except BaseException:
            self.close()
            raise
        return self

    def worker(self, number: int) -> Path:
        """Where a worker keeps what it has of its programs."""
        return self._folder / f"worker{number}"

    def close(self) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for reader in self._readers:
            reader.join()
        for process in self._processes:
            assert process.stderr is not None
            process.stderr.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
