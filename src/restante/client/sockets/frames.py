"""Frames of `WS /v1/publish` as dialogues: what a pipeline says over a network, without input and output."""

from __future__ import annotations

from functools import partial
from itertools import count
from math import ceil
from typing import Any

import msgspec
from msgspec import UNSET

from restante.client.publishing.pipeline_core import Load
from restante.client.transport.exchange import Dialogue, Failure, LinkFrame, LongWork, Reply, Response
from restante.client.transport.http_answers import expect, value_of
from restante.client.transport.options import Terms
from restante.client.transport.retries import answered
from restante.model.columns.few_ids import RANDOM_BYTES_PER_ID
from restante.model.columns.uuids import made_uuids, uuid_texts
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few
from restante.model.publishing.message import Message
from restante.wire.frames import FrameHeader, encode_frame
from restante.wire.media import PROBLEM
from restante.wire.publish import encode_publish

PATH = "/v1/publish"


class Framing:
    """The frames of one pipeline, numbered from 1."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._numbers = count(1)

    def identify(self, messages: list[Message]) -> list[Message]:
        """Ids for those that have none."""
        missing = [place for place, message in enumerate(messages) if message.id is None]
        if not missing:
            return messages
        random = self._terms.random(len(missing) * RANDOM_BYTES_PER_ID)
        ids = uuid_texts(made_uuids(len(missing), now_ms=self._terms.now_ms(), random=random))
        named = list(messages)
        for place, text in zip(missing, ids, strict=True):
            named[place] = msgspec.structs.replace(messages[place], id=text)
        return named

    def deliver(self, load: Load[Any]) -> Dialogue[Receipt]:
        """One frame, over as many connections as it takes. All have ids, so that a repetition does no harm."""
        if load.content is None:
            encode = partial(self.encode, load)
            load.content = encode() if isinstance(load.sent, Few) else (yield LongWork(encode))
        number, content = load.content
        frame = LinkFrame(content, self._terms.timeout)
        answer = yield from answered(self._terms, lambda _: frame, partial(_unwrapped, number))
        response = expect(answer.response, self._terms.address, 200)
        return value_of(response, Receipt, self._terms.address)

    def encode(self, load: Load[Any]) -> tuple[int, str | bytes]:
        """A frame and its number."""
        header = FrameHeader(number=next(self._numbers), batch=UNSET if load.batch is None else load.batch)
        content_type, body = encode_publish(load.sent, random=self._terms.random, now_ms=self._terms.now_ms())
        return header.number, encode_frame(header, content_type=content_type, body=body)


class _Envelope(msgspec.Struct, frozen=True):
    number: int | None = None
    problem: msgspec.Raw = msgspec.Raw()


class _Problem(msgspec.Struct, frozen=True):
    status: int
    retry_after: float | None = None


def _unwrapped(number: int, reply: Reply) -> Reply:
    """The answer to a frame as it would be over HTTP: a problem has its status, and says when to come again."""
    if isinstance(reply, Failure) or reply.status != 200:
        return reply
    try:
        envelope = msgspec.json.decode(reply.body, type=_Envelope)
        told = bytes(envelope.problem)
        if not told:
            return reply if envelope.number == number else Failure("another frame was answered", reached=True)
        problem = msgspec.json.decode(told, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Failure(f"its answer cannot be read: {error}", reached=True)
    headers = {"content-type": PROBLEM}
    if problem.retry_after is not None:
        headers["retry-after"] = str(ceil(problem.retry_after))
    return Response(problem.status, headers, memoryview(told))
