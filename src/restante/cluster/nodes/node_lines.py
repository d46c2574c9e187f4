"""The ways from one node to all shards: its own are asked without a connection."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from restante.calls.call import Answer, Call
from restante.cluster.call_frames import FrameKind
from restante.cluster.call_line import CallLine, Hearer
from restante.cluster.call_server import answer_call
from restante.cluster.call_values import PublishLetters, encode_answer, encode_error, letters_of
from restante.cluster.nodes.handshake import Purpose
from restante.cluster.nodes.shard_seats import ShardSeats, places_of
from restante.cluster.shard_lines import ShardLines, is_silent
from restante.errors import NotOwner, OutcomeUnknown, RestanteError, StoreConflict, Unavailable
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.limits import SHARD_PATIENCE_SECONDS
from restante.model.access.access import EVERYTHING, Grant
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.letters import messages_of_letters
from restante.model.shards.ranges import Ranges
from restante.ports.carrier import Silent

_CARRY_SECONDS = 0.6 * SHARD_PATIENCE_SECONDS


class NodeLine(CallLine):
    """The way to one shard, here or elsewhere."""

    def __init__(self, seats: ShardSeats, shard: int) -> None:
        super().__init__(places_of(seats, Purpose.CALLS)[shard], f"Shard {shard}")
        self._seats = seats
        self._shard = shard

    async def call(self, call: Call[Answer], caller: Grant = EVERYTHING) -> Answer:
        own = self._seats.own.get(self._shard)
        if own is None:
            return await super().call(call, caller)
        answer: Answer = await answer_call(own.link, call, caller)
        return answer

    @property
    def is_open(self) -> bool:
        return self._shard in self._seats.own or super().is_open

    def ask_for(self, hearer: Hearer, call: Call[Any], caller: Grant) -> bool:
        own = self._seats.own.get(self._shard)
        if own is None:
            return super().ask_for(hearer, call, caller)
        if not isinstance(call, PublishLetters) or own.link.hub.crowded:
            return False
        letters, told = letters_of(call), _Told(hearer, asyncio.get_running_loop())
        read = partial(messages_of_letters, letters)
        own.link.hub.publish_letters_soon(letters, read, told, caller, call.partition, call.producer)
        return True


class _Told(Listener[Receipt]):
    """Tells who asked what became of a publish to a shard here."""

    __slots__ = ("_hearer", "loop")

    def __init__(self, hearer: Hearer, loop: asyncio.AbstractEventLoop) -> None:
        self._hearer = hearer
        self.loop = loop

    def tell(self, request: CommitRequest[Receipt]) -> None:
        try:
            self._hearer.heard(FrameKind.ANSWER, encode_answer(request.answer()))
        except RestanteError as error:
            self._hearer.heard(FrameKind.PROBLEM, encode_error(error))


class NodeLines(ShardLines):
    """Used in one event loop."""

    def __init__(self, seats: ShardSeats) -> None:
        lines = [NodeLine(seats, shard) for shard in range(len(seats.ranges))]
        self._lead(seats.ranges, lines, places_of(seats, Purpose.REQUESTS))
        self._seats = seats

    def goes_on(self, error: RestanteError) -> bool:
        """Whether a call goes on elsewhere: a node that lost the shard says so, and the store who has it now."""
        ended = isinstance(error, NotOwner) and "partition" not in error.details
        moved = ended or isinstance(error, StoreConflict)
        if moved or is_silent(error):
            self._seats.look()
        return moved or is_silent(error)

    def away(self, shard: int, error: RestanteError) -> RestanteError:
        """A caller may reach the owner although this node does not."""
        return self._seats.ask_owner(shard, error.message)


class NodeCarrier:
    """Calls of the shards here to one another and to those elsewhere, from whichever thread."""

    def __init__(self, lines: ShardLines, loop: asyncio.AbstractEventLoop) -> None:
        self._lines = lines
        self._loop = loop

    def ranges(self) -> Ranges:
        return self._lines.ranges

    def carry(self, partition: int, call: Call[Answer]) -> Answer:
        line = self._lines.lines[self._lines.of_partition(partition)]
        carrying = asyncio.run_coroutine_threadsafe(line.call(call), self._loop)
        try:
            return carrying.result(_CARRY_SECONDS)
        except TimeoutError as error:
            carrying.cancel()
            raise Silent(f"{line.name} did not answer within {_CARRY_SECONDS:g} s.") from error
        except Unavailable as error:
            if type(error) in (Unavailable, OutcomeUnknown):
                raise Silent(error.message) from error
            raise
