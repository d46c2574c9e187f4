"""The intake of a buffered producer determines the partition and the size of each message, once.

It looks only at the recipient, which decides the partition, and at the size. All else is judged when a parcel is sent. If
one of the two looks wrong, the rules of the model decide whether it is, and make the error.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from restante import limits
from restante.client.publishing.buffer_bounds import BufferBounds
from restante.client.publishing.early_checks import HEADER_BYTES, is_plain_recipient, refuse_faulty, size_of_message
from restante.client.publishing.sendable import few_sendable
from restante.errors import Fault, InvalidMessage, InvalidRequest
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import refusal
from restante.model.storage.partition import partition_of


class Admitted(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Messages that may be taken in, with the partition and the largest possible size of each."""

    messages: Sequence[Message]
    partitions: Sequence[int]
    sizes: Sequence[int]
    size: int


class BufferAdmission:
    """Computes partitions and sizes, and refuses messages that never fit."""

    def __init__(self, partition_count: int, bounds: BufferBounds) -> None:
        self._partition_count = partition_count
        self._bounds = bounds
        self._size_max = bounds.max_parcel_bytes - HEADER_BYTES
        self._usual_max = min(self._size_max, limits.LARGE_DATA_BYTES_MAX, bounds.max_buffer_bytes)
        self._known: dict[str, int] = {}

    def admit(self, sent: object) -> Admitted:
        """Admit a message or a list of them. Raises if one can never be sent, or together they exceed the buffer."""
        if isinstance(sent, Message):
            try:
                size = size_of_message(sent)
                partition = self._known[sent.recipient]
            except (InvalidRequest, KeyError, TypeError):
                pass
            else:
                if size <= self._usual_max:
                    return Admitted((sent,), (partition,), (size,), size)
            sent = (sent,)
        return self._admit_all(_messages_of(sent))

    def _admit_all(self, messages: Sequence[Message]) -> Admitted:
        try:
            sizes = [size_of_message(message) for message in messages]
        except InvalidRequest:
            refuse_faulty(messages)
            raise
        if max(sizes, default=0) > self._usual_max:
            refuse_faulty(messages)
            self._check_sizes(messages, sizes)
        partitions = [self._partition_of(message, messages) for message in messages]
        admitted = Admitted(messages, partitions, sizes, sum(sizes))
        self._check_fits(admitted)
        return admitted

    def _partition_of(self, message: Message, messages: Sequence[Message]) -> int:
        try:
            known = self._known.get(message.recipient)
        except TypeError:
            known = None
        if known is None:
            if not is_plain_recipient(message.recipient):
                refuse_faulty(messages)
            if len(self._known) >= limits.ADDRESSES_REMEMBERED_MAX:
                self._known.clear()
            known = self._known[message.recipient] = partition_of(message.recipient, self._partition_count)
        return known

    def _check_sizes(self, messages: Sequence[Message], sizes: Sequence[int]) -> None:
        faults = [
            Fault(
                index=place,
                code=InvalidMessage.code,
                field="data",
                id=messages[place].id,
                detail=f"the message takes {size} bytes, and a parcel has room for {self._size_max}: "
                "raise max_parcel_bytes, or send it as a claim check",
            )
            for place, size in enumerate(sizes)
            if size > self._size_max
        ]
        if faults:
            raise refusal(faults)

    def _check_fits(self, admitted: Admitted) -> None:
        count, size, bounds = len(admitted.messages), admitted.size, self._bounds
        if count > bounds.max_buffer_length or size > bounds.max_buffer_bytes:
            raise InvalidRequest(
                f"{count} messages of {size} bytes are more than the buffer ever holds: {bounds.max_buffer_length} "
                f"messages, {bounds.max_buffer_bytes} bytes. Enqueue fewer at a time."
            )


def _messages_of(sent: object) -> Sequence[Message]:
    taken = few_sendable(sent)
    if taken is None:
        raise InvalidRequest(
            f"A buffered producer takes a Message, or a list of them, not {type(sent).__name__}. Send tables with "
            "`ProducerClient.send_messages`."
        )
    return taken
