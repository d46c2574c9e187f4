"""The door to a hub over the network, for asynchronous programs: `restante.aio.connect`."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from restante.client.concurrency.openings import Unopened
from restante.client.sockets.publish_socket_async import AsyncPublishSocket
from restante.client.surface import asynchronous
from restante.client.transport.address import DEFAULT_URL
from restante.client.transport.http_async import AsyncHttpLink
from restante.client.transport.options import RETRYING, Retrying, Terms, terms_of
from restante.limits import CLIENT_TIMEOUT_SECONDS


class Connecting(Unopened):
    """An asynchronous hub over the network: `async with` it, or `await` it and close it."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._hub: asynchronous.Hub | None = None

    async def _connect(self) -> asynchronous.Hub:
        return _over(self._terms)

    def __await__(self) -> Generator[Any, None, asynchronous.Hub]:
        return self._connect().__await__()

    async def __aenter__(self) -> asynchronous.Hub:
        self._hub = await self._connect()
        return self._hub

    async def __aexit__(self, *_: object) -> None:
        if self._hub is not None:
            await self._hub.close()


def connect_async(
    url: str = DEFAULT_URL,
    *,
    token: str | None = None,
    timeout: float = CLIENT_TIMEOUT_SECONDS,
    retries: int | Retrying = RETRYING,
) -> Connecting:
    """A hub over the network, for asynchronous programs; otherwise as `restante.connect`.

    ```python
    async with restante.aio.connect("http://127.0.0.1:8470") as hub:
        await hub.send(recipient="alice", text="hello")
    ```
    """
    return Connecting(terms_of(url, token=token, timeout=timeout, retries=retries))


def connected(url: str, *, token: str | None = None) -> asynchronous.Hub:
    """An asynchronous hub over the network, open already: its connections are made when they are needed."""
    return _over(terms_of(url, token=token))


def _over(terms: Terms) -> asynchronous.Hub:
    return asynchronous.Hub(AsyncHttpLink(terms), partial(AsyncPublishSocket, terms, 1))
