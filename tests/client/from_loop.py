"""An asynchronous link used from threads, so that one test tries both kinds."""

from __future__ import annotations

import asyncio
import threading

from restante.calls.publishing import Publish
from restante.client.sockets.frame_link_async import AsyncFrameLink
from restante.client.transport.options import Terms
from restante.model.mailboxes.answers import Receipt
from tests.client.frame_server import SECONDS


class FromLoop:
    """An asynchronous link as its tasks use it, from the threads of a test."""

    def __init__(self, terms: Terms) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._link = AsyncFrameLink(terms)

    def call(self, call: Publish) -> Receipt:
        return asyncio.run_coroutine_threadsafe(self._link.call(call), self._loop).result(SECONDS)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._link.close(), self._loop).result(SECONDS)

    def end(self) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
