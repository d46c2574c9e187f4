"""Frames of a length and content, over one socket: so a hub talks with a process that computes for it.

The first frame of the process is empty: it is there.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

LENGTH = struct.Struct("<I")
IDLE_SECONDS = 60.0
"""Nobody has asked for so long: the process ends, and another one is started when it is needed."""


def read_frame(descriptor: int) -> bytes | None:
    """A whole frame; None at the end."""
    head = read_exactly(descriptor, LENGTH.size)
    return None if head is None else read_exactly(descriptor, LENGTH.unpack(head)[0])


def write_frame(descriptor: int, content: bytes) -> None:
    left = memoryview(LENGTH.pack(len(content)) + content)
    while left:
        left = left[os.write(descriptor, left) :]


def read_exactly(descriptor: int, count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(descriptor, count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def answer_all(answer: Callable[[socket.socket, bytes], None], *, niceness: int) -> None:
    """Answer until nobody is there, or nobody asks any more. The standard input of the process is the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(niceness)
    with suppress(OSError), socket.socket(fileno=os.dup(0)) as line:
        write_frame(line.fileno(), b"")
        while select.select([line], [], [], IDLE_SECONDS)[0] and (question := read_frame(line.fileno())) is not None:
            answer(line, question)
