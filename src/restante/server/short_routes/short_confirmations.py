"""The short ways of dequeues and small acknowledgements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from restante.calls.mailboxes import Dequeue
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.model.access.access import Grant
from restante.model.batches.batch_answers import Acknowledged
from restante.model.mailboxes.answers import Dequeued
from restante.server.connections.short_way import PlainHead
from restante.server.route_table import Route
from restante.server.routes import acknowledgements, mailboxes
from restante.server.short_routes.short_route import GivenHeaders, ShortRoute

_PATH = re.compile(rb"/v1/recipients/([A-Za-z0-9_~-][A-Za-z0-9._~-]*)/bundles/([0-9A-Fa-f-]{36})")
"""Matches plain names. Names that are percent-encoded, or that a proxy might change, are left to the application."""
_NO_BODY = (None, b"0")


class ShortDequeue(ShortRoute[Dequeued]):
    """A dequeue. It takes no room, because connections have few pending answers, and the committer bounds its queue."""

    route: ClassVar[Route] = mailboxes.DEQUEUE
    status: ClassVar[int] = 200
    takes_room: ClassVar[bool] = False
    recurs: ClassVar[bool] = False
    is_of_recipient: ClassVar[bool] = True

    def place(self, url: bytes) -> tuple[str, ...] | None:
        found = _PATH.fullmatch(url)
        return None if found is None else (found[1].decode(), found[2].decode())

    def size(self, given: GivenHeaders) -> int | None:
        return 0 if given.get(b"content-length") in _NO_BODY and b"content-type" not in given else None

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[Dequeued]) -> bool:  # noqa: ARG002
        self.desk.hub.dequeue_soon(Dequeue(*head.place), listener)
        return True

    def count(self, answers: Sequence[Dequeued], seconds: Sequence[float]) -> None:  # noqa: ARG002  # only publishes are timed
        self.desk.metrics.collected.add(sum([answer.messages for answer in answers]))


class ShortAcknowledge(ShortRoute[Acknowledged]):
    """An acknowledgement with one call in its body. Bodies with several calls are left to the application."""

    route: ClassVar[Route] = acknowledgements.ACKNOWLEDGE
    status: ClassVar[int] = 200
    finishes: ClassVar[bool] = True

    def place(self, url: bytes) -> tuple[str, ...] | None:
        return () if url == b"/v1/acknowledgements" else None

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[Acknowledged]) -> bool:  # noqa: ARG002  # its body says all
        call = acknowledgements.single_call(body)
        if call is None:
            return False
        self.desk.own_of(grant).hub.acknowledge_soon(call, (listener,))
        return True

    def count(self, answers: Sequence[Acknowledged], seconds: Sequence[float]) -> None:
        """Nothing: batches count acknowledgements themselves."""

    def is_unfinished(self, request: CommitRequest[Acknowledged]) -> bool:
        return self.desk.hub.is_to_be_finished(request)

    def finish(self, request: CommitRequest[Acknowledged]) -> Acknowledged:
        return self.desk.hub.finish(request)
