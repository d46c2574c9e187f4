"""`HelperProcess`: a process that computes for the hub, so that the hub's interpreter is free meanwhile.

It keeps nothing. If it dies, is slow or is not there yet, the hub computes by itself: nothing is lost by it but time.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from restante.outside.helper_frames import read_frame

_log = logging.getLogger(__name__)

_START = "restante.outside.start_helper"
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 10.0
"""After a process died it is not started again at once."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Nothing is computed there that NumPy would do in several threads, and to start them takes as long as to load NumPy."""
T = TypeVar("T")


class HelperProcess:
    """Started when there is enough to do. One question at a time."""

    def __init__(self, module: str, work: str, worth_calls: int, *, inherited: tuple[int, ...] = ()) -> None:
        """`inherited`: descriptors that the process has, too."""
        self._module = module
        self._inherited = inherited
        self._work = work
        """The work of the process, for the log."""
        self._worth_calls = worth_calls
        self._calls = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._there = False
        """Whether the process has said so."""
        self._not_before = 0.0
        self.closed = False
        self.answers = 0
        """How many the process has given."""

    @property
    def process_id(self) -> int | None:
        """The id of the process that answers, if there is one."""
        return self._process.pid if self._process is not None and self._there else None

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._end()

    def asked(self, exchange: Callable[[socket.socket], T], *, wait_seconds: float = 0.0) -> T | None:
        """Exchange something with the process; None if the caller is to do the work: the process is busy, or not there.

        The exchange raises an error of the system or of decoding if the process does not do as it should.
        """
        self._calls += 1
        if self._calls < self._worth_calls or not self._lock.acquire(timeout=wait_seconds):
            return None
        try:
            line = self._connected()
            if line is None:
                return None
            found = exchange(line)
            self.answers += 1
            return found
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            self._give_up(str(error))
            return None
        finally:
            self._lock.release()

    def _connected(self) -> socket.socket | None:
        """The line to the process, if it is there; it is started if there is none, and not waited for."""
        if self._process is not None and self._process.poll() == 0:
            self._end()  # Nobody had asked for long.
        if self._process is None and not self.closed and time.monotonic() >= self._not_before:
            self._start()
        line = self._line
        if line is None or self._there:
            return line
        if not _is_readable(line, 0):
            return None
        self._there = read_frame(line.fileno()) == b""
        if not self._there:
            raise OSError("it did not begin")
        return line

    def _start(self) -> None:
        try:
            self._process, self._line = start_process(self._module, self._inherited)
        except OSError as error:
            self._not_before = time.monotonic() + _PAUSE_SECONDS
            _log.warning("The process that %s could not be started (%s); the hub does it.", self._work, error)

    def _give_up(self, why: str) -> None:
        _log.warning("The process that %s has ended (%s); the hub does it meanwhile.", self._work, why)
        self._not_before = time.monotonic() + _PAUSE_SECONDS
        self._end()

    def _end(self) -> None:
        process, line, self._process, self._line, self._there = self._process, self._line, None, None, False
        if process is None or line is None:
            return
        process.kill()
        with suppress(OSError):
            line.close()
        process.wait()


def start_process(module: str, inherited: tuple[int, ...] = ()) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process that runs a module, and the socket that is its standard input."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = subprocess.Popen(
                (sys.executable, "-m", _START, module),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                pass_fds=inherited,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_ONE_THREAD},
            )
    except BaseException:
        ours.close()
        raise
    return process, ours


def wait_for_answer(line: socket.socket) -> None:
    """Wait until the process begins to answer; `OSError` if it takes too long."""
    if not _is_readable(line, _PATIENCE_SECONDS):
        raise OSError("it did not answer in time")


def _is_readable(line: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))
