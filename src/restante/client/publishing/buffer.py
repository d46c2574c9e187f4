"""`Buffering` gathers single messages into parcels, without I/O: what waits, what goes next, and what callbacks are told.

Each partition has a tray. Messages are put on its open stack. A full stack waits in line, and another is begun. A tray is
due when a stack waits in line, when its oldest message has waited long enough, when a caller flushes or waits for room, or
when all its messages are to fail. Due trays take turns, and only one stack of a tray is under way at a time. So the messages
of a partition, and thus of a recipient, are stored in the order in which they were put in.

What must stay true: `messages` and `size` count the messages that take room, from `_put` until their outcome is known. A
tray's `settled` counts messages whose outcome callbacks have been told. Messages of a stack are added only when all of them
have been told, so `settled` marks a position in the tray's order. All stacks wait equally long, so the queue of deadlines
is sorted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from restante.client.publishing.buffer_bounds import BufferBounds, dropped, is_closed
from restante.client.publishing.buffer_intake import Admitted
from restante.client.publishing.early_checks import HEADER_BYTES
from restante.client.publishing.new_ids import identify_messages
from restante.client.publishing.parcel import Parcel
from restante.client.sending.send_queue import SendQueue
from restante.errors import FaultyMessages, ProducerDisconnected, RestanteError
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import refusal


class Tray(SendQueue["Stack"]):
    """The messages of one partition. Full stacks, and the rest of partly refused ones, wait; they go before the open one."""

    __slots__ = ("busy", "fenced", "open", "opened", "overdue", "partition", "queued")

    def __init__(self, partition: int) -> None:
        super().__init__()
        self.partition = partition
        self.open: Stack | None = None
        self.opened = 0
        """How many stacks have been begun."""
        self.overdue = False
        """Whether the open stack has waited long enough."""
        self.busy = False
        """Whether a stack is under way."""
        self.queued = False
        """Whether the tray is in `Buffering.due`."""
        self.fenced: ProducerDisconnected | None = None
        """Set when another producer has taken over, so that nothing can be sent any more."""


class Stack(msgspec.Struct, eq=False):
    """Messages that go together in one parcel."""

    tray: Tray
    messages: list[Message]
    sizes: list[int]
    """The size of each message when it was taken in."""
    size: int = 0
    told: int = 0
    """How many messages were removed from the stack because callbacks have been told of their refusal."""
    failing: RestanteError | None = None
    """The error to tell instead of sending the messages, if set."""
    parcel: Parcel | None = None


class Told(NamedTuple):
    """Messages with a known outcome: `error` says why they were refused, and is None if they are stored."""

    messages: list[Message]
    partition: int
    error: RestanteError | None


class Buffering:
    """The trays of one producer. Threads that share it must hold their lock for every call."""

    def __init__(self, bounds: BufferBounds, clock: Callable[[], float]) -> None:
        self._bounds = bounds
        self._stack_bytes_max = bounds.max_parcel_bytes - HEADER_BYTES
        self._clock = clock
        self._trays: dict[int, Tray] = {}
        self._deadlines: deque[tuple[float, Tray, int]] = deque()
        self.due: deque[Tray] = deque()
        """The trays that are due, in the order of their turns."""
        self.messages = 0
        """How many messages were taken and have no known outcome."""
        self.size = 0
        """Estimated bytes of these messages."""
        self.unsettled = 0
        """How many messages were taken and have no reported outcome."""
        self.closed = False
        """Whether the buffer takes nothing more."""
        self.dropping: RestanteError | None = None
        """The error to tell instead of sending more."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do, and nothing more will come."""
        return self.closed and not self.unsettled

    def count(self, partition: int | None = None) -> int:
        """How many messages were taken and are not settled, in total or for one partition."""
        if partition is None:
            return self.unsettled
        tray = self._trays.get(partition)
        return 0 if tray is None else tray.taken - tray.settled

    def takes(self, admitted: Admitted) -> bool:
        """Take all messages in if there is room for them; return whether there was."""
        count, bounds = len(admitted.messages), self._bounds
        if self.messages + count > bounds.max_buffer_length or self.size + admitted.size > bounds.max_buffer_bytes:
            self.check_open()
            return False
        self.take_in(admitted)
        return True

    def take_in(self, admitted: Admitted) -> None:
        """Take messages in, whether or not there is room."""
        self.check_open()
        for message, partition, size in zip(admitted.messages, admitted.partitions, admitted.sizes, strict=True):
            self._put(message, partition, size)

    def check_open(self) -> None:
        if self.closed:
            raise is_closed()

    def next_deadline(self) -> float | None:
        """When the next open stack will have waited long enough."""
        while self._deadlines:
            moment, tray, opened = self._deadlines[0]
            if tray.open is not None and tray.opened == opened:
                return moment
            self._deadlines.popleft()
        return None

    def wait(self, now: float) -> float | None:
        """Seconds until a tray is due. Trays whose stack has waited long enough by now become due."""
        while (moment := self.next_deadline()) is not None and moment <= now:
            _, tray, _ = self._deadlines.popleft()
            tray.overdue = True
            self._call(tray)
        if self.due:
            return 0
        return None if moment is None else moment - now

    def take(self) -> Stack:
        """Take the stack whose turn it is. It is under way until it is settled."""
        tray = self.due.popleft()
        tray.queued, tray.busy = False, True
        failing = tray.fenced or self.dropping
        if failing is not None:
            return self._all_of(tray, failing)
        if not tray.waiting:
            self._close_stack(tray)
        return tray.waiting.popleft()

    def conclude(self, stack: Stack, error: RestanteError | None) -> Told:
        """Record the outcome of a stack; return the messages to report. If only some are at fault, the others go again."""
        if isinstance(error, ProducerDisconnected):
            stack.tray.fenced = error
        faulty = _faulty(stack.messages, error)
        told = Told(stack.messages, stack.tray.partition, error)
        size = stack.size
        if 0 < len(faulty) < len(stack.messages):
            told = self._put_back(stack, faulty, error)
            size -= stack.size
        self.messages -= len(told.messages)
        self.size -= size
        return told

    def settle(self, stack: Stack) -> None:
        """Note that callbacks have been told about a stack, so that its tray may have its next turn."""
        tray = stack.tray
        if not (tray.waiting and tray.waiting[0] is stack):
            count = len(stack.messages) + stack.told
            tray.settled += count
            self.unsettled -= count
        tray.busy = False
        self._call(tray)

    def hurry(self) -> None:
        """Send everything without waiting for more, because a caller flushes or needs room."""
        for tray in self._trays.values():
            tray.hurry()
            self._call(tray)

    def flushing(self) -> dict[Tray, int]:
        """Send everything without waiting for more; return the value that each tray's `settled` must reach for that."""
        self.hurry()
        return {tray: tray.taken for tray in self._trays.values() if tray.settled < tray.taken}

    def close(self, *, flush: bool) -> None:
        """Take nothing more, and send the rest, or report that it will not be sent."""
        self.closed = True
        if not flush and self.dropping is None:
            self.dropping = dropped()
        self.hurry()

    def _put(self, message: Message, partition: int, size: int) -> None:
        tray = self._trays.get(partition)
        if tray is None:
            tray = self._trays[partition] = Tray(partition)
        stack = tray.open
        if stack is None or stack.size + size > self._stack_bytes_max:
            stack = self._begin(tray)
        stack.messages.append(message)
        stack.sizes.append(size)
        stack.size += size
        tray.taken += 1
        self.messages += 1
        self.size += size
        self.unsettled += 1
        if len(stack.messages) >= self._bounds.max_parcel_messages:
            self._close_stack(tray)
            self._call(tray)

    def _begin(self, tray: Tray) -> Stack:
        """Begin a stack. It waits for more messages, except in a tray that is to fail."""
        if tray.open is not None:
            self._close_stack(tray)
        stack = tray.open = Stack(tray, [], [])
        tray.opened += 1
        tray.overdue = tray.fenced is not None or not self._bounds.max_wait_time
        if not tray.overdue:
            self._deadlines.append((self._clock() + self._bounds.max_wait_time, tray, tray.opened))
        self._call(tray)
        return stack

    def _close_stack(self, tray: Tray) -> None:
        assert tray.open is not None, "there is a stack to close"
        tray.waiting.append(tray.open)
        tray.open, tray.overdue = None, False

    def _call(self, tray: Tray) -> None:
        """Add a tray to `due` if it is due and not there already."""
        if tray.busy or tray.queued or not (tray.waiting or self._is_due(tray)):
            return
        tray.queued = True
        self.due.append(tray)

    def _is_due(self, tray: Tray) -> bool:
        """Whether the open stack must not wait any longer."""
        if tray.open is None:
            return False
        return tray.overdue or tray.fenced is not None or tray.urgent > tray.taken - len(tray.open.messages)

    def _all_of(self, tray: Tray, failing: RestanteError) -> Stack:
        """All messages of a tray as one stack that is to fail."""
        if tray.open is not None:
            self._close_stack(tray)
        stacks = [*tray.waiting]
        tray.waiting.clear()
        messages = [message for stack in stacks for message in stack.messages]
        sizes = [size for stack in stacks for size in stack.sizes]
        told = sum(stack.told for stack in stacks)
        return Stack(tray, messages, sizes, size=sum(sizes), told=told, failing=failing)

    def _put_back(self, stack: Stack, faulty: list[int], error: RestanteError | None) -> Told:
        """Separate the messages at fault from the others, which become the first stack of their tray again."""
        apart = set(faulty)
        refused = [stack.messages[place] for place in faulty]
        stack.messages = [message for place, message in enumerate(stack.messages) if place not in apart]
        stack.sizes = [size for place, size in enumerate(stack.sizes) if place not in apart]
        stack.size = sum(stack.sizes)
        stack.told += len(refused)
        stack.parcel = None
        stack.tray.put_back((stack,))
        assert isinstance(error, FaultyMessages), "only these name messages"
        return Told(refused, stack.tray.partition, _own_refusal(faulty, error))


def parcel_of(stack: Stack, batch: str | None = None) -> Parcel:
    """The parcel of a stack: the same one each time until its outcome is known.

    Ids are set on the messages themselves. So a message that is enqueued twice, or again after a failure, is stored once. A
    message that was published under a number before goes as a copy, under a new number.
    """
    if stack.parcel is None:
        distinct = {id(message): message for message in stack.messages}
        identify_messages([*distinct.values()])
        messages = [_unnumbered(message) for message in stack.messages]
        stack.parcel = Parcel.of(messages, stack.tray.partition, batch)
    return stack.parcel


def is_rebuilt(stack: Stack) -> bool:
    """Drop the parcel if some of its messages turned out to be published already; return whether it was dropped.

    These messages were enqueued again after an unknown outcome that has just become known. They may go again as copies;
    their ids make sure that they are stored once.
    """
    parcel = stack.parcel
    if parcel is None or parcel.published:
        return False
    if all(message.published_sequence_number is None for message in parcel.messages):
        return False
    stack.parcel = None
    return True


def _unnumbered(message: Message) -> Message:
    if message.published_sequence_number is None:
        return message
    return msgspec.structs.replace(message, published_sequence_number=None)


def is_settled(places: dict[Tray, int]) -> bool:
    """Whether every tray has settled up to its value."""
    return all(tray.settled >= place for tray, place in places.items())


def _faulty(messages: list[Message], error: RestanteError | None) -> list[int]:
    """The indices of the messages at fault, ascending."""
    if not isinstance(error, FaultyMessages):
        return []
    return sorted({fault.index for fault in error.faults if 0 <= fault.index < len(messages)})


def _own_refusal(faulty: list[int], error: FaultyMessages) -> FaultyMessages:
    """The same faults, with indices counted among the faulty messages."""
    place_of = {index: place for place, index in enumerate(faulty)}
    own = [fault for fault in error.faults if fault.index in place_of]
    return refusal([msgspec.structs.replace(fault, index=place_of[fault.index]) for fault in own])
