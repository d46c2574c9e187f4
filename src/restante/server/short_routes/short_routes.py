"""The table of the routes that have a short way."""

from __future__ import annotations

from restante.server.access.web_access import WebAccess
from restante.server.connections.short_way import ShortWay
from restante.server.desk import Desk
from restante.server.short_routes.short_actions import ShortAction, ShortJointReport, ShortReport
from restante.server.short_routes.short_confirmations import ShortAcknowledge, ShortDequeue
from restante.server.short_routes.short_publish import ShortParcel, ShortPublish, ShortSends

_GROUPS, _PARTITIONS = b"/v1/groups/", b"/partitions/"


class ShortRoutes:
    """Finds the short way of a request by its method and path."""

    def __init__(self, desk: Desk, web: WebAccess) -> None:
        self._posts: dict[bytes, ShortWay] = {
            b"/v1/messages": ShortPublish(desk, web),
            b"/v1/sends": ShortSends(desk, web),
            b"/v1/acknowledgements": ShortAcknowledge(desk, web),
        }
        self._begun: tuple[tuple[bytes, ShortWay], ...] = (
            (b"/v1/partitions/", ShortParcel(desk, web)),
            (b"/v1/actions/", ShortAction(desk, web)),
        )
        self._report, self._joint_report = ShortReport(desk, web), ShortJointReport(desk, web)
        self._dequeue = ShortDequeue(desk, web)

    def find(self, method: bytes, url: bytes) -> ShortWay | None:
        """The short way for a request with this first line; None if there is none."""
        if method == b"POST":
            if url.startswith(_GROUPS):
                return self._report if _PARTITIONS in url else self._joint_report
            return self._posts.get(url) or next((way for start, way in self._begun if url.startswith(start)), None)
        return self._dequeue if method == b"DELETE" else None
