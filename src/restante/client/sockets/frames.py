"""The frames of `WS /v1/publish`, without I/O: encoding them, reading their answers, and sending them again."""

from __future__ import annotations

from functools import partial
from itertools import count
from math import ceil
from typing import Any

import msgspec
from msgspec import UNSET

from restante.calls.publishing import Publish
from restante.client.publishing.pipeline_core import Load
from restante.client.surface.arguments import check_batch_id
from restante.client.transport.exchange import Dialogue, Failure, LinkFrame, LongWork, Reply, Response
from restante.client.transport.http_answers import carried_out, expect, value_of
from restante.client.transport.options import Terms
from restante.client.transport.retries import answered
from restante.client.transport.unreachable import unreachable
from restante.decoders import json_decoder
from restante.errors import BodyTooLarge, InvalidRequest, OutcomeUnknown, PartitionUnknown
from restante.limits import PARTITIONS_MAX, SEND_BYTES_MAX
from restante.model.columns.uuids import made_uuids, uuid_texts
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import check_numbers
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many
from restante.model.publishing.message import Message
from restante.model.sources.source import check_source
from restante.model.uuid_text import RANDOM_BYTES_PER_ID, made_ids
from restante.wire.frames import FrameHeader, encode_frame
from restante.wire.media import JSON, PROBLEM
from restante.wire.publish import encode_publish

PATH = "/v1/publish"
_FEW_IDS = 8


class Framing:
    """The frames of one publish socket, numbered from 1 over all its connections."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._numbers = count(1)

    def frame(self, call: Publish) -> LinkFrame:
        """Encode a frame. It is checked first, because the hub cannot answer a frame that it cannot read."""
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
            source=UNSET if call.source is None else check_source(call.source),
            accept=UNSET if call.accept is None else call.accept,
        )
        content = encode_frame(header, content_type=encoded.content_type, body=encoded.body)
        return LinkFrame(header.number, content, self._terms.timeout)

    # For a pipeline: its loads are retried here.

    def _new_ids(self, count: int) -> list[str]:
        """Make ids: few one by one, because a column costs the same for few as for many."""
        terms = self._terms
        if count <= _FEW_IDS:
            return made_ids(count, terms.random, terms.now_ms())
        return uuid_texts(made_uuids(count, now_ms=terms.now_ms(), random=terms.random(count * RANDOM_BYTES_PER_ID)))

    def identify(self, messages: list[Message]) -> list[Message]:
        """The same messages, with ids for messages that have none."""
        missing = [place for place, message in enumerate(messages) if message.id is None]
        if not missing:
            return messages
        named = list(messages)
        for place, text in zip(missing, self._new_ids(len(missing)), strict=True):
            named[place] = msgspec.structs.replace(messages[place], id=text)
        return named

    def encode(self, load: Load[Any]) -> LinkFrame:
        return self.frame(Publish(load.sent, batch=load.batch))

    def deliver(self, load: Load[Any]) -> Dialogue[Receipt]:
        """Send a load in one frame, again over new connections if needed. All messages have ids, so repeating is safe."""
        if load.content is None:
            encode = partial(self.encode, load)
            load.content = encode() if is_small(load.sent) else (yield LongWork(encode))
        frame: LinkFrame = load.content
        answer = yield from answered(self._terms, lambda _: frame)
        response = expect(answer.response, self._terms.address, 200)
        return value_of(response, Receipt, self._terms.address)

    # For a producer, which counts its attempts itself.

    def receipt_of(self, reply: Reply) -> Receipt:
        """The receipt in the answer to a frame. Raises the hub's refusal if it sent one.

        Without an answer it raises `OutcomeUnknown` if the parcel may have been stored, else `Unavailable`.
        """
        address = self._terms.address
        if isinstance(reply, Response):
            return carried_out(expect(reply, address, 200), address, 200, Receipt)
        if not reply.reached:
            raise unreachable(address, reply.reason)
        advice = "The call may have been carried out; repeating it does no harm."
        raise OutcomeUnknown(f"The hub at {address.url} gave no answer: {reply.reason}. {advice}", address=address.url)


class UnreadableAnswer(Exception):
    """An answer that belongs to no frame, so that the connection is no longer reliable."""


class _Answer(msgspec.Struct, frozen=True):
    number: int | None = None
    accepted: int | None = None
    problem: msgspec.Raw = msgspec.Raw()


class _Problem(msgspec.Struct, frozen=True):
    status: int = 400
    retry_after: float | None = None
    detail: str = "and gave no reason"


_answers = json_decoder(_Answer)
_problems = json_decoder(_Problem)
_HEADERS = {"content-type": PROBLEM}


def read_answer(text: str | bytes) -> tuple[int, Response]:
    """The number of a frame, and its answer as over HTTP: a problem has its status and perhaps a `retry-after` header."""
    try:
        answer = _answers.decode(text)
        if answer.number is not None and answer.accepted is not None:
            return answer.number, Response(200, {}, memoryview(text.encode() if isinstance(text, str) else text))
        problem = _problems.decode(answer.problem)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableAnswer(f"its answer cannot be read: {error}") from error
    if answer.number is None:
        raise UnreadableAnswer(f"it answered without a number: {problem.detail}")
    later = {} if problem.retry_after is None else {"retry-after": str(ceil(problem.retry_after))}
    return answer.number, Response(problem.status, {**_HEADERS, **later}, memoryview(bytes(answer.problem)))


def is_small(sent: Few | Many | EncodedPublish) -> bool:
    """Whether encoding is quick enough for an event loop, or was done already as JSON, which only a few messages are."""
    return sent.content_type == JSON if isinstance(sent, EncodedPublish) else isinstance(sent, Few)


def lost(error: BaseException) -> Failure:
    """The failure for all frames of a connection that ended with this error."""
    if isinstance(error, UnreadableAnswer):
        return Failure(str(error), reached=True)
    return Failure(f"the connection was lost ({str(error) or type(error).__name__})", reached=True)


def _check_partition(partition: object) -> None:
    if partition is None:
        return
    if isinstance(partition, bool) or not isinstance(partition, int):
        raise InvalidRequest(f"A partition is a number, not {partition!r}.")
    if not 0 <= partition < PARTITIONS_MAX:
        raise PartitionUnknown(f"There is no partition {partition}: they go from 0 to {PARTITIONS_MAX - 1} at most.")
