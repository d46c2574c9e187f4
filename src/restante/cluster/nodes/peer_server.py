"""`PeerServer`: the port on which a node hears the other nodes. Without the secret, nobody gets further than the greeting."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, cast

from restante.cluster.nodes.handshake import (
    HELLO_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    REFUSED,
    WELCOME,
    Purpose,
    decode_hello,
    is_proof,
    proof,
)
from restante.cluster.nodes.peer_trust import GOODBYE_SECONDS, PeerTrust
from restante.errors import RestanteError

_log = logging.getLogger("restante.cluster")
_GREETING_SECONDS = 3.0
_STRANGERS_MAX = 256

Taker: TypeAlias = Callable[[], asyncio.Protocol]
Welcome: TypeAlias = Callable[[Purpose, int], "Taker | bool"]
"""A function that takes over a connection for a purpose and a shard; or says whether that was all, and it was done."""


class PeerServer:
    """Listens on a socket until it is closed."""

    def __init__(self, bound: socket.socket, trust: PeerTrust, welcome: Welcome) -> None:
        self._bound = bound
        self._tls = trust.called
        self._strangers: set[_Stranger] = set()
        self._made = partial(_Stranger, trust.secret, welcome, self._strangers)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        tls = self._tls
        self._server = await asyncio.get_running_loop().create_server(
            self._made,
            sock=self._bound,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else _GREETING_SECONDS,
            ssl_shutdown_timeout=None if tls is None else GOODBYE_SECONDS,
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for stranger in tuple(self._strangers):
            stranger.turn_away()  # A connection that is not ended would outlive the event loop.


class _Stranger(asyncio.Protocol):
    """A connection until its other end has shown who it is."""

    def __init__(self, secret: bytes, welcome: Welcome, strangers: set[_Stranger]) -> None:
        self._secret = secret
        self._welcome = welcome
        self._strangers = strangers
        self._heard = b""
        self._nonce = os.urandom(NONCE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are of no class of asyncio.
        self._transport = cast("asyncio.Transport", transport)
        if len(self._strangers) >= _STRANGERS_MAX:
            self._transport.abort()
            return
        self._strangers.add(self)
        self._timer = asyncio.get_running_loop().call_later(_GREETING_SECONDS, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own signature
        self._known()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        before, self._heard = len(self._heard), self._heard + data
        try:
            if len(self._heard) > HELLO_BYTES + PROOF_BYTES:
                self._transport.abort()
            elif before < HELLO_BYTES <= len(self._heard):
                self._reply()
            if len(self._heard) == HELLO_BYTES + PROOF_BYTES:
                self._judge()
        except RestanteError as error:
            _log.warning("A connection of another node is refused: %s", error.message)
            self._transport.abort()

    def _reply(self) -> None:
        assert self._transport is not None
        hello = self._heard[:HELLO_BYTES]
        decode_hello(hello)
        self._transport.write(self._nonce + proof(self._secret, b"server", hello, self._nonce))

    def _judge(self) -> None:
        assert self._transport is not None
        hello, shown = self._heard[:HELLO_BYTES], self._heard[HELLO_BYTES:]
        if not is_proof(shown, self._secret, b"client", hello, self._nonce):
            _log.warning("Somebody without the secret of the cluster speaks to the port of the nodes.")
            self._transport.abort()
            return
        self._known()
        wanted = decode_hello(hello)
        taker = self._welcome(wanted.purpose, wanted.shard)
        self._transport.write(WELCOME if taker else REFUSED)
        if isinstance(taker, bool):
            self._transport.close()
            return
        protocol = taker()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)

    def turn_away(self) -> None:
        """End the connection: nobody is let in any more."""
        if self._transport is not None:
            self._transport.abort()

    def _known(self) -> None:
        self._strangers.discard(self)
        if self._timer is not None:
            self._timer.cancel()
