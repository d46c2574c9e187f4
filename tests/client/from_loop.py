"""An asynchronous link used from threads, so that one test tries both kinds."""

from __future__ import annotations

import asyncio
import threading

from restante.calls.publishing import Publish
from restante.client.sockets.publish_socket_async import AsyncPublishSocket
from restante.client.transport.options import Terms
from restante.limits import LINK_FRAMES_MAX
from restante.model.mailboxes.answers import Receipt
from tests.client.frame_server import SECONDS


class FromLoop:
    """An asynchronous link as its tasks use it, from the threads of a test."""

    def __init__(self, terms: Terms, window: int = LINK_FRAMES_MAX) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._link = AsyncPublishSocket(terms, window)

    def call(self, call: Publish) -> Receipt:
        return asyncio.run_coroutine_threadsafe(self._link.call(call), self._loop).result(SECONDS)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._link.close(), self._loop).result(SECONDS)

    def end(self) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
