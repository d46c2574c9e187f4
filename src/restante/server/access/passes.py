"""The grants of connections that last: looked at again when tokens change, and when one expires.

A caller that waits, listens or goes on publishing holds a pass. Several times a second the hub looks whether the file of
tokens is another one, which is cheap; only then, or at the moment that a token expires, are the passes checked. So what
is revoked ends within a second, also where nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from restante.errors import RestanteError
from restante.limits import PASS_LOOK_SECONDS
from restante.model.access.access import Grant, Role
from restante.server.access.gate import Gate
from restante.server.connections.exchange import Exchange

_log = logging.getLogger("restante.server")
_AT_ONCE = 128


class Pass:
    """The grant that one connection was let in with, as long as it lasts. Used from the event loop only."""

    __slots__ = ("_authorization", "_gate", "_group", "_recipient", "_roles", "grant", "lost")

    def __init__(self, gate: Gate, exchange: Exchange) -> None:
        self.grant: Grant = exchange.grant
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it is no longer valid; `check` then says why."""
        self._gate = gate
        self._authorization = exchange.header(b"authorization")
        self._roles: frozenset[Role] = exchange.roles or frozenset()
        self._recipient = exchange.place.get("recipient")
        self._group = exchange.place.get("group")

    def check(self) -> None:
        """Look at the token again: take its present grant, or raise what keeps the holder out now."""
        self.grant = self._gate.admit(self._authorization, self._roles, self._recipient, self._group)

    def look_again(self) -> None:
        try:
            self.check()
        except RestanteError:
            if not self.lost.done():
                self.lost.set_result(None)

    @property
    def expires_at(self) -> float:
        return math.inf if self.grant.expires_at is None else self.grant.expires_at


class Passes:
    """All passes of a hub."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._held: set[Pass] = set()
        self._version: object = None
        self._next_expiry = math.inf

    @contextmanager
    def held(self, exchange: Exchange) -> Iterator[Pass]:
        """The pass of a request that was let in, while inside."""
        own = Pass(self._gate, exchange)
        self._held.add(own)
        self._next_expiry = min(self._next_expiry, own.expires_at)
        try:
            yield own
        finally:
            self._held.discard(own)

    async def run(self, draining: asyncio.Event) -> None:
        """Look until the hub drains."""
        while not draining.is_set():
            try:
                await self._look()
            except Exception:  # noqa: BLE001  # whatever it is, the next look may find what this one did not
                _log.exception("The tokens of open connections could not be looked at.")
            with suppress(TimeoutError):
                await asyncio.wait_for(draining.wait(), PASS_LOOK_SECONDS)

    async def _look(self) -> None:
        """Check the passes if there is a reason to. Others get their turn in between."""
        version = self._gate.version()
        if version == self._version and time.time() < self._next_expiry:
            return
        self._version, self._next_expiry = version, math.inf
        for place, own in enumerate(tuple(self._held)):
            if place % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            own.look_again()
        living = (own.expires_at for own in self._held if not own.lost.done())
        self._next_expiry = min(living, default=math.inf)
