"""A warning about a hub that is not there, within a second: some networks drop packets silently.

`FirstContact` watches the first request of a client. If the request has no answer after a moment, it tries a connection of
its own, and warns only if that fails too: a hub may take its time, as for a peek that waits.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from urllib.parse import urlsplit

from restante.client.transport.address import HubAddress
from restante.client.transport.unreachable import unreachable
from restante.limits import FIRST_LOOK_SECONDS, FIRST_WORD_SECONDS

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class FirstContact:
    """Watches the first exchange of a client, and no later one."""

    def __init__(self, address: HubAddress, tell: Callable[[str], None]) -> None:
        self._address = address
        self._tell = tell
        self._over = not address.local and _has_proxy()

    def watched(self) -> AbstractContextManager[None]:
        """Inside this context, the client waits for an answer."""
        return nullcontext() if self._over else self._watching()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        timer = threading.Timer(FIRST_LOOK_SECONDS, self._look)
        timer.daemon = True
        timer.name = "restante-first-contact"
        timer.start()
        try:
            yield
        finally:
            self._over = True
            timer.cancel()

    def _look(self) -> None:
        parts = urlsplit(self._address.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((parts.hostname, port), FIRST_WORD_SECONDS - FIRST_LOOK_SECONDS).close()
        except OSError as error:
            if not self._over:
                reason = "no connection yet" if isinstance(error, TimeoutError) else str(error)
                self._tell(f"{unreachable(self._address, reason).message} Still trying.")


def _has_proxy() -> bool:
    """Whether requests may go through a proxy, which a plain connection would not use."""
    return any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES)
