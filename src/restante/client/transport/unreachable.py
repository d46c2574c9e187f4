"""The errors of a hub that cannot be reached, and the warnings of a client that keeps trying, so that no wait is silent.

Causes are recognised by words in the drivers' errors, which come from Rust, OpenSSL or the operating system.

Some networks drop packets silently. So `FirstContact` watches the first request of a client. If there is no answer after a
moment, it opens a connection itself, and warns only if that fails too, because a hub may take its time, for example for a
peek that waits.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from urllib.parse import urlsplit

from restante.client.transport.address import LOGGER, HubAddress
from restante.errors import Unavailable
from restante.limits import FIRST_LOOK_SECONDS, FIRST_WORD_SECONDS

_UNKNOWN_NAME = ("dns error", "failed to lookup address", "name or service not known", "nodename nor servname")
_UNKNOWN_NAME_ALSO = ("temporary failure in name resolution", "getaddrinfo failed", "no address associated")
_NO_TLS = ("invalidcontenttype", "wrong_version_number", "record layer failure", "wrong version number")
_NOT_TRUSTED = ("invalid peer certificate", "certificate_verify_failed", "certificate verify failed")


_log = logging.getLogger(LOGGER)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def unreachable(address: HubAddress, reason: str) -> Unavailable:
    """The error of a hub that cannot be reached, with what to check."""
    return Unavailable(_told(address.url, reason.rstrip(".")), address=address.url)


def _told(url: str, reason: str) -> str:
    if _says(reason, *_UNKNOWN_NAME, *_UNKNOWN_NAME_ALSO):
        return f"The name {urlsplit(url).hostname} is unknown: {reason}. Check the address {url}."
    if _says(reason, *_NO_TLS):
        plain = url.replace("https://", "http://", 1)
        return f"The server at {url} does not speak HTTPS: {reason}. Is its address {plain}?"
    if _says(reason, *_NOT_TRUSTED):
        return f"The certificate of {url} is not trusted: {reason}. Check the address, and the certificate."
    return f"Nothing answers at {url}: {reason}. Check the address; is `restante serve` running there?"


def _says(reason: str, *words: str) -> bool:
    text = reason.casefold()
    return any(word in text for word in words)


def warn(text: str) -> None:
    """Log the warning. If logging is not configured, Python shows it on standard error."""
    _log.warning("%s", text)


class FirstContact:
    """Watches the first exchange of a client, and no later one."""

    def __init__(self, address: HubAddress, tell: Callable[[str], None]) -> None:
        self._address = address
        self._tell = tell
        self._over = not address.local and _has_proxy()

    def watched(self) -> AbstractContextManager[None]:
        """A context in which the client waits for an answer."""
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
