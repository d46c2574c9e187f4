"""`FilingClerk`: a clerk in processes of its own, so that neither filing nor large pages hold the interpreter of the hub."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

import msgspec

from restante.decoders import packed_decoder
from restante.model.publishing.bulk_parcel import BulkParcel
from restante.model.storage.changes import Buffer
from restante.model.storage.joined_segments import joined
from restante.model.storage.segment_frame import EncodedSegment
from restante.outside.bulk_clerk import BulkClerk
from restante.outside.clerk_process import ClerkAnswer, ClerkTask
from restante.outside.helper_frames import read_frame, write_frame
from restante.outside.helper_process import HelperProcess, wait_for_answer
from restante.outside.page_clerk import PageClerk
from restante.ports.clerk import BulkTerms, PageQuestion, ReadPage, SegmentPart

_WORTH_CALLS = 32
"""The number of calls from which the process that files is worth its start."""
_WORTH_PAGES = 4
_WORTH_BODIES = 4
MODULE = "restante.outside.clerk_process"
_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(ClerkAnswer)


class FilingClerk:
    """One process files: who finds it busy computes by himself. Another reads pages, a third lays out bulk."""

    def __init__(self, worth_calls: int = _WORTH_CALLS) -> None:
        self._process = HelperProcess(MODULE, "files", worth_calls)
        self._pages = PageClerk(min(worth_calls, _WORTH_PAGES))
        self._bulk = BulkClerk(min(worth_calls, _WORTH_BODIES))

    def joined(self, contents: Sequence[bytes], shifts: Sequence[int], group: int) -> EncodedSegment | None:
        answer = self._ask(ClerkTask.JOIN, contents, shifts, group)
        if answer is None:
            return joined(contents, shifts, group)
        return answer[0] if answer else None

    @property
    def merges(self) -> bool:
        return not self._process.closed and sys.platform != "win32"

    def merged(self, parts: Sequence[SegmentPart], first: int) -> list[EncodedSegment] | None:
        return self._ask(ClerkTask.MERGE, parts, first)

    @property
    def reads(self) -> bool:
        return self._pages.reads

    def published(self, page: PageQuestion) -> ReadPage | None:
        return self._pages.published(page)

    @property
    def lays_out(self) -> bool:
        return self._bulk.lays_out

    def laid_out(self, body: Buffer, terms: BulkTerms) -> BulkParcel | None:
        return self._bulk.laid_out(body, terms)

    def close(self) -> None:
        self._process.close()
        self._pages.close()
        self._bulk.close()

    def _ask(self, task: ClerkTask, *given: object) -> list[EncodedSegment] | None:
        """The answer of the process; None if the caller is to do the work."""
        answer = self._process.asked(lambda line: _exchanged(line, _encoder.encode((task, *given))))
        return None if answer is None or answer.failed else [one.encoded() for one in answer.segments]


def _exchanged(line: socket.socket, question: bytes) -> ClerkAnswer:
    write_frame(line.fileno(), question)
    wait_for_answer(line)
    content = read_frame(line.fileno())
    if content is None:
        raise OSError("it ended")
    return _decoder.decode(content)
