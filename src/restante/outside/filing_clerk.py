"""`FilingClerk`: a clerk in a process of its own, so that filing does not hold the interpreter of the hub.

If the process dies, is slow or is not there yet, the hub computes by itself: nothing is lost by it but time.
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from restante.model.storage.joined import joined
from restante.model.storage.segment import EncodedSegment
from restante.outside.clerk_process import ClerkAnswer, ClerkTask, read_frame, write_frame
from restante.ports.clerk import SegmentPart

_log = logging.getLogger(__name__)

_WORTH_CALLS = 32
"""From so many calls on a process is worth its start."""
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 10.0
"""After a process died it is not started again at once."""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ClerkAnswer)


class FilingClerk:
    """Started when there is enough to do. One question at a time: who finds it busy computes by itself."""

    def __init__(self, worth_calls: int = _WORTH_CALLS) -> None:
        self._worth_calls = worth_calls
        self._calls = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._there = False
        """Whether the process has said so."""
        self._not_before = 0.0
        self._closed = False
        self.answers = 0
        """How many the process has given."""

    def joined(self, contents: Sequence[bytes], shifts: Sequence[int], group: int) -> EncodedSegment | None:
        answer = self._ask(ClerkTask.JOIN, contents, shifts, group)
        if answer is None:
            return joined(contents, shifts, group)
        return answer[0] if answer else None

    @property
    def merges(self) -> bool:
        return not self._closed and sys.platform != "win32"

    def merged(self, parts: Sequence[SegmentPart], first: int) -> list[EncodedSegment] | None:
        return self._ask(ClerkTask.MERGE, parts, first)

    @property
    def process_id(self) -> int | None:
        """The id of the process that answers, if there is one."""
        return self._process.pid if self._process is not None and self._there else None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end()

    def _ask(self, task: ClerkTask, *given: object) -> list[EncodedSegment] | None:
        """The answer of the process; None if the caller is to do the work."""
        self._calls += 1
        if self._calls < self._worth_calls or not self._lock.acquire(blocking=False):
            return None
        try:
            process = self._started()
            if process is None:
                return None
            content = self._exchanged(process, _encoder.encode((task, *given)))
            answer = None if content is None else _decoder.decode(content)
            if answer is None:
                self._give_up("it ended, or did not answer in time")
                return None
            self.answers += 1
            return None if answer.failed else [one.encoded() for one in answer.segments]
        except (OSError, msgspec.MsgspecError) as error:
            self._give_up(str(error))
            return None
        finally:
            self._lock.release()

    def _exchanged(self, process: subprocess.Popen[bytes], question: bytes) -> bytes | None:
        assert process.stdin is not None
        assert process.stdout is not None
        write_frame(process.stdin.fileno(), question)
        answering = process.stdout.fileno()
        return read_frame(answering) if _is_readable(answering, _PATIENCE_SECONDS) else None

    def _started(self) -> subprocess.Popen[bytes] | None:
        """The process, if it is there; it is started if there is none, and not waited for."""
        if self._process is not None and self._process.poll() == 0:
            self._end()  # Nobody had asked for long.
        if self._process is None and not self._closed and time.monotonic() >= self._not_before:
            self._process = _new_process()
        process = self._process
        if process is None or self._there:
            return process
        assert process.stdout is not None
        if not _is_readable(process.stdout.fileno(), 0):
            return None
        self._there = read_frame(process.stdout.fileno()) == b""
        if not self._there:
            self._give_up("it did not begin")
        return self._process

    def _give_up(self, why: str) -> None:
        _log.warning("The process that files has ended (%s); the hub files by itself meanwhile.", why)
        self._not_before = time.monotonic() + _PAUSE_SECONDS
        self._end()

    def _end(self) -> None:
        process, self._process, self._there = self._process, None, False
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()


def _new_process() -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            (sys.executable, "-m", "restante.outside.clerk_process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except OSError as error:
        _log.warning("The process that files could not be started (%s); the hub files by itself.", error)
        return None


def _is_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))
