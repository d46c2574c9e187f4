"""`CallServer`: a shard answers calls that other processes carry to it, over a socket that only its owner may open."""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from restante.calls.call import Call
from restante.calls.publishing import Publish
from restante.cluster.call_frames import FrameConnection, FrameKind
from restante.cluster.call_values import (
    PublishLetters,
    decode_call,
    encode_answer,
    encode_error,
    letters_of,
)
from restante.cluster.places import short_path
from restante.errors import Internal, RestanteError
from restante.hub.door.in_process import InProcess
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import EncodedPublish, few_or_many
from restante.model.publishing.letters import messages_of_letters
from restante.wire.incoming.incoming import decode_messages

_log = logging.getLogger("restante.cluster")
_LOOP_BODY_BYTES = 32 * 1024
"""A longer body is read in a thread."""


class CallServer:
    """Listens on the path of a socket until it is closed."""

    def __init__(self, link: InProcess, path: Path) -> None:
        self._link = link
        self._path = path
        self._server: asyncio.Server | None = None
        self._connections = CallConnections()

    async def start(self) -> None:
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            made = partial(CallAnswers, self._link, self._connections)
            self._server = await asyncio.get_running_loop().create_unix_server(made, short_path(self._path))
        finally:
            os.umask(before)

    def close(self) -> None:
        """Cut all connections, those too that were just accepted and are made in the next turns of the event loop."""
        if self._server is not None:
            self._server.close()
        self._connections.cut()
        self._path.unlink(missing_ok=True)


class CallConnections:
    """The connections of those who ask. Once they are cut, who comes later is cut at once."""

    def __init__(self) -> None:
        self._open: set[CallAnswers] = set()
        self._are_cut = False

    def enter(self, connection: CallAnswers) -> None:
        self._open.add(connection)
        if self._are_cut:
            connection.abort()

    def leave(self, connection: CallAnswers) -> None:
        self._open.discard(connection)

    def cut(self) -> None:
        self._are_cut = True
        for connection in tuple(self._open):
            connection.abort()

    def close(self) -> None:
        """Close each when what it was answered has left."""
        for connection in tuple(self._open):
            connection.close()


class CallAnswers(FrameConnection):
    """One connection over which another process makes calls."""

    def __init__(self, link: InProcess, connections: CallConnections) -> None:
        super().__init__()
        self._link = link
        self._connections = connections
        self._tasks: set[asyncio.Task[None]] = set()
        self._waits: dict[int, asyncio.Task[None]] = {}
        """Calls that wait for something, by their numbers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own signature
        self._connections.leave(self)

    def took(self, number: int, kind: FrameKind, content: bytes) -> None:
        if kind is FrameKind.CANCEL and number in self._waits:
            self._waits[number].cancel()
        if kind is not FrameKind.CALL:
            return
        try:
            call, caller = decode_call(content)
            if isinstance(call, PublishLetters) and not self._link.hub.crowded:
                self._publish(number, call, caller)
                return
        except RestanteError as error:
            self.refuse(number, error)
            return
        task = self._loop.create_task(self._answer(number, call, caller))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if getattr(call, "wait", 0) > 0:
            self._waits[number] = task
            task.add_done_callback(lambda _: self._waits.pop(number, None))

    def _publish(self, number: int, call: PublishLetters, caller: Grant) -> None:
        """Few messages go to the committer as they come, without a task for each."""
        letters = letters_of(call)
        read, listener = partial(messages_of_letters, letters), _Stored(self, number, self._loop)
        self._link.hub.publish_letters_soon(letters, read, listener, caller, call.partition, call.producer)

    async def _answer(self, number: int, call: Call[Any], caller: Grant) -> None:
        try:
            self.put(number, FrameKind.ANSWER, encode_answer(await answer_call(self._link, call, caller)))
        except RestanteError as error:
            self.refuse(number, error)
        except Exception:  # noqa: BLE001  # whatever it is, who asked gets an answer, and the log the rest
            self.fail(number)

    def refuse(self, number: int, error: RestanteError) -> None:
        self.put(number, FrameKind.PROBLEM, encode_error(error))

    def fail(self, number: int) -> None:
        _log.exception("A call failed.")
        self.refuse(number, Internal("The hub failed. The log of its shard has more."))


async def answer_call(link: InProcess, call: Call[Any], caller: Grant) -> Any:  # noqa: ANN401 - what the call answers
    """Have a hub of this process answer a call as it is carried."""
    if isinstance(call, PublishLetters) and not link.hub.crowded:
        letters = letters_of(call)
        future: asyncio.Future[CommitRequest[Receipt]] = asyncio.get_running_loop().create_future()
        read = partial(messages_of_letters, letters)
        link.hub.publish_letters_soon(letters, read, future, caller, call.partition, call.producer)
        return (await future).answer()
    return await link.on_behalf_of(caller).call(await _plain(link, call))


async def _plain(link: InProcess, call: Call[Any]) -> Call[Any]:
    """The call as the hub takes it."""
    if isinstance(call, PublishLetters):
        return Publish(few_or_many(messages_of_letters(letters_of(call))), call.partition, call.producer)
    body = getattr(call, "sent", None)
    if not isinstance(body, EncodedPublish):
        return call
    read = partial(decode_messages, body.body, content_type=body.content_type, headers={})
    sent = read() if len(body.body) <= _LOOP_BODY_BYTES else await link.thread(read)
    whole: Call[Any] = msgspec.structs.replace(call, sent=few_or_many(sent))
    return whole


class _Stored(Listener[Receipt]):
    """Sends the answer of a publish when it is committed."""

    __slots__ = ("_answers", "_number", "loop")

    def __init__(self, answers: CallAnswers, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._answers = answers
        self._number = number
        self.loop = loop

    def tell(self, request: CommitRequest[Receipt]) -> None:
        try:
            self._answers.put(self._number, FrameKind.ANSWER, encode_answer(request.answer()))
        except RestanteError as error:
            self._answers.refuse(self._number, error)
        except Exception:  # noqa: BLE001  # whatever it is, who asked gets an answer, and the log the rest
            self._answers.fail(self._number)
