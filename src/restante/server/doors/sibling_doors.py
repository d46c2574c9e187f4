"""The other doors on the same port: each counts the requests that came to it, and any of them may be asked for all."""

from __future__ import annotations

import asyncio
from pathlib import Path

from restante.cluster.places import SocketPlace, short_path
from restante.errors import Unavailable
from restante.server.connections.exchange import Exchange
from restante.server.doors.upstream import Upstream, fetch

DOOR_SOCKET = "door-{}.sock"
_OWN = b"restante-door"
"""The header with which one door asks another."""
_SECONDS = 1.0
"""The wait for a door that does not answer: it may be starting, or have ended."""


class SiblingDoors:
    """The doors that have a socket in the same folder. A door alone has none."""

    def __init__(self) -> None:
        self.home: Path | None = None
        self.own: Path | None = None
        """The socket of this door."""
        self._upstreams: dict[Path, Upstream] = {}

    def is_asking(self, exchange: Exchange) -> bool:
        """Whether another door asks what this one has counted itself."""
        return any(name == _OWN for name, _ in exchange.scope["headers"])

    async def counts(self, exchange: Exchange) -> list[bytes]:
        """The counts of the other doors, asked with the caller's token. A door that has ended has taken its counts with it."""
        told = await asyncio.gather(*(self._told(place, exchange) for place in self._places()))
        return [text for text in told if text]

    def _places(self) -> list[Path]:
        found = [] if self.home is None else sorted(self.home.glob(DOOR_SOCKET.format("*")))
        return [place for place in found if place != self.own]

    async def _told(self, place: Path, exchange: Exchange) -> bytes:
        upstream = self._upstreams.get(place)
        if upstream is None:
            upstream = self._upstreams[place] = Upstream(SocketPlace(short_path(place)), place.name)
        try:
            async with asyncio.timeout(_SECONDS):
                status, text = await fetch(upstream, exchange, exchange.path, header=_OWN + b": own")
        except (TimeoutError, Unavailable):
            return b""
        return text if status == 200 else b""

    def close(self) -> None:
        for upstream in self._upstreams.values():
            upstream.close()
        if self.own is not None:
            self.own.unlink(missing_ok=True)
