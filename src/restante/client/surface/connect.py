"""The door to a hub over the network, for programs that wait: `restante.connect`."""

from __future__ import annotations

from functools import partial

from restante.client.sockets.publish_socket_sync import PublishSocket
from restante.client.surface import sync
from restante.client.transport.address import DEFAULT_URL
from restante.client.transport.http_sync import HttpLink
from restante.client.transport.options import RETRYING, Retrying, terms_of
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

    ```python
    with restante.connect("http://127.0.0.1:8470") as hub:
        hub.send(recipient="alice", text="hello")
    ```
    """
    terms = terms_of(url, token=token, timeout=timeout, retries=retries)
    return sync.Hub(HttpLink(terms), partial(PublishSocket, terms, 1))
