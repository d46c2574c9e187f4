"""The table of the routes that have a short way."""

from __future__ import annotations

from restante.server.access.web_access import WebAccess
from restante.server.connections.short_way import ShortWay
from restante.server.desk import Desk
from restante.server.short_routes.short_acknowledge import ShortAcknowledge
from restante.server.short_routes.short_actions import ShortAction, ShortReport
from restante.server.short_routes.short_dequeue import ShortDequeue
from restante.server.short_routes.short_publish import ShortParcel, ShortPublish


class ShortRoutes:
    """Finds the short way of a request by its method and path."""

    def __init__(self, desk: Desk, web: WebAccess) -> None:
        self._posts: dict[bytes, ShortWay] = {
            b"/v1/messages": ShortPublish(desk, web),
            b"/v1/acknowledgements": ShortAcknowledge(desk, web),
        }
        self._begun: tuple[tuple[bytes, ShortWay], ...] = (
            (b"/v1/partitions/", ShortParcel(desk, web)),
            (b"/v1/actions/", ShortAction(desk, web)),
            (b"/v1/groups/", ShortReport(desk, web)),
        )
        self._dequeue = ShortDequeue(desk, web)

    def find(self, method: bytes, url: bytes) -> ShortWay | None:
        """The way that a request may go, as far as its first line says; None if there is none."""
        if method == b"POST":
            return self._posts.get(url) or next((way for start, way in self._begun if url.startswith(start)), None)
        return self._dequeue if method == b"DELETE" else None
