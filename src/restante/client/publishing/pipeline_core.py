"""The sends of a pipeline, without input and output: what waits, what goes together in a frame, and which send gets what answer.

Everything sent while a frame is under way goes into the next one, so frames grow with the load. One frame is under way
at a time: were there two, and the first were refused for one bad message, the second would be stored before what is
left of the first. So messages are stored in the order in which they were sent, whatever happens. While the hub is at
work, the next frame is prepared, and the senders of the last one are told.

A frame is answered as a whole. Its sends are told apart again as far as the answer allows:

- All of it was new, or all of it was stored before: each send gets a receipt of its own.
- Some of it was stored before: the hub says how many, not which. Each send gets the receipt of the whole frame.
- Messages were refused, by their index: their sends get the error, and the others are sent again.
- Their batch takes nothing more: all sends of the frame get the error, for a frame is of one batch.
- The frame as a whole was refused: it is halved until it is known which sends are not to be had.
- The hub is out of reach for longer than patience lasts: this send and all after it fail, for else the order would not
  hold.
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
Outcome: TypeAlias = Receipt | RestanteError
Identify: TypeAlias = Callable[[list[Message]], list[Message]]
"""The same messages, each with an id, if the link cannot do without: it may have to repeat them."""

_SIZED = (bytes, str)
_OTHER_BYTES = 512
"""The bytes that a message takes beside its data, and data that is no text or bytes, about."""


class Posted(msgspec.Struct, Generic[Promise], eq=False, gc=False):
    """One send: its messages, and the promise that its sender holds. There are many, so the collector is spared them."""

    messages: tuple[Message, ...]
    promise: Promise
    number: int
    size: int
    batch: str | None = None
    """The batch whose items the messages become."""


class Load(msgspec.Struct, Generic[Promise], eq=False):
    """Sends that go together: what one frame carries."""

    posted: list[Posted[Promise]]
    messages: list[Message]
    batch: str | None = None
    content: Any = None
    """The messages as the link sends them, once they have been encoded."""

    @property
    def sent(self) -> Few | Many:
        """The messages to publish."""
        return few_or_many(self.messages)


class Pipelining(SendQueue[Posted[Promise]]):
    """The sends of one pipeline. `resolve` keeps a promise, `identify` gives ids to messages that have none."""

    def __init__(self, resolve: Callable[[Promise, Outcome], None], identify: Identify) -> None:
        super().__init__()
        self._resolve = resolve
        self._identify = identify
        self._under_way: Load[Promise] | None = None
        self._prepared: Load[Promise] | None = None
        self._portion = limits.FRAME_MESSAGES_MAX
        self.messages = 0
        """Sent, and not answered yet."""
        self.size = 0
        """About how many bytes the sends are."""
        self.closed = False
        """Whether nothing more may be sent."""
        self.aborted = False
        """Whether nothing more is delivered: what waits is to be abandoned."""

    @property
    def full(self) -> bool:
        return self.messages >= limits.PIPELINE_MESSAGES_MAX or self.size >= limits.PIPELINE_BYTES_MAX

    @property
    def answered(self) -> int:
        """All sends with lower numbers have been answered. `taken` is the number of the next send."""
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
        """A load is due as soon as anything waits and no other is under way."""
        return None if self.idle or self.aborted or self._under_way is not None else 0

    def take(self) -> Load[Promise]:
        """The next load: what was prepared, or else what waits."""
        load = self._under_way = self._prepared or self._gathered()
        self._prepared = None
        return load

    def prepare(self) -> Load[Promise] | None:
        """The load after the one that is under way, if there is one and it is new: it can be encoded ahead."""
        if self._prepared is not None or not self.waiting:
            return None
        self._prepared = self._gathered()
        return self._prepared

    def settle(self, load: Load[Promise], outcome: Outcome) -> None:
        """Answer the sends of the load that was under way, as far as the outcome says; the others are sent again."""
        if isinstance(outcome, RestanteError):
            self._refused(load.posted, outcome)
        else:
            self._stored(load.posted, outcome)
        self._under_way = None

    def abandon(self, error: RestanteError) -> None:
        """Give all sends without an answer this error: nothing more will be delivered."""
        self._again([] if self._under_way is None else self._under_way.posted)
        self._under_way = None
        left = [*self.waiting]
        self.waiting.clear()
        for posted in left:
            self._answer(posted, error)

    def _gathered(self) -> Load[Promise]:
        """The sends that go into the next frame; at least one, and all of one batch or of none."""
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
        """The messages of a frame. Their ids stay, should they have to be sent again in another one."""
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
        """Put back what was taken, in its place: the load that was prepared, and these sends before it."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            self.put_back(prepared.posted)
        self.put_back(frame)

    def _answer(self, posted: Posted[Promise], outcome: Outcome) -> None:
        self.messages -= len(posted.messages)
        self.size -= posted.size
        self._resolve(posted.promise, outcome)


def messages_of(sent: object) -> tuple[Message, ...]:
    """The messages of a send through a pipeline: one, or a few that are stored together."""
    if isinstance(sent, Message):
        return (sent,)
    taken = few_sendable(sent)
    if taken is None:
        raise InvalidRequest("A pipeline takes a Message, or a list of them. Send tables with `producer.send`.")
    return taken


def receipts_of(counts: Sequence[int], receipt: Receipt) -> list[Receipt]:
    """The receipt of each send of a frame, given how many messages each had."""
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
    """All in one partition: the numbers of a publish are contiguous, in the order sent."""
    own = PartitionReceipt(partition=partition, first_sequence_number=first, last_sequence_number=first + count - 1)
    return Receipt(accepted=count, duplicates=0, partitions=(own,) if count else ())


def faults_of(counts: Sequence[int], error: RestanteError) -> dict[int, FaultyMessages]:
    """The error of each send that has refused messages, by its place in the frame."""
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
    """About how many bytes a message is; enough to bound what is held, and each frame."""
    data = message.data
    return len(data) + _OTHER_BYTES if type(data) in _SIZED else _OTHER_BYTES
