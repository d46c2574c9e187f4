"""How a node connects to another one, and shows that it is one."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from typing import TypeVar, cast

from restante.cluster.nodes.handshake import (
    NONCE_BYTES,
    REPLY_BYTES,
    WELCOME,
    Hello,
    Purpose,
    is_proof,
    proof,
)
from restante.cluster.nodes.peer_trust import GOODBYE_SECONDS, PeerTrust

P = TypeVar("P", bound=asyncio.Protocol)

_log = logging.getLogger("restante.cluster")

_GREETING_SECONDS = 2.0


class _Caller(asyncio.Protocol):
    """A connection until both ends have shown who they are."""

    def __init__(self, secret: bytes, purpose: Purpose, shard: int) -> None:
        self._secret = secret
        self._hello = Hello(purpose, shard, os.urandom(NONCE_BYTES)).encode()
        self._heard = b""
        self.transport: asyncio.Transport | None = None
        self.welcomed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        before, self._heard = len(self._heard), self._heard + data
        if before < REPLY_BYTES <= len(self._heard):
            nonce, shown = self._heard[:NONCE_BYTES], self._heard[NONCE_BYTES:REPLY_BYTES]
            if not is_proof(shown, self._secret, b"server", self._hello, nonce):
                self.transport.abort()
                return
            self.transport.write(proof(self._secret, b"client", self._hello, nonce))
        if len(self._heard) > REPLY_BYTES and not self.welcomed.done():
            self.welcomed.set_result(self._heard[REPLY_BYTES:] == WELCOME)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own signature
        if not self.welcomed.done():
            self.welcomed.set_result(False)


async def connect_peer(address: str, trust: PeerTrust, purpose: Purpose, shard: int, made: Callable[[], P]) -> P:
    """A connection to another node; `OSError` if it is not there, is none of ours, or does not have the shard."""
    transport = await _greeted(address, trust, purpose, shard)
    protocol = made()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if transport.is_closing():
        protocol.connection_lost(None)
        raise ConnectionResetError("the node has gone")
    return protocol


async def tell_peer(address: str, trust: PeerTrust, purpose: Purpose, shard: int = 0) -> None:
    """Say one thing to another node; `OSError` if it is not there."""
    (await _greeted(address, trust, purpose, shard)).close()


async def _greeted(address: str, trust: PeerTrust, purpose: Purpose, shard: int) -> asyncio.Transport:
    host, _, port = address.rpartition(":")
    caller = _Caller(trust.secret, purpose, shard)
    try:
        async with asyncio.timeout(_GREETING_SECONDS):
            loop = asyncio.get_running_loop()
            await loop.create_connection(
                lambda: caller,
                host.strip("[]"),
                int(port),
                ssl=trust.calling,
                ssl_shutdown_timeout=None if trust.calling is None else GOODBYE_SECONDS,
            )
            welcomed = await caller.welcomed
    except TimeoutError as error:
        _abort(caller)
        raise ConnectionRefusedError("the node does not answer") from error
    except ssl.SSLError as error:
        _log.warning("The node at %s is not trusted, or does not speak TLS: %s", address, error)
        _abort(caller)
        raise ConnectionRefusedError("the node shows no certificate that is good here") from error
    except BaseException:
        _abort(caller)
        raise
    if not welcomed or caller.transport is None:
        _abort(caller)
        raise ConnectionRefusedError("the node does not have it, or has another secret")
    return caller.transport


def _abort(caller: _Caller) -> None:
    if caller.transport is not None:
        caller.transport.abort()
