"""Dialogues led by hand: what a call says to replies that a test has made up, without any network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from restante.client.nodes.hub_places import HubPlaces
from restante.client.transport.address import address_of
from restante.client.transport.exchange import (
    Dialogue,
    Failure,
    HttpRequest,
    LinkFrame,
    LongWork,
    Pause,
    Reply,
    Response,
)
from restante.client.transport.options import Retrying, Terms

T = TypeVar("T")

REFUSED = Failure("connection refused", reached=False)
SILENT = Failure("it took longer than 30 s", reached=True)


@dataclass
class Conversation:
    """Leads a dialogue: replies in turn, and notes what was asked. Time passes only in pauses, and as replies say."""

    replies: Sequence[Reply]
    retrying: Retrying = field(default_factory=Retrying)
    seconds_each: float = 0
    """How long each attempt takes."""
    requests: list[HttpRequest] = field(default_factory=list)
    frames: list[LinkFrame] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    now: float = 1_000.0

    @property
    def terms(self) -> Terms:
        address = address_of("http://hub.test:8470", token="secret-token")
        return Terms(
            address=address,
            places=HubPlaces((address,), lambda: self.now),
            timeout=30,
            retrying=self.retrying,
            clock=lambda: self.now,
            now_ms=lambda: 1_790_000_000_000,
            chance=lambda: 0.0,
            random=bytes,
            tell=self.words.append,
        )

    def lead(self, dialogue: Dialogue[T]) -> T:
        replies = iter(self.replies)
        reply: object = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration as done:
                assert next(replies, None) is None, "all replies were needed"
                answer: T = done.value
                return answer
            reply = self._reply(step, replies)

    def _reply(self, step: object, replies: Iterator[Reply]) -> object:
        if isinstance(step, LongWork):
            return step.function()
        if isinstance(step, Pause):
            self.pauses.append(step.seconds)
            self.now += step.seconds
            return None
        if isinstance(step, HttpRequest):
            self.requests.append(step)
        else:
            assert isinstance(step, LinkFrame)
            self.frames.append(step)
        self.now += self.seconds_each
        return next(replies)


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    content_type = {"content-type": "application/json"}
    return Response(status, {**content_type, **(headers or {})}, memoryview(msgspec.json.encode(value)))


def problem_response(status: int, code: str, *, retry_after: str | None = None, **more: object) -> Response:
    headers = {"content-type": "application/problem+json"}
    if retry_after is not None:
        headers["retry-after"] = retry_after
    body = {"status": status, "code": code, "detail": f"It is {code}.", **more}
    return Response(status, headers, memoryview(msgspec.json.encode(body)))
