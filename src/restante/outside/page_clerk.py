"""`PageClerk`: large pages of the feed are read, put in order and made columns of in a process of its own.

The rows come back in memory that both processes have, so nothing of them is copied here.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from functools import partial

import msgspec
import pyarrow as pa
from pyarrow import ipc

from restante.outside.helper_frames import write_frame
from restante.outside.helper_process import HelperProcess, wait_for_answer
from restante.ports.clerk import PageQuestion, ReadPage

ANSWER = struct.Struct("<Qd")
"""How many bytes the rows have, 0 if it failed; and the seconds of processor time that it took."""
MODULE = "restante.outside.page_process"
_BUSY_SECONDS = 2.0
"""The time for which a reader waits for a busy process before it reads by itself."""
_encoder = msgspec.msgpack.Encoder()


class PageClerk:
    def __init__(self, worth_calls: int) -> None:
        self._process = HelperProcess(MODULE, "reads pages", worth_calls)

    @property
    def reads(self) -> bool:
        return not self._process.closed and hasattr(os, "memfd_create")

    def published(self, page: PageQuestion) -> ReadPage | None:
        return self._process.asked(partial(_exchanged, question=_encoder.encode(page)), wait_seconds=_BUSY_SECONDS)

    def close(self) -> None:
        self._process.close()


def _exchanged(line: socket.socket, question: bytes) -> ReadPage | None:
    write_frame(line.fileno(), question)
    wait_for_answer(line)
    content, descriptors, _, _ = socket.recv_fds(line, ANSWER.size, 1)
    try:
        if len(content) < ANSWER.size:
            raise OSError("it ended")
        size, seconds = ANSWER.unpack(content)
        return _mapped(descriptors[0], size, seconds) if size and descriptors else None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _mapped(descriptor: int, size: int, seconds: float) -> ReadPage:
    """The rows that lie there. The memory is given back when the last of them is forgotten."""
    memory = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
    return ReadPage(ipc.open_stream(pa.py_buffer(memory)).read_all(), memoryview(memory), seconds)
