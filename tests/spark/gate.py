"""A real proxy in front of a hub, which a test can have act when a certain request passes, or its answer.

What it does then is up to the test: cut the connection, kill who asked, hold the request until something has happened.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_CHUNK = 65_536
_REQUEST = re.compile(rb"([A-Z]+ /\S*) HTTP/1\.1\r\n")
_HELD_SECONDS_MAX = 60
_DONE_SECONDS_MAX = 60


@dataclass(eq=False)
class Passing:
    """A connection, and the request that is under way on it."""

    client: socket.socket
    hub: socket.socket
    request: str = ""
    rule: Rule | None = None
    answered: threading.Event = field(default_factory=threading.Event)

    def kill_caller(self) -> bool:
        """Kill the process that asked: a worker of Spark's, or a driver's. False: it has ended already, as with its driver."""
        owner = _owner(self.client.getpeername()[1])
        if owner is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(owner, signal.SIGKILL)
        return True


Act = Callable[[Passing], bool]
"""Gives whether the bytes are passed on; if not, the connection is cut."""


@dataclass(eq=False)
class Rule:
    pattern: re.Pattern[str]
    before: Act | None
    after: Act | None
    passes: int
    """How many that fit pass untouched before it acts, once."""
    done: threading.Event = field(default_factory=threading.Event)

    def acted(self) -> bool:
        """Whether it has acted. Who was killed by it may be gone a moment before it is done."""
        return self.done.wait(_DONE_SECONDS_MAX)


def cut(_: Passing) -> bool:
    return False


def kill_caller(passing: Passing) -> bool:
    assert passing.kill_caller(), "nobody asked"
    return False


class Gate:
    """Passes bytes on, but for the requests that it has rules for."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self.requests: list[str] = []
        """Method and path of all that came, in order."""
        self._passing: list[Passing] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def when(self, pattern: str, *, before: Act | None = None, after: Act | None = None, passes: int = 0) -> Rule:
        """Act once: before a request like this reaches the hub, or when its answer has come."""
        rule = Rule(re.compile(pattern), before, after, passes)
        with self._lock:
            self._rules.append(rule)
        return rule

    def count(self, pattern: str) -> int:
        return sum(re.search(pattern, request) is not None for request in list(self.requests))

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                hub = socket.socket()
            except OSError:
                return
            passing = Passing(client, hub)
            self._passing.append(passing)
            try:
                hub.connect(self._target)
            except OSError:
                _shut(client)
                continue
            for pump in (self._ask, self._answer):
                thread = threading.Thread(target=self._carry, args=(pump, passing), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _carry(self, pump: Callable[[Passing], None], passing: Passing) -> None:
        with contextlib.suppress(OSError):
            pump(passing)
        for end in (passing.client, passing.hub):
            _shut(end)
        passing.answered.set()

    def _ask(self, passing: Passing) -> None:
        while chunk := passing.client.recv(_CHUNK):
            found = _REQUEST.match(chunk)
            if found is not None:
                passing.request = found[1].decode()
                self.requests.append(passing.request)
                passing.rule = self._rule(passing.request)
                passing.answered.clear()
            rule = passing.rule
            if found is None or rule is None or rule.before is None:
                passing.hub.sendall(chunk)
                continue
            if not _act(rule, rule.before, passing):
                return
            passing.hub.sendall(chunk)
            # Who asked may be dead by now, and the hub is to carry it out nevertheless.
            passing.answered.wait(_HELD_SECONDS_MAX)

    def _answer(self, passing: Passing) -> None:
        while chunk := passing.hub.recv(_CHUNK):
            passing.answered.set()
            rule, passing.rule = passing.rule, None
            if rule is not None and rule.after is not None and not _act(rule, rule.after, passing):
                return
            passing.client.sendall(chunk)

    def _rule(self, request: str) -> Rule | None:
        with self._lock:
            for rule in self._rules:
                if rule.pattern.search(request):
                    if rule.passes == 0:
                        self._rules.remove(rule)
                        return rule
                    rule.passes -= 1
        return None

    def close(self) -> None:
        _shut(self._listener)
        self._acceptor.join()
        self._listener.close()
        for passing in self._passing:
            passing.answered.set()
            _shut(passing.client)
            _shut(passing.hub)
        for thread in self._threads:
            thread.join()
        for passing in self._passing:
            passing.client.close()
            passing.hub.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _act(rule: Rule, act: Act, passing: Passing) -> bool:
    passes = act(passing)
    rule.done.set()
    return passes


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _owner(port: int) -> int | None:
    """The process whose connection has this port on its side; none where it has ended."""
    local = f"0100007F:{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in rows if row[1] == local}
    for found in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(found.readlink()) in inodes:
                return int(found.parts[2])
    return None
