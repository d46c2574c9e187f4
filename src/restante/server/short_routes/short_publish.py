"""The short ways of small publishes: `POST /v1/messages`, sends that share a request, and parcels of one partition, numbered or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from restante.calls.publishing import Publish
from restante.hub.door.short_sends import SendOutcomes, send_each_soon
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import Few, few_or_many
from restante.server.connections.short_way import PlainHead
from restante.server.requests.producer_numbers import NUMBER_HEADERS, SEQUENCE_HEADER, plain_numbers
from restante.server.route_table import Route
from restante.server.routes import publishing, sends
from restante.server.routes.sends import SendsAnswer
from restante.server.short_routes.short_route import (
    SPECIAL_HEADERS,
    ShortRoute,
)
from restante.wire.incoming.incoming_json import decode_json
from restante.wire.incoming.plain_json import plain_letters, plain_messages

_PARCELS = re.compile(rb"/v1/partitions/([0-9]{1,9})/parcels")


class ShortPublish(ShortRoute[Receipt]):
    """A small publish to the partitions of its recipients."""

    route: ClassVar[Route] = publishing.PUBLISH
    status: ClassVar[int] = 201
    answers_together: ClassVar[bool] = True

    def place(self, url: bytes) -> tuple[str, ...] | None:
        return () if url == b"/v1/messages" else None

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[Receipt]) -> bool:  # noqa: ARG002
        return self.publish(grant, body, listener)

    def count(self, answers: Sequence[Receipt], seconds: Sequence[float]) -> None:
        publishing.count_stored(self.desk, *answers)
        self.desk.metrics.publish(*seconds)

    def publish(
        self,
        grant: Grant,
        body: bytes,
        listener: Listener[Receipt],
        partition: int | None = None,
        numbers: ProducerNumbers | None = None,
    ) -> bool:
        """Submit the messages of a body; return False if the application must take it."""
        letters = plain_letters(body)
        if letters is not None:
            read = partial(plain_messages, body)
            self.desk.hub.publish_letters_soon(letters, read, listener, grant, partition, numbers)
            return True
        sent = few_or_many(decode_json(body))
        if not isinstance(sent, Few):
            return False
        self.desk.own_of(grant).hub.publish_soon(Publish(sent, partition, numbers), listener)
        return True


class ShortParcel(ShortPublish):
    """A small publish to one partition, with or without the numbers of a producer."""

    route: ClassVar[Route] = publishing.PUBLISH_PARCEL
    special: ClassVar[frozenset[bytes]] = SPECIAL_HEADERS - NUMBER_HEADERS
    counts: ClassVar[bytes] = SEQUENCE_HEADER

    def place(self, url: bytes) -> tuple[str, ...] | None:
        found = _PARCELS.fullmatch(url)
        return None if found is None else (found[1].decode(),)

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[Receipt]) -> bool:
        numbers = plain_numbers(head.given)
        if numbers is None and not NUMBER_HEADERS.isdisjoint(head.given):
            return False
        return self.publish(grant, body, listener, int(head.place[0]), numbers)


class ShortSends(ShortRoute[SendOutcomes]):
    """Several small sends, all plainly valid. Each is stored or refused as if it had come alone."""

    route: ClassVar[Route] = sends.PUBLISH_EACH
    status: ClassVar[int] = 200
    recurs: ClassVar[bool] = False

    def place(self, url: bytes) -> tuple[str, ...] | None:
        return () if url == b"/v1/sends" else None

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[SendOutcomes]) -> bool:  # noqa: ARG002
        plain = sends.plain_sends(body)
        return plain is not None and send_each_soon(self.desk.hub, plain, grant, listener)

    def shown(self, request: CommitRequest[SendOutcomes], own_id: str) -> SendsAnswer:
        return sends.answered(request.answer(), own_id)

    def count(self, answers: Sequence[SendOutcomes], seconds: Sequence[float]) -> None:
        for outcomes, took in zip(answers, seconds, strict=True):
            sends.count_sends(self.desk, outcomes, took)
