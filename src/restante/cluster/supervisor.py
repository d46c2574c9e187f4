"""The supervisor: starts the processes of a hub, starts them again when they die, and ends them in order.

Each child is a program of its own (started by exec). It is given its order over a pipe, which it goes on reading: when the
supervisor dies, however that happens, the pipe ends, and so does the child.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from restante.cluster.shard_folders import ShardTable, note_failure, shard_folder
from restante.decoders import packed_decoder
from restante.errors import Unavailable
from restante.model.back_off import back_off
from restante.settings import Settings

_log = logging.getLogger("restante.cluster")

RELEASE = b"r"
"""Said to a child: the end is near. Callers that wait are let go of."""
READY = b"ready\n"
_START_SECONDS = 120.0
_AGAIN_SECONDS = 0.2
_AGAIN_MAX_SECONDS = 5.0
_ORDER_LENGTH_BYTES = 4


class ChildOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The orders for a child: what it is, and all that it needs to know."""

    kind: str
    """`shard` or `door`."""
    number: int
    home: str
    """The data folder."""
    settings: Settings
    places: tuple[tuple[tuple[str, ...], str], ...]
    table: ShardTable
    url: str
    listener: int = -1
    """The socket on which clients come to a door."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"


def encode_order(order: ChildOrder) -> bytes:
    content = msgspec.msgpack.encode(order)
    return len(content).to_bytes(_ORDER_LENGTH_BYTES, "big") + content


def read_order(read: Callable[[int], bytes]) -> ChildOrder:
    """The order, from the pipe."""
    length = int.from_bytes(read(_ORDER_LENGTH_BYTES), "big")
    return packed_decoder(ChildOrder).decode(read(length))


class ChildProcess:
    """One process, which is started again when it dies."""

    def __init__(self, order: ChildOrder, module: str) -> None:
        self.order = order
        self._module = module
        self._note(None)
        self._process: Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.ending = False

    async def start(self) -> None:
        """Return when it serves; raise what it says if it does not."""
        listener = self.order.listener
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", self._module, self.order.name),  # The name is for `ps`: the order comes over the pipe.
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=() if listener < 0 else (listener,),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(encode_order(self.order))
        try:
            async with asyncio.timeout(_START_SECONDS):
                said = await self._process.stdout.readline()
        except TimeoutError:
            self._process.kill()
            said = b"it did not start in time"
        if said != READY:
            await self._process.wait()
            raise Unavailable(
                f"{self.order.name} did not start: {said.decode(errors='replace').strip() or 'see the log'}"
            )

    def keep(self) -> None:
        """Start the process again whenever it dies, from now on."""
        self._keeping = asyncio.ensure_future(self._keep())

    async def _keep(self) -> None:
        failures = 0
        while True:
            assert self._process is not None
            code = await self._process.wait()
            if self.ending:
                return
            _log.error("%s ended (%s) and is started again", self.order.name, code)
            try:
                await self.start()
                failures = 0
                self._note(None)
            except Unavailable as error:
                _log.error("%s", error.message)
                self._note(error.message)
                failures += 1
                await asyncio.sleep(back_off(failures, first=_AGAIN_SECONDS, longest=_AGAIN_MAX_SECONDS))

    def _note(self, failure: str | None) -> None:
        """Note it for the doors, which tell it to operators."""
        if self.order.kind == "shard":
            note_failure(shard_folder(Path(self.order.home), self.order.number, self.order.table.epoch), failure)

    def release(self) -> None:
        self.ending = True
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):
                self._process.stdin.write(RELEASE)

    async def end(self, seconds: float) -> None:
        """Close the pipe, which ends it, and wait; in the end without asking."""
        self.ending = True
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
        except TimeoutError:
            _log.warning("%s does not end, and is killed", self.order.name)
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._keeping is not None:
            self._keeping.cancel()


class Supervisor:
    """All processes of a hub: shards first, then doors; ended the other way round."""

    def __init__(self, shards: Sequence[ChildOrder], doors: Sequence[ChildOrder], module: str, seconds: float) -> None:
        self.shards = [ChildProcess(order, module) for order in shards]
        self.doors = [ChildProcess(order, module) for order in doors]
        self._seconds = seconds
        """How long a child may take to end."""

    async def start(self) -> None:
        try:
            for some in (self.shards, self.doors):
                await asyncio.gather(*(child.start() for child in some))
        except BaseException:
            await self.end()
            raise
        for child in (*self.shards, *self.doors):
            child.keep()

    async def end(self) -> None:
        for child in (*self.doors, *self.shards):
            child.release()
        for some in (self.doors, self.shards):
            await asyncio.gather(*(child.end(self._seconds) for child in some))
