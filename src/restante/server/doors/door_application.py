"""A door as an ASGI application: a request about one shard is passed on, one about several is split or gathered."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import msgspec

from restante.errors import RestanteError
from restante.limits import REQUEST_BYTES_MAX
from restante.server.app import ROUTES, Application, answer_failure
from restante.server.connections.bodies import received
from restante.server.connections.exchange import Exchange, Receive, Send
from restante.server.connections.room import PublishRoom
from restante.server.desk import Desk, DoorDesk
from restante.server.doors.door_link import DoorLink
from restante.server.doors.door_routes import ShardChoice, choice_of
from restante.server.doors.gathered_answers import GATHERED_ANSWERS, METRICS, RATES
from restante.server.doors.joint_backup_answer import joint_backup
from restante.server.doors.sibling_doors import SiblingDoors
from restante.server.doors.upstream import Upstream, forward
from restante.server.live.web_socket import TICKET
from restante.server.route_table import Route


class DoorApplication(Application):
    """Restante as it is seen through a door."""

    def __init__(self, desk: DoorDesk, link: DoorLink, upstreams: list[Upstream]) -> None:
        super().__init__(cast("Desk", desk))  # Handlers that need a hub of their own are passed on, or replaced.
        self._link = link
        self.upstreams = upstreams
        self.siblings = SiblingDoors()
        self._counts = {METRICS: self._desk.metrics.text, RATES: self._own_rates}
        """The counts of the door itself, by path."""
        self._choices: dict[Route, ShardChoice | None] = {route: choice_of(route) for route in ROUTES}

    async def _http(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        route = self._found(exchange)
        choice = None if route is None else self._choices[route]
        if route is None or choice is None:
            exchange.place.clear()
            await super()._http(exchange, receive, send)
            return
        try:
            self.web.check(exchange)
            self._admit_passing(exchange, route)
            with self._room_for(route) as room:
                body = bytes(await received(exchange, room, route.body_max))
                await forward(self._chosen(choice, exchange, body), exchange, body, receive, send)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # whatever it is, the client gets an answer
            await answer_failure(exchange, error)
        self._count(exchange, route, time.perf_counter() - started)

    async def handle(self, route: Route, exchange: Exchange) -> None:
        gathered = GATHERED_ANSWERS.get(route.path)
        if route.path == "/v1/backup":
            await joint_backup(self._desk, self._link.lines, self.upstreams, exchange)
        elif gathered is None:
            await super().handle(route, exchange)
        elif (count := self._counts.get(exchange.path)) is None:
            await gathered(self.upstreams, exchange, ())
        elif self.siblings.is_asking(exchange):
            await exchange.answer(200, count(), media_type="text/plain")
        else:
            await gathered(self.upstreams, exchange, (count(), *await self.siblings.counts(exchange)))

    def _own_rates(self) -> bytes:
        return msgspec.json.encode(self._desk.rates.history(0))

    def _found(self, exchange: Exchange) -> Route | None:
        """The route; None if there is none: the door's own application then answers with the problem."""
        try:
            return self._router.find(exchange)
        except RestanteError:
            return None

    def _chosen(self, choice: ShardChoice, exchange: Exchange, body: bytes) -> Upstream:
        """The shard of a request. If the request names something impossible, the first shard, which refuses it."""
        try:
            return self.upstreams[choice(self._link.lines, exchange, body)]
        except RestanteError:
            return self.upstreams[0]

    def _room_for(self, route: Route) -> AbstractContextManager[PublishRoom | None]:
        """Room for a large body. Small ones take none, as in the shard: a heartbeat must not wait for publishes."""
        return self._desk.room.publish() if route.body_max > REQUEST_BYTES_MAX else nullcontext()

    def _admit_passing(self, exchange: Exchange, route: Route) -> None:
        """Refuse a caller who may not make this request. Only the shard that made a ticket can judge it."""
        exchange.allow(route.query)
        if TICKET not in exchange.given:
            self._admit(exchange, route)

    def upstream_of(self, exchange: Exchange) -> Upstream | None:
        """The server to which a web socket is handed through; None if the door takes it itself."""
        try:
            self.web.check(exchange)
            route = self._sockets.find(exchange)
            choice = choice_of(route)
            self._admit_passing(exchange, route)
            return None if choice is None else self._chosen(choice, exchange, b"")
        except RestanteError:
            return None
