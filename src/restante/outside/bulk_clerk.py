"""`BulkClerk`: large publishes are checked, routed and laid out as mailbags in a process of its own.

The body goes there, and the mailbags come back, in memory that both processes have. Whether the messages are new is for the hub
to say.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from functools import partial

import msgspec

from restante.decoders import packed_decoder
from restante.limits import MIB
from restante.model.publishing.bulk_parcel import BulkParcel, PackedParcel, unpacked
from restante.model.storage.changes import Buffer
from restante.outside.helper_frames import read_exactly, write_frame
from restante.outside.helper_process import HelperProcess, wait_for_answer
from restante.ports.clerk import BulkTerms

ANSWER = struct.Struct("<QQ")
"""How many bytes the directory of the parcel has, 0 if it failed; and how many lie beside the body."""
MODULE = "restante.outside.bulk_process"
_KEPT_BYTES = 16 * MIB
"""The bytes of memory that are kept for the next body."""
_FLAGS = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(PackedParcel)


class BulkTask(msgspec.Struct, frozen=True, array_like=True):
    """A body that is to be laid out, in memory that the process has by this descriptor."""

    descriptor: int
    length: int
    terms: BulkTerms


class BulkClerk:
    """One body at a time: who finds the process busy lays out by himself."""

    def __init__(self, worth_calls: int) -> None:
        self._memory = os.memfd_create("restante-bodies", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else -1
        self._process = HelperProcess(MODULE, "lays out bulk", worth_calls, inherited=(self._memory,))

    @property
    def lays_out(self) -> bool:
        return self._memory >= 0 and not self._process.closed

    def laid_out(self, body: Buffer, terms: BulkTerms) -> BulkParcel | None:
        return self._process.asked(partial(self._exchanged, body=body, terms=terms))

    def close(self) -> None:
        self._process.close()
        memory, self._memory = self._memory, -1
        if memory >= 0:
            os.close(memory)

    def _exchanged(self, line: socket.socket, body: Buffer, terms: BulkTerms) -> BulkParcel | None:
        memory = self._memory
        _write(memory, body)
        try:
            write_frame(line.fileno(), _encoder.encode(BulkTask(memory, len(body), terms)))
            wait_for_answer(line)
            return _answered(line, body)
        finally:
            if len(body) > _KEPT_BYTES:
                os.ftruncate(memory, _KEPT_BYTES)


def _write(memory: int, body: Buffer) -> None:
    left, at = memoryview(body).cast("B"), 0
    while left:
        written = os.pwrite(memory, left, at)
        left, at = left[written:], at + written


def _answered(line: socket.socket, body: Buffer) -> BulkParcel | None:
    content, descriptors, _, _ = socket.recv_fds(line, ANSWER.size, 1)
    try:
        if len(content) < ANSWER.size:
            raise OSError("it ended")
        length, size = ANSWER.unpack(content)
        if not length:
            return None
        directory = read_exactly(line.fileno(), length)
        if directory is None or not descriptors:
            raise OSError("it ended")
        beside = mmap.mmap(descriptors[0], size, prot=mmap.PROT_READ, flags=_FLAGS)
        return unpacked(_decoder.decode(directory), body, memoryview(beside))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
