"""`Pipelining`, the core of a pipeline without I/O: what waits, what shares a frame, and which answer each send gets.

Everything sent while a frame is under way goes into the next one, so frames grow with the load. Only one frame is under way
at a time. With two, if the first were refused for one bad message, the second would be stored before the rest of the first.
So messages are always stored in the order in which they were sent. While the hub works on a frame, the next one is
prepared, and the senders of the last one get their answers.

A frame is answered as a whole. Each send gets its own answer as far as that allows:

- All messages were new, or all were stored before: each send gets its own receipt.
- Some messages were stored before: the hub says how many, but not which. Each send gets the receipt of the whole frame.
- Messages were refused by index: their sends get the error, and the others are sent again.
- The batch takes nothing more: all sends of the frame get the error, because a frame has one batch.
- The frame was refused as a whole: it is halved until the refused sends are found.
- The hub stays unreachable after all retries: the sends of the frame and all later ones fail, to keep the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from restante import limits
from restante.client.publishing.sendable import few_sendable
from restante.client.sending.send_queue import SendQueue
from restante.errors import (
    BatchSealed,
    BatchUnknown,
    Fault,
    FaultyMessages,
    InvalidMessage,
    InvalidRequest,
    MessageConflict,
    MessageErased,
    Overloaded,
    PartitionMismatch,
    RestanteError,
    Unavailable,
)
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.publishing.few_or_many import Few, Many, few_or_many
from restante.model.publishing.message import Message

Promise = TypeVar("Promise")
SendOutcome: TypeAlias = Receipt | RestanteError
Identify: TypeAlias = Callable[[list[Message]], list[Message]]
"""A function that returns the same messages, with ids if the link may have to repeat them."""

_SIZED = (bytes, str)
_OTHER_BYTES = 512
"""Estimated bytes of a message besides its data, and of data that is neither text nor bytes."""


class Posted(msgspec.Struct, Generic[Promise], eq=False, gc=False):
    """One send: its messages, and the promise that its sender holds. Untracked by the garbage collector, as there are many."""

    messages: tuple[Message, ...]
    promise: Promise
    number: int
    size: int
    batch: str | None = None
    """The batch that the messages become items of."""


class Load(msgspec.Struct, Generic[Promise], eq=False):
    """The sends in one frame."""

    posted: list[Posted[Promise]]
    messages: list[Message]
    batch: str | None = None
    content: Any = None
    """The messages as the link sends them, once encoded."""

    @property
    def sent(self) -> Few | Many:
        """The messages to publish."""
        return few_or_many(self.messages)


class Pipelining(SendQueue[Posted[Promise]]):
    """The sends of one pipeline. `resolve` fulfils a promise; `identify` gives ids to messages that have none."""

    def __init__(self, resolve: Callable[[Promise, SendOutcome], None], identify: Identify) -> None:
        super().__init__()
        self._resolve = resolve
        self._identify = identify
        self._under_way: Load[Promise] | None = None
        self._prepared: Load[Promise] | None = None
        self._portion = limits.FRAME_MESSAGES_MAX
        self.messages = 0
        """How many messages are sent and not answered."""
        self.size = 0
        """Estimated bytes of these messages."""
        self.closed = False
        """Whether nothing more may be sent."""
        self.aborted = False
        """Whether nothing more is delivered, and waiting sends are to be abandoned."""

    @property
    def full(self) -> bool:
        return self.messages >= limits.PIPELINE_MESSAGES_MAX or self.size >= limits.PIPELINE_BYTES_MAX

    @property
    def answered(self) -> int:
        """The number below which all sends have been answered. `taken` is the number of the next send."""
        for load in (self._under_way, self._prepared):
            if load is not None:
                return load.posted[0].number
        return self.waiting[0].number if self.waiting else self.taken

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be delivered."""
        return not self.waiting and self._prepared is None

    @property
    def finished(self) -> bool:
        return self.closed and self._under_way is None and (self.idle or self.aborted)

    def add(self, sent: object, promise: Promise, batch: str | None = None) -> None:
        if self.closed:
            raise Unavailable("The pipeline has been closed.")
        if self.full:
            raise Overloaded(
                f"{self.messages} messages of this pipeline wait for their answers. Wait for some of them first: "
                "`await pipeline.room()`.",
                retry_after=0,
            )
        messages = messages_of(sent)
        size = sum(map(size_of, messages)) if len(messages) != 1 else size_of(messages[0])
        self.waiting.append(Posted(messages, promise, self.taken, size, batch))
        self.taken += 1
        self.messages += len(messages)
        self.size += size

    def wait(self, now: float) -> float | None:  # noqa: ARG002 - nothing waits for more
        """0, so that a load is due at once, if anything waits and no load is under way; else None."""
        return None if self.idle or self.aborted or self._under_way is not None else 0

    def take(self) -> Load[Promise]:
        """Take the next load: the prepared one, or else one of waiting sends."""
        load = self._under_way = self._prepared or self._gathered()
        self._prepared = None
        return load

    def prepare(self) -> Load[Promise] | None:
        """Prepare the load after the one under way, to be encoded ahead; None if there is none or it is prepared already."""
        if self._prepared is not None or not self.waiting:
            return None
        self._prepared = self._gathered()
        return self._prepared

    def settle(self, load: Load[Promise], outcome: SendOutcome) -> None:
        """Answer the sends of the load under way as far as its outcome decides; the others are sent again."""
        if isinstance(outcome, RestanteError):
            self._refused(load.posted, outcome)
        else:
            self._stored(load.posted, outcome)
        self._under_way = None

    def abandon(self, error: RestanteError) -> None:
        """Fail all unanswered sends with this error, because nothing more will be delivered."""
        self._again([] if self._under_way is None else self._under_way.posted)
        self._under_way = None
        left = [*self.waiting]
        self.waiting.clear()
        for posted in left:
            self._answer(posted, error)

    def _gathered(self) -> Load[Promise]:
        """The load of the next frame: at least one send, all of the same batch or of none."""
        batch = self.waiting[0].batch
        count = messages = size = 0
        for posted in self.waiting:
            if messages >= self._portion or size >= limits.FRAME_BYTES_TARGET or posted.batch != batch:
                break
            count += 1
            messages += len(posted.messages)
            size += posted.size
        frame = self.take_first(count)
        return Load(frame, self._identified(frame), batch)

    def _identified(self, frame: Sequence[Posted[Promise]]) -> list[Message]:
        """The messages of a frame, with ids that they keep if they must be sent again in another frame."""
        given = [message for posted in frame for message in posted.messages]
        messages = self._identify(given)
        if messages is not given:
            named = iter(messages)
            for posted in frame:
                posted.messages = tuple(islice(named, len(posted.messages)))
        return messages

    def _stored(self, frame: Sequence[Posted[Promise]], receipt: Receipt) -> None:
        self._portion = limits.FRAME_MESSAGES_MAX
        counts = [len(posted.messages) for posted in frame]
        self.messages -= sum(counts)
        self.size -= sum([posted.size for posted in frame])
        for posted, own in zip(frame, receipts_of(counts, receipt), strict=True):
            self._resolve(posted.promise, own)

    def _refused(self, frame: list[Posted[Promise]], error: RestanteError) -> None:
        faults = faults_of([len(posted.messages) for posted in frame], error)
        if isinstance(error, Unavailable):
            self.abandon(error)
        elif faults:
            self._again([posted for index, posted in enumerate(frame) if index not in faults])
            for index, own in faults.items():
                self._answer(frame[index], own)
        elif len(frame) == 1 or isinstance(error, BatchUnknown | BatchSealed):
            for posted in frame:
                self._answer(posted, error)
        else:
            self._portion = max(sum(len(posted.messages) for posted in frame) // 2, 1)
            self._again(frame)

    def _again(self, frame: Sequence[Posted[Promise]]) -> None:
        """Put these sends back at the front, and before that the prepared load, which comes after them."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            self.put_back(prepared.posted)
        self.put_back(frame)

    def _answer(self, posted: Posted[Promise], outcome: SendOutcome) -> None:
        self.messages -= len(posted.messages)
        self.size -= posted.size
        self._resolve(posted.promise, outcome)


def messages_of(sent: object) -> tuple[Message, ...]:
    """The messages of one send through a pipeline, which are stored together."""
    if isinstance(sent, Message):
        return (sent,)
    taken = few_sendable(sent)
    if taken is None:
        raise InvalidRequest("A pipeline takes a Message, or a list of them. Send tables with `producer.send`.")
    return taken


def receipts_of(counts: Sequence[int], receipt: Receipt) -> list[Receipt]:
    """The receipt of each send of a frame. `counts` has the number of messages of each."""
    if len(counts) == 1:
        return [receipt]
    if receipt.accepted and receipt.duplicates:
        return [receipt] * len(counts)
    if receipt.duplicates:
        return [Receipt(accepted=0, duplicates=count, partitions=()) for count in counts]
    if len(receipt.partitions) != 1:
        known = {count: Receipt(accepted=count, duplicates=0, partitions=()) for count in set(counts)}
        return [known[count] for count in counts]
    (whole,) = receipt.partitions
    ends = accumulate(counts, initial=whole.first_sequence_number)
    return [_numbered(whole.partition, first, count) for first, count in zip(ends, counts, strict=False)]


def _numbered(partition: int, first: int, count: int) -> Receipt:
    """The receipt of a send whose messages are in one partition. Numbers of a publish are contiguous, in the order sent."""
    own = PartitionReceipt(partition=partition, first_sequence_number=first, last_sequence_number=first + count - 1)
    return Receipt(accepted=count, duplicates=0, partitions=(own,) if count else ())


def faults_of(counts: Sequence[int], error: RestanteError) -> dict[int, FaultyMessages]:
    """The error of each send that has refused messages, by its index in the frame."""
    if not isinstance(error, FaultyMessages):
        return {}
    place_of = [place for place, count in enumerate(counts) for _ in range(count)]
    starts = list(accumulate(counts, initial=0))
    found: dict[int, list[Fault]] = {}
    for fault in error.faults:
        if 0 <= fault.index < len(place_of):
            place = place_of[fault.index]
            own = msgspec.structs.replace(fault, index=fault.index - starts[place])
            found.setdefault(place, []).append(own)
    return {place: _refusal(faults) for place, faults in found.items()}


_KINDS = {kind.code: kind for kind in (MessageConflict, MessageErased, PartitionMismatch)}


def _refusal(faults: Sequence[Fault]) -> FaultyMessages:
    codes = {fault.code for fault in faults}
    kind = _KINDS.get(codes.pop(), InvalidMessage) if len(codes) == 1 else InvalidMessage
    first = faults[0]
    named = f" ({first.id})" if first.id else ""
    return kind(f"The message cannot be stored: number {first.index}{named}: {first.detail}", faults)


def size_of(message: Message) -> int:
    """Estimated bytes of a message, accurate enough to bound memory and frames."""
    data = message.data
    return len(data) + _OTHER_BYTES if type(data) in _SIZED else _OTHER_BYTES
