"""What both links of many frames share, without input and output: numbers, and who gets which answer.

One web socket carries the frames of many callers. A frame has a number that no other frame of the link ever has, and its
answer comes back by it, in any order. Whoever stops waiting leaves the number behind: the hub still works on it, so the
frame takes room until it is answered, and nobody gets the answer.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from restante.calls.publishing import Publish
from restante.client.surface.arguments import check_batch_id
from restante.client.transport.address import HubAddress
from restante.client.transport.options import Terms
from restante.errors import BodyTooLarge, InvalidRequest, OutcomeUnknown, PartitionUnknown, RestanteError, Unavailable
from restante.limits import LINK_FRAMES_MAX, PARTITIONS_MAX, SEND_BYTES_MAX
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import check_numbers
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many
from restante.wire.frames import FrameHeader, encode_frame
from restante.wire.media import JSON
from restante.wire.problems import error_of
from restante.wire.publish import encode_publish

Promise = TypeVar("Promise")
Outcome = Receipt | RestanteError


class NumberedFrame(NamedTuple):
    number: int
    content: str | bytes


class Numbering:
    """The frames of one link, over however many connections, numbered from 1."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._numbers = count(1)

    def frame(self, call: Publish) -> NumberedFrame:
        """All that can be wrong with it alone is found here: a frame that the hub cannot read has no answer."""
        partition, producer, batch = call.partition, call.producer, call.batch
        _check_partition(partition)
        if producer is not None:
            check_numbers(producer)
        if batch is not None:
            check_batch_id(batch)
        encoded = encode_publish(call.sent, random=self._terms.random, now_ms=self._terms.now_ms())
        if len(encoded.body) > SEND_BYTES_MAX:
            raise BodyTooLarge(
                f"A send is at most {SEND_BYTES_MAX} bytes. Send in several parts.", limit=SEND_BYTES_MAX
            )
        header = FrameHeader(
            number=next(self._numbers),
            partition=UNSET if partition is None else partition,
            producer=UNSET if producer is None else producer,
            batch=UNSET if batch is None else batch,
        )
        return NumberedFrame(header.number, encode_frame(header, content_type=encoded.content_type, body=encoded.body))


class UnderWay(Generic[Promise]):
    """The frames of one connection that are not answered yet, and what was promised to those who wait."""

    def __init__(self) -> None:
        self._promises: dict[int, Promise | None] = {}
        self.answers = 0
        """How many came. A connection over which none comes any more is not to be trusted."""
        self.ended = False

    @property
    def full(self) -> bool:
        return len(self._promises) >= LINK_FRAMES_MAX

    @property
    def empty(self) -> bool:
        return not self._promises

    @property
    def anybody_waits(self) -> bool:
        """Whether anybody waits for an answer."""
        return any(promise is not None for promise in self._promises.values())

    def put(self, number: int, promise: Promise) -> None:
        assert not self.full, "a caller waits for room first"
        assert not self.ended, "nothing is sent over a lost connection"
        self._promises[number] = promise

    def answered(self, number: int) -> Promise | None:
        """Who waits for this answer, if anybody does."""
        self.answers += 1
        return self._promises.pop(number, None)

    def forget(self, number: int) -> None:
        """Nobody waits for it any more."""
        if number in self._promises:
            self._promises[number] = None

    def withdraw(self, number: int) -> None:
        """It was not sent after all."""
        self._promises.pop(number, None)

    def end(self) -> list[Promise]:
        """The connection is lost: those who wait, who all get no answer."""
        self.ended = True
        waiting = [promise for promise in self._promises.values() if promise is not None]
        self._promises.clear()
        return waiting


class UnreadableAnswer(Exception):
    """What came is no answer to a frame, so nothing that comes over this connection can be relied on."""


class _Answer(msgspec.Struct, frozen=True):
    number: int | None = None
    problem: dict[str, Any] | None = None


_answers = msgspec.json.Decoder(_Answer)
_receipts = msgspec.json.Decoder(Receipt)


def read_answer(text: str | bytes) -> tuple[int, Outcome]:
    """The number of a frame, and what became of it."""
    try:
        answer = _answers.decode(text)
        if answer.number is None:
            raise UnreadableAnswer(_without_number(answer.problem))
        if answer.problem is not None:
            return answer.number, error_of(answer.problem)
        return answer.number, _receipts.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableAnswer(f"its answer cannot be read: {error}") from error


def is_small(sent: Few | Many | EncodedPublish) -> bool:
    """Whether to encode it takes so little time that an event loop can do it. A few messages are encoded as JSON."""
    return sent.content_type == JSON if isinstance(sent, EncodedPublish) else isinstance(sent, Few)


def unanswered(address: HubAddress, reason: str) -> OutcomeUnknown:
    advice = "It may have been carried out; to do it again does no harm."
    return OutcomeUnknown(f"The hub at {address.url} gave no answer: {reason}. {advice}", address=address.url)


def crowded(address: HubAddress) -> Unavailable:
    return Unavailable(
        f"The link to the hub at {address.url} had no room in time: other sends are under way. Nothing of this one was "
        "sent. Try again later.",
        address=address.url,
    )


def too_long(terms: Terms) -> str:
    return f"it took longer than {terms.timeout:g} s"


def told(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _check_partition(partition: object) -> None:
    if partition is None:
        return
    if isinstance(partition, bool) or not isinstance(partition, int):
        raise InvalidRequest(f"A partition is a number, not {partition!r}.")
    if not 0 <= partition < PARTITIONS_MAX:
        raise PartitionUnknown(
            f"There is no partition {partition}: partitions go from 0 to {PARTITIONS_MAX - 1} at most."
        )


def _without_number(problem: dict[str, Any] | None) -> str:
    return f"it answered without a number: {(problem or {}).get('detail', 'and gave no reason')}"
