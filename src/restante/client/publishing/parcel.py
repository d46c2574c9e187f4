"""`Parcel`: messages for one partition that are published together, under consecutive numbers.

A parcel is open until it is sent. While it is being sent it is locked. It stays locked if it was published, or if its
outcome is unknown: then it keeps its numbers, and may be sent again, in this process or another one (`dump`,
`Parcel.load`). Only a clear refusal opens it again. A parcel is for one thread, or one task, at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import chain, count
from typing import Any, Self

import pyarrow as pa

from restante import limits
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.publishing.early_checks import (
    HEADER_BYTES,
    is_plain_recipient,
    refuse_faulty,
    size_of_message,
)
from restante.client.publishing.new_ids import identified_table, identify_messages, set_each
from restante.client.publishing.parcel_dump import Dumped, dumped, loaded, messages_of_table, stream_of
from restante.client.publishing.sendable import sendable, single_message
from restante.errors import InvalidOperation, InvalidRequest
from restante.model.columns.arrow_checks import size_of
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers, following
from restante.model.publishing.broadcast import Broadcast, spread
from restante.model.publishing.few_or_many import Few, Many, few_or_many
from restante.model.publishing.intake_arrow import as_table
from restante.model.publishing.message import Message


class Parcel:
    """Messages for one partition, published together or not at all."""

    __slots__ = (
        "_content",
        "_holds",
        "_made_ids",
        "_numbers",
        "_published",
        "_size",
        "_source",
        "_unheard",
        "_viewed",
        "batch",
        "max_size_in_bytes",
        "partition",
    )

    def __init__(
        self,
        partition: int | None = None,
        *,
        max_size_in_bytes: int | None = None,
        batch: BatchName | None = None,
    ) -> None:
        self.partition = partition
        self.batch = batch_id_of(batch)
        """The id of the batch that the messages become items of."""
        self.max_size_in_bytes = _checked_size(max_size_in_bytes)
        self._content: list[Message] | pa.Table = []
        self._source: object = None
        self._viewed: tuple[Message, ...] | None = None
        self._size = HEADER_BYTES
        self._numbers: ProducerNumbers | None = None
        self._made_ids = 0
        self._published = False
        self._unheard: Receipt | None = None
        self._holds: list[None] = []

    @classmethod
    def of(cls, sent: object, partition: int | None, batch: str | None = None) -> Self:
        """A parcel of what a caller sends in one call. Its size is not checked here, because the hub has its own limits."""
        own = cls(partition, batch=batch)
        own._source = sent = _spread(sendable(sent))
        if isinstance(sent, Message):
            own._content = [sent]
        elif isinstance(sent, str | bytes | bytearray):
            raise InvalidRequest(f"Send a Message, a sequence of them, or an Arrow table, not {type(sent).__name__}.")
        elif isinstance(sent, Sequence):
            own._content = _checked_messages(sent)
        else:
            own._content = as_table(sent)
        return own

    def try_add(self, given: object) -> bool:
        """Add a message if there is room; return whether it was added. Raises if the message can never be stored.

        ```python
        parcel = restante.Parcel(0)
        if not parcel.try_add({"recipient": "alice", "text": "hello"}):
            print("full")
        ```
        """
        if self.locked:
            raise InvalidOperation("The parcel is locked: it is being sent, or was. Make another one.")
        message = single_message(given)
        assert isinstance(self._content, list), "a parcel of columns is locked"
        own = size_of_message(message)
        if own > limits.LARGE_DATA_BYTES_MAX or not is_plain_recipient(message.recipient):
            refuse_faulty([message])
        if self._size + own > self.max_size_in_bytes:
            return False
        self._content.append(message)
        self._size += own
        return True

    def __len__(self) -> int:
        return len(self._content) if isinstance(self._content, list) else self._content.num_rows

    def __repr__(self) -> str:
        state = "published" if self._published else "locked" if self.locked else "open"
        return f"<Parcel of {len(self)} messages for partition {self.partition}: {state}>"

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages. Those of columns are made on first use."""
        if isinstance(self._content, list):
            return tuple(self._content)
        if self._viewed is None:
            self._viewed = messages_of_table(self._content)
            if self._published:
                self._show_numbers()
        return self._viewed

    @property
    def size_in_bytes(self) -> int:
        """The most bytes that the parcel takes on its way to the hub, without the frame around columns."""
        return self._size if isinstance(self._content, list) and self._source is None else self._measured()

    @property
    def starting_published_sequence_number(self) -> int | None:
        """The number of its first message, once the parcel is published."""
        return self._numbers.published_sequence if self._published and self._numbers is not None else None

    @property
    def published(self) -> bool:
        return self._published

    @property
    def locked(self) -> bool:
        """Whether nothing can be added, because the parcel is being sent, was sent, or consists of columns."""
        return bool(self._holds) or self._published or self._numbers is not None or not isinstance(self._content, list)

    def dump(self) -> bytes:
        """The parcel with its ids and numbers as bytes, to be kept where it survives a crash.

        ```python
        Path("parcel.bin").write_bytes(parcel.dump())
        ```
        """
        self.identify()
        return dumped(
            Dumped(
                partition=self.partition,
                max_size_in_bytes=self.max_size_in_bytes,
                numbers=self._numbers,
                ids_made=self.ids_made,
                published=self._published,
                unheard=self._unheard,
                messages=len(self),
                stream=stream_of(self._content),
                batch=self.batch,
            )
        )

    @classmethod
    def load(cls, content: bytes) -> Self:
        """Load a dumped parcel. It has the same numbers, and nothing can be added to it.

        ```python
        parcel = restante.Parcel.load(Path("parcel.bin").read_bytes())
        ```
        """
        kept, table = loaded(content)
        own = cls(kept.partition, max_size_in_bytes=kept.max_size_in_bytes, batch=kept.batch)
        own._content = table
        own._numbers, own._published, own._unheard = kept.numbers, kept.published, kept.unheard
        own._made_ids = len(own) if kept.ids_made else 0
        return own

    # For the producer that sends the parcel.

    @property
    def content(self) -> list[Message] | pa.Table:
        return self._content

    @property
    def sent(self) -> Few | Many:
        """The messages to publish."""
        return few_or_many(self._content)

    @property
    def numbers(self) -> ProducerNumbers | None:
        """The group, level and number under which the parcel is sent, set by the first attempt."""
        return self._numbers

    @property
    def ids_made(self) -> bool:
        """Whether all ids were made here, because the caller gave none."""
        return self._made_ids == len(self)

    @property
    def first(self) -> int:
        assert self._numbers is not None, "only a parcel with numbers has a first one"
        return self._numbers.published_sequence

    @property
    def end(self) -> int:
        """The number of its last message."""
        return following(self.first, len(self) - 1)

    def holds(self, sent: object) -> bool:
        """Whether these are the same message objects, or the same table object."""
        if isinstance(sent, Message):
            sent = (sent,)
        if not isinstance(sent, Sequence) or not isinstance(self._content, list):
            return self._source is not None and self._source is sent
        return len(sent) == len(self._content) and all(map(_is, sent, self._content))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the parcel while a sender waits for its turn or sends."""
        self._holds.append(None)
        try:
            yield
        finally:
            self._holds.pop()

    def check_unpublished(self) -> None:
        if self._published:
            raise InvalidOperation("The parcel is published already. Make another one.")

    def check_messages(self) -> None:
        """Raise if one of the messages was published under a number before."""
        if not isinstance(self._content, list):
            return
        numbers = [message.published_sequence_number for message in self._content]
        if numbers.count(None) < len(numbers):
            place, number = next((place, number) for place, number in enumerate(numbers) if number is not None)
            raise InvalidOperation(
                f"Message {place} is published already, under number {number}. Make another Message.", index=place
            )

    def identify(self, *, copied: bool = False) -> None:
        """Set ids on messages that have none, or on copies if the caller may send its own messages again as new ones."""
        if isinstance(self._content, list):
            if copied:
                self._content = [copy(message) if message.id is None else message for message in self._content]
            self._made_ids += identify_messages(self._content)
        else:
            self._content, made = identified_table(self._content)
            self._made_ids += made

    def give_numbers(self, numbers: ProducerNumbers) -> None:
        self._numbers = numbers

    def clear_numbers(self) -> None:
        """Note that the parcel was not stored, and may be sent again."""
        assert not self._published, "what is published keeps its numbers"
        self._numbers = None

    def set_published(self, unheard: Receipt | None = None) -> None:
        """Note that the parcel was stored. `unheard` is a receipt that its sender has not got yet."""
        self._published, self._unheard = True, unheard
        if self._numbers is not None:
            self._show_numbers()

    def take_unheard(self) -> Receipt | None:
        """Take the receipt that the sender never got; it is returned only once."""
        unheard, self._unheard = self._unheard, None
        return unheard

    def _show_numbers(self) -> None:
        messages = self._content if isinstance(self._content, list) else self._viewed or ()
        if self._numbers is not None:
            # Numbers wrap around to 0 after the largest.
            numbers = chain(range(self.first, limits.PUBLISHED_SEQUENCE_MAX + 1), count())
            set_each(messages, "published_sequence_number", numbers)

    def _measured(self) -> int:
        if isinstance(self._content, list):
            return HEADER_BYTES + sum(map(size_of_message, self._content))
        return HEADER_BYTES + size_of(self._content)


def _is(one: object, other: object) -> bool:
    return one is other


def _spread(sent: object) -> object:
    return spread((sent,)) if isinstance(sent, Broadcast) else spread(sent) if isinstance(sent, list | tuple) else sent


def _checked_messages(sent: Sequence[object]) -> list[Message]:
    messages: list[Any] = list(sent)
    if all(issubclass(kind, Message) for kind in set(map(type, messages))):
        return messages
    place = next(place for place, message in enumerate(messages) if not isinstance(message, Message))
    raise InvalidRequest(f"item {place} is of type {type(messages[place]).__name__}: each must be a Message")


def _checked_size(given: object) -> int:
    if given is None:
        return limits.PARCEL_BYTES_DEFAULT
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= limits.PARCEL_BYTES_MAX:
        raise InvalidRequest(f"max_size_in_bytes must be from 1 to {limits.PARCEL_BYTES_MAX}, not {given!r}.")
    return given
