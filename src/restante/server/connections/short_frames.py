"""The short way of small text frames on the publish socket: from the socket to the committer and back, without a task.

Only frames that are plainly valid and overtake nothing go this way. `_Pipeline` takes all others, in order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from msgspec import UNSET

from restante.errors import Internal, RestanteError
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.limits import PIPELINE_FRAMES_MAX
from restante.model.mailboxes.answers import Receipt
from restante.server.access.passes import Pass
from restante.server.connections.incoming_messages import is_for_the_loop
from restante.server.connections.socket_protocol import Socket
from restante.server.desk import Desk
from restante.server.routes.publishing import count_stored
from restante.wire.frames import encode_problem, encode_receipt, plain_frame
from restante.wire.incoming.plain_json import plain_letters, plain_messages
from restante.wire.problems import problem_of

_log = logging.getLogger("restante.server")


class ShortFrames:
    """The frames of one connection that go the short way. Their answers leave in the order of the frames."""

    def __init__(
        self, desk: Desk, socket: Socket, held: Pass, correlation_id: str, others: Collection[asyncio.Task[None]]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._desk = desk
        self._socket = socket
        self._held = held
        self._correlation_id = correlation_id
        self._others = others
        """The frames under way in `_Pipeline`."""
        self._ahead = socket.queue.qsize()
        """How many received frames `_Pipeline` has not taken yet."""
        self._under_way = 0
        self._number = 0
        """How many frames went this way."""
        self._told: list[tuple[int, str]] = []
        """Answers to be written at the end of this turn of the event loop, with the positions of their frames, to sort them by."""
        self._rest: asyncio.Future[None] | None = None
        """Done when no frame is under way any more, for `finished`."""
        socket.short = self

    def takes(self, frame: bytes | None) -> bool:
        """Submit a text frame; None stands for any other frame. Returns False, with nothing done, if `_Pipeline` must take it."""
        if frame is not None and self._is_open(len(frame)) and self._submitted(frame):
            return True
        self._ahead += 1
        return False

    def taken_up(self) -> None:
        """Note that `_Pipeline` has put a frame into the committer's queue, or has refused it."""
        self._ahead -= 1

    async def finished(self) -> None:
        """Take no more frames, and wait until all frames under way are answered."""
        self._socket.short = None
        if self._under_way:
            self._rest = self.loop.create_future()
            await self._rest

    def _is_open(self, size: int) -> bool:
        """Whether a frame of `size` bytes would overtake nothing, and there is room for it."""
        return (
            not self._ahead
            and not self._others
            and self._under_way < PIPELINE_FRAMES_MAX
            and is_for_the_loop(size)
            and self._desk.room.has_place(size)
            and self._socket.writable.is_set()
            and not self._held.lost.done()
            and not self._desk.crowded
        )

    def _submitted(self, frame: bytes) -> bool:
        try:
            plain = plain_frame(frame)
            letters = None if plain is None else plain_letters(bytes(plain.messages))
            if plain is None or letters is None:
                return False
            read = partial(plain_messages, bytes(plain.messages))
            answer = _FrameAnswer(self, self._number, plain.number, len(frame))
            partition = None if plain.partition is UNSET else plain.partition
            self._desk.hub.publish_letters_soon(letters, read, answer, self._held.grant, partition)
        except RestanteError:
            return False
        except Exception:  # noqa: BLE001  # nothing was done yet, so `_Pipeline` tries, and answers if it fails too
            _log.exception("A frame failed on its short way.")
            return False
        self._number += 1
        self._under_way += 1
        self._desk.room.enter(len(frame))
        return True

    def tell_all(self, requests: Sequence[CommitRequest[Receipt]]) -> bool:
        """Answer the stored frames of one commit."""
        answers: list[_FrameAnswer] = [request.waiter for request in requests]  # type: ignore[misc]  # all are waiters of this connection
        receipts = [request.answer() for request in requests]
        now = time.monotonic()
        count_stored(self._desk, *receipts)
        self._desk.metrics.publish(*[now - answer.came_at for answer in answers])
        for answer, receipt in zip(answers, receipts, strict=True):
            self._answer(answer, encode_receipt(answer.number, receipt))
        return True

    def tell(self, answer: _FrameAnswer, request: CommitRequest[Receipt]) -> None:
        """Answer a frame that was refused."""
        try:
            text = encode_receipt(answer.number, request.answer())
        except RestanteError as error:
            text = self._problem(answer.number, error)
        except Exception:  # noqa: BLE001  # the client must get an answer; the log has the details
            _log.exception("A frame failed.", extra={"fields": {"correlation_id": self._correlation_id}})
            failed = Internal("The hub failed. Its log has more, by the correlation id.")
            text = self._problem(answer.number, failed)
        self._answer(answer, text)

    def _problem(self, number: int, error: RestanteError) -> str:
        return encode_problem(number, problem_of(error, correlation_id=self._correlation_id))

    def _answer(self, answer: _FrameAnswer, text: str) -> None:
        self._desk.room.leave(answer.size)
        if not self._told:
            self.loop.call_soon(self._write)
        self._told.append((answer.place, text))

    def _write(self) -> None:
        """Write the gathered answers in the order of their frames, with one write."""
        told, self._told = sorted(self._told), []
        self._under_way -= len(told)
        with suppress(OSError, RuntimeError):  # The client has gone.
            self._socket.write_texts([text.encode() for _, text in told])
        if not self._under_way and self._rest is not None and not self._rest.done():
            self._rest.set_result(None)


class _FrameAnswer(Listener[Receipt]):
    """The answer to one frame, which waits for its commit."""

    __slots__ = ("_frames", "came_at", "loop", "number", "place", "size", "together")

    def __init__(self, frames: ShortFrames, place: int, number: int, size: int) -> None:
        self.loop, self.together = frames.loop, frames
        self._frames = frames
        self.place = place
        self.number = number
        self.size = size
        self.came_at = time.monotonic()

    def tell(self, request: CommitRequest[Receipt]) -> None:
        self._frames.tell(self, request)
