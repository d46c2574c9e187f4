"""Real servers, as the bench starts them: on a free port, in a folder of their own, stopped at the end.

A peer that is a server has its file in `bench.peers`, with a class `Server` (`SERVER` there names it). It says what is
missing where it cannot run, and gives the *ways* to drive it: functions that connect a client, by name. A way can be
pickled, as some are used in processes of their own (`bench.load`).
"""

from __future__ import annotations

import importlib
import pkgutil
import pwd
import random
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from bench.peer import Operation
from bench.process import resident_bytes

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
POLL_SECONDS = 0.02
LOCALHOST = "127.0.0.1"
_PORTS = range(20_000, 30_000)
"""Below those that the system hands out by itself, to outgoing connections among others."""
_PORTS_TRIED_MAX = 100

Answer = TypeVar("Answer")
Way = Callable[[], Any]
"""Connects a client: a `Peer` for what is done in bulk, a `bench.load.Driver` for what a process of its own does."""


class Server:
    """A server that is up once it is made, on a folder it may fill."""

    name: ClassVar[str]
    lesser: ClassVar[frozenset[str]] = frozenset()
    """Ways that do less than the work asks for: their figures are shown, but no goal refers to them."""
    _process: Process

    @classmethod
    def missing(cls) -> str | None:
        """The part that is not there, if it cannot take part."""
        return None

    def __init__(self, folder: Path) -> None:
        raise NotImplementedError

    def facts(self) -> dict[str, str]:
        """The version of the server, and the settings that differ from its defaults."""
        raise NotImplementedError

    def ways(self, operation: Operation) -> Mapping[str, Way]:
        """The ways in which it can do an operation, by name; none if it cannot."""
        raise NotImplementedError

    def clear(self) -> None:
        """Not timed: forget all messages, before another workload."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def resident_bytes(self) -> int:
        return resident_bytes(self._process.pid)

    def close(self) -> None:
        """Stops it, whatever state it is in."""
        raise NotImplementedError


class Process:
    """A server's process. Its output goes to a file; the error shows the end of the file if the server does not come up."""

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        *,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        """Run in the folder; the log lies there unless it is said where."""
        self._log = log or folder / "server.log"
        with self._log.open("wb") as output:
            self._child = subprocess.Popen(
                [str(part) for part in command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C stops the bench, which then stops its servers
                **as_user(user),
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], Answer | None]) -> Answer:
        """The answer of `ready` as soon as it answers anything."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while (answer := ready()) is None:
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self._child.args!r} did not come up:\n{self.output()[-2_000:]}")
            time.sleep(POLL_SECONDS)
        return answer

    @contextmanager
    def stopped_on_failure(self) -> Iterator[None]:
        """Around what is done before anybody else can stop it."""
        try:
            yield
        except BaseException:
            self._child.kill()
            self._child.wait()
            raise

    def stop(self, signal_number: int) -> None:
        if self._child.poll() is None:
            self._child.send_signal(signal_number)
        try:
            self._child.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def servers() -> list[type[Server]]:
    """Every peer that is a server."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "peers")]))
    modules = [importlib.import_module(f"bench.peers.{name}") for name in names]
    return [module.SERVER for module in modules if hasattr(module, "SERVER")]


def driver(name: str) -> Any:
    """A peer's driver, which is installed for this bench alone: nothing else may depend on it, types neither."""
    return importlib.import_module(name)


def raise_file_limit() -> int:
    """As many open files and sockets as may be, for this process and those that it starts; gives how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def as_user(name: str | None) -> dict[str, Any]:
    """The arguments that make a child run as this user; none without a name."""
    if name is None:
        return {}
    account = pwd.getpwnam(name)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def free_port() -> int:
    """A port that nobody listens on, outside the range from which the system hands out ports by itself.

    Until a server listens there, the system gives the port to nobody else. A port of the system's own range could go
    to the very client that tries again and again to reach it, which would then be connected to itself.
    """
    for port in random.SystemRandom().sample(_PORTS, _PORTS_TRIED_MAX):
        with socket.socket() as probe:
            try:
                probe.bind((LOCALHOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port is free")


def listening(port: int) -> bool | None:
    """True if a server answers at the port, else None."""
    try:
        with socket.create_connection((LOCALHOST, port), timeout=1):
            return True
    except OSError:
        return None
