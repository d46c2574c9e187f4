"""`Tunnel`: a web socket of one mailbox, handed through to the shard that has it. The door looks at nothing in it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

from restante.errors import RestanteError, Unavailable
from restante.limits import SHARD_PATIENCE_SECONDS
from restante.server.connections.corked_transport import bare
from restante.server.connections.exchange import HUB_ENDS, socket_denial
from restante.server.doors.upstream import Upstream
from restante.settings import ServerSettings


class _FarEnd(asyncio.Protocol):
    """The end of a tunnel at the shard."""

    near: Tunnel | None = None
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are of no class of asyncio.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.near is not None:
            self.near.answer(data)

    def eof_received(self) -> bool:
        if self.near is not None and self.near.transport.can_write_eof():
            self.near.transport.write_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own signature
        if self.near is not None:
            self.near.transport.close()

    def pause_writing(self) -> None:
        if self.near is not None:
            self.near.pause(self.near.transport)

    def resume_writing(self) -> None:
        if self.near is not None:
            self.near.resume(self.near.transport)


class Tunnel(asyncio.Protocol):
    """The end of a tunnel at the client, which is not read from until the shard is reached."""

    def __init__(
        self,
        upstream: Upstream,
        transport: asyncio.Transport,
        request: bytes,
        correlation_id: str,
        connections: set[Any],
        settings: ServerSettings,
    ) -> None:
        self.transport = bare(transport)
        self.transport.pause_reading()
        self._connections = connections
        self._correlation_id = correlation_id
        self._far: _FarEnd | None = None
        self._request = request
        self._settings = settings
        self._stands_since: float | None = None
        """When the client was first seen not to take what is there for it."""
        self._answered = False
        """Whether the shard has said anything."""
        connections.add(self)
        self._gives_up_at = asyncio.get_running_loop().time() + SHARD_PATIENCE_SECONDS + settings.header_seconds
        self._opening = asyncio.ensure_future(self._open(upstream))

    async def _open(self, upstream: Upstream) -> None:
        try:
            far = await upstream.open(_FarEnd)
        except RestanteError as error:
            self._refuse(error)
            return
        assert isinstance(far, _FarEnd)
        far.near, self._far = self, far
        if self.transport.is_closing() or far.transport is None:
            self.connection_lost(None)
            return
        far.transport.write(self._request)
        self.resume(self.transport)

    def _refuse(self, error: RestanteError) -> None:
        if self.transport.is_closing():
            return
        status, headers, body = socket_denial(error, self._correlation_id)
        lines = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
        lines += [b"%b: %b" % header for header in headers]
        lines += [b"content-length: %d" % len(body), b"connection: close", b"", body]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass bytes of the client on. Before the shard is reached, only those come that were read with the request."""
        if self._far is None or self._far.transport is None:
            self._request += data
        else:
            self._far.transport.write(data)

    def answer(self, data: bytes) -> None:
        self._answered = True
        self.transport.write(data)

    def sweep(self, now: float) -> None:
        """Give up a shard that does not answer the handshake, and a client that does not take the last bytes.

        In between, the shard looks after the web socket; but that it has given up is not seen while the client is waited for.
        """
        if self.transport.is_closing():
            self._stands_since = self._stands_since or now
        if self._stands_since is not None:
            if now - self._stands_since > self._settings.answer_idle_seconds:
                self.transport.abort()
        elif not self._answered and now > self._gives_up_at:
            self._refuse(Unavailable("The shard of this mailbox did not answer in time. Connect again in a moment."))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own signature
        self._connections.discard(self)
        if self._far is not None and self._far.transport is not None:
            self._far.transport.abort()

    def pause_writing(self) -> None:
        self._stands_since = asyncio.get_running_loop().time()
        if self._far is not None and self._far.transport is not None:
            self.pause(self._far.transport)

    def resume_writing(self) -> None:
        self._stands_since = None
        if self._far is not None and self._far.transport is not None:
            self.resume(self._far.transport)

    def pause(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():
            transport.pause_reading()

    def resume(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():
            transport.resume_reading()

    def shutdown(self) -> None:
        """Refuse a client whose shard is not reached yet. Otherwise the shard says goodbye and closes, which is passed on."""
        if self._far is None and self._opening.cancel():
            self._refuse(Unavailable(HUB_ENDS))
