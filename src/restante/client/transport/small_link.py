"""`SmallLink`, for one small call. It does not import Arrow, so that a command that sends one message starts quickly."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from restante.calls.mailboxes import Explain
from restante.client.transport.http_carrier_sync import HttpCarrier
from restante.client.transport.small_protocol import explain, publish_encoded
from restante.model.backplane.accept import Accept
from restante.model.mailboxes.answers import Explanation, Receipt
from restante.model.publishing.few_or_many import EncodedPublish
from restante.model.publishing.message import Message
from restante.wire.publish_json import Making, encode_few


class SmallLink(HttpCarrier):
    """A link that speaks JSON only. Use it in a `with` statement, or close it."""

    def encode(self, message: Message) -> EncodedPublish | None:
        """The body that `publish` sends; None for a message that needs columns, and so an `HttpLink`."""
        return encode_few((message,), Making(self._terms.random, self._terms.now_ms()))

    def publish(self, sent: EncodedPublish, *, batch: str | None = None, accept: Accept | None = None) -> Receipt:
        return self._run(publish_encoded(self._terms, sent, batch=batch, accept=accept))

    def call(self, call: Explain) -> Explanation:
        return self._run(explain(self._terms, call))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
