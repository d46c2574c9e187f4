"""The short way of small acknowledgements."""

from __future__ import annotations

from typing import ClassVar

from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.model.access.access import Grant
from restante.model.batches.batch_answers import Acknowledged
from restante.server.connections.short_way import PlainHead
from restante.server.route_table import Route
from restante.server.routes import acknowledgements
from restante.server.short_routes.short_route import GivenHeaders, ShortRoute, small_json_length


class ShortAcknowledge(ShortRoute[Acknowledged]):
    """One call of a body; several in one body are left to the application."""

    route: ClassVar[Route] = acknowledgements.ACKNOWLEDGE
    status: ClassVar[int] = 200
    finishes: ClassVar[bool] = True

    def place(self, url: bytes) -> tuple[str, ...] | None:
        return () if url == b"/v1/acknowledgements" else None

    def size(self, given: GivenHeaders) -> int | None:
        return small_json_length(given)

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[Acknowledged]) -> bool:  # noqa: ARG002  # its body says all
        call = acknowledgements.single_call(body)
        if call is None:
            return False
        self.desk.own_of(grant).hub.acknowledge_soon(call, (listener,))
        return True

    def count(self, request: CommitRequest[Acknowledged], seconds: float) -> None:
        """The batches count it themselves."""

    def is_unfinished(self, request: CommitRequest[Acknowledged]) -> bool:
        return self.desk.hub.is_to_be_finished(request)

    def finish(self, request: CommitRequest[Acknowledged]) -> Acknowledged:
        return self.desk.hub.finish(request)
