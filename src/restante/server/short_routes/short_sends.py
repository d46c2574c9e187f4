"""The short way of sends that share a request: `POST /v1/sends`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from restante.hub.door.short_sends import SendOutcomes, send_each_soon
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.model.access.access import Grant
from restante.server.connections.short_way import PlainHead
from restante.server.route_table import Route
from restante.server.routes import sends
from restante.server.routes.sends import SendsAnswer
from restante.server.short_routes.short_route import ShortRoute


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
