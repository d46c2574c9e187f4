"""Many small sends over one link, without input and output: what waits, what goes together, and who is told what.

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
- The hub is out of reach for longer than patience lasts: this send and all behind it fail, for else the order would not
  hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import accumulate, islice
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from restante import limits
from restante.client.transport.exchange import Dialogue
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
Deliver: TypeAlias = Callable[["Load[Any]"], Dialogue[Receipt]]
"""Carries a load to the hub; raises what came of it otherwise."""

Identify: TypeAlias = Callable[[list[Message]], list[Message]]
"""The same messages, each with an id, if the link cannot do without: it may have to repeat them."""

_SIZED = (bytes, str)
_OTHER_BYTES = 512
"""What a message takes beside its data, and data that is no text or bytes, about."""


class Posted(msgspec.Struct, Generic[Promise], eq=False, gc=False):
    """One send: its messages, and the promise that its sender holds. There are many, so the collector is spared them."""

    messages: tuple[Message, ...]
    promise: Promise
    number: int
    size: int
    batch: str | None = None
    """Whose items the messages become."""


class Load(msgspec.Struct, Generic[Promise], eq=False):
    """Sends that go together: what one frame carries."""

    posted: list[Posted[Promise]]
    messages: list[Message]
    batch: str | None = None
    content: Any = None
    """The messages as the link sends them, once they have been encoded."""

    @property
    def sent(self) -> Few | Many:
        """What is published of it."""
        return few_or_many(self.messages)


class Pipelining(Generic[Promise]):
    """The sends of one pipeline. `resolve` keeps a promise, `identify` gives ids to messages that have none.

    Where threads share it, each call holds `lock`, but for `prepare`, which takes it.
    """

    def __init__(
        self,
        resolve: Callable[[Promise, Outcome], None],
        identify: Identify,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._resolve = resolve
        self._identify = identify
        self._lock = nullcontext() if lock is None else lock
        self._waiting: deque[Posted[Promise]] = deque()
        self._under_way: Load[Promise] | None = None
        self._prepared: Load[Promise] | None = None
        self._next_number = 0
        self._portion = limits.FRAME_MESSAGES_MAX
        self.messages = 0
        """Sent, and not answered yet."""
        self.size = 0
        """About how many bytes they are."""
        self.closed = False
        """Nothing more may be sent."""

    @property
    def full(self) -> bool:
        return self.messages >= limits.PIPELINE_MESSAGES_MAX or self.size >= limits.PIPELINE_BYTES_MAX

    @property
    def sent(self) -> int:
        """The number of the next send; all that were sent have lower ones."""
        return self._next_number

    @property
    def answered(self) -> int:
        """All sends with lower numbers have been answered."""
        for batch in (self._under_way, self._prepared):
            if batch is not None:
                return batch.posted[0].number
        return self._waiting[0].number if self._waiting else self._next_number

    @property
    def idle(self) -> bool:
        return not self._waiting and self._prepared is None

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
        self._waiting.append(Posted(messages, promise, self._next_number, size, batch))
        self._next_number += 1
        self.messages += len(messages)
        self.size += size

    def carrying(self, deliver: Deliver) -> Dialogue[None]:
        """Deliver what waits, frame by frame, until nothing does."""
        while not self.idle:
            load = self._under_way = self._prepared or self._take()
            self._prepared = None
            try:
                receipt = yield from deliver(load)
            except RestanteError as error:
                self._refused(load.posted, error)
            else:
                self._stored(load.posted, receipt)
            self._under_way = None

    def prepare(self, encode: Callable[[Load[Promise]], Any]) -> None:
        """Encode the next load, if there is one, while another is under way."""
        with self._lock:
            if self._prepared is not None or not self._waiting:
                return
            load = self._prepared = self._take()
        # What cannot be encoded is told when its turn comes.
        with suppress(RestanteError):
            load.content = encode(load)

    def abandon(self, error: RestanteError) -> None:
        """Nothing more will be delivered: whoever still waits is told."""
        self._put_back(self._under_way)
        self._under_way = None
        left = [*self._waiting]
        self._waiting.clear()
        for posted in left:
            self._answer(posted, error)

    def _take(self) -> Load[Promise]:
        """What goes into the next frame; at least one send, and all of one batch or of none."""
        frame: list[Posted[Promise]] = []
        batch = self._waiting[0].batch
        messages = size = 0
        while messages < self._portion and size < limits.FRAME_BYTES_TARGET:
            if not self._waiting or self._waiting[0].batch != batch:
                break
            posted = self._waiting.popleft()
            frame.append(posted)
            messages += len(posted.messages)
            size += posted.size
        return Load(frame, self._identified(frame), frame[0].batch)

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
        self._put_back(None)
        self._waiting.extendleft(reversed(frame))

    def _put_back(self, load: Load[Promise] | None) -> None:
        """What was taken waits again, in its place: the prepared one, and this one before it."""
        prepared, self._prepared = self._prepared, None
        for each in (prepared, load):
            if each is not None:
                self._waiting.extendleft(reversed(each.posted))

    def _answer(self, posted: Posted[Promise], outcome: Outcome) -> None:
        self.messages -= len(posted.messages)
        self.size -= posted.size
        self._resolve(posted.promise, outcome)


def messages_of(sent: object) -> tuple[Message, ...]:
    """What may be sent through a pipeline: a message, or a few that are stored together."""
    if isinstance(sent, Message):
        return (sent,)
    if not isinstance(sent, list | tuple) or not all(isinstance(message, Message) for message in sent):
        raise InvalidRequest("A pipeline takes a Message, or a list of them. Send tables with `producer.send`.")
    return tuple(sent)


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
