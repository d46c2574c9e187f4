"""Where the actions of an app are sent: its hub, for programs that wait and for asynchronous ones."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from typing import Protocol
from weakref import WeakKeyDictionary

from restante.calls.actions import SendAction
from restante.client.surface import asynchronous, sync
from restante.client.transport.address import DEFAULT_URL
from restante.client.transport.http_async import AsyncHttpLink
from restante.client.transport.http_sync import HttpLink
from restante.client.transport.link import AsyncLink, Link
from restante.client.transport.options import terms_of
from restante.errors import InvalidRequest
from restante.model.actions.action_answers import ActionStatus
from restante.model.actions.action_kind import CORRELATION_PROPERTY, TRACE_PROPERTY
from restante.work.job import current_job


class SendsActions(Protocol):
    """The carrier of actions to a hub."""

    def send(self, call: SendAction) -> ActionStatus: ...
    async def send_async(self, call: SendAction) -> ActionStatus: ...


class AppHub:
    """The hub of an app. Connections are made when they are needed; each event loop has its own."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._token: str | None = None
        self._given: sync.Hub | asynchronous.Hub | None = None
        self._link: Link | None = None
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncLink] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def is_chosen(self) -> bool:
        return self._url is not None or self._given is not None

    def choose(self, hub: str | sync.Hub | asynchronous.Hub, token: str | None) -> None:
        with self._lock:
            self._link = None
            self._links.clear()
            self._url, self._given = (hub, None) if isinstance(hub, str) else (None, hub)
            self._token = token

    def send(self, call: SendAction) -> ActionStatus:
        return self._waiting().call(call)

    async def send_async(self, call: SendAction) -> ActionStatus:
        if isinstance(self._given, sync.Hub):
            return await asyncio.to_thread(self._given.link.call, call)
        return await self._asynchronous().call(call)

    def _address(self) -> tuple[str, str | None]:
        url = self._url or os.environ.get("RESTANTE_HUB", DEFAULT_URL)
        return url, self._token or os.environ.get("RESTANTE_TOKEN")

    def _waiting(self) -> Link:
        if isinstance(self._given, asynchronous.Hub):
            raise InvalidRequest("The app has an asynchronous hub: use `await action.send_async(…)`.")
        if self._given is not None:
            return self._given.link
        with self._lock:
            if self._link is None:
                url, token = self._address()
                self._link = HttpLink(terms_of(url, token=token))
            return self._link

    def _asynchronous(self) -> AsyncLink:
        if isinstance(self._given, asynchronous.Hub):
            return self._given.link
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._links.get(loop)
            if found is None:
                url, token = self._address()
                found = self._links[loop] = AsyncHttpLink(terms_of(url, token=token))
            return found

    async def close_async(self) -> None:
        """Close the connections of this event loop."""
        with self._lock:
            found = self._links.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.close()

    def close(self) -> None:
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close()


def carried() -> Mapping[str, str]:
    """The properties that an action that is sent while another one is done takes over from it: correlation id and trace."""
    job = current_job.get()
    if job is None:
        return {}
    found = {CORRELATION_PROPERTY: job.correlation_id, TRACE_PROPERTY: job.traceparent}
    return {name: value for name, value in found.items() if value is not None}
