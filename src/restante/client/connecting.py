"""The doors to a hub over the network: `restante.connect` and `restante.aio.connect`."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from restante.client import asynchronous, sync
from restante.client.address import DEFAULT_URL
from restante.client.http_async import AsyncHttpLink
from restante.client.http_sync import HttpLink
from restante.client.options import Retrying, Terms
from restante.client.socket_async import AsyncSocketCarrier
from restante.client.socket_sync import SocketCarrier
from restante.client.terms import RETRYING, terms_of
from restante.limits import CLIENT_TIMEOUT_SECONDS


def connect(
    url: str = DEFAULT_URL,
    *,
    token: str | None = None,
    timeout: float = CLIENT_TIMEOUT_SECONDS,
    retries: int | Retrying = RETRYING,
) -> sync.Hub:
    """A hub over the network, for programs that wait. Connections are made when they are needed.

    `timeout` is how many seconds an answer may take, beyond what a peek is to wait; `retries` how often, or how, a call
    without an answer is tried again.
    """
    terms = terms_of(url, token=token, timeout=timeout, retries=retries)
    return sync.Hub(HttpLink(terms), partial(SocketCarrier, terms))


class Connecting:
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
    """A hub over the network, for asynchronous programs; otherwise as `restante.connect`."""
    return Connecting(terms_of(url, token=token, timeout=timeout, retries=retries))


def connected(url: str, *, token: str | None = None) -> asynchronous.Hub:
    """An asynchronous hub over the network, open already: its connections are made when they are needed."""
    return _over(terms_of(url, token=token))


def _over(terms: Terms) -> asynchronous.Hub:
    return asynchronous.Hub(AsyncHttpLink(terms), partial(AsyncSocketCarrier, terms))
