"""Webhooks over HTTP: one attempt, within its time. Redirects are not followed, and the body of the answer is not read.

A name is looked up once, and the call goes to an address that was found and may be called: the server that answers for the name
cannot change it in between. The address in the call stays as it was given, so the receiver's certificate is checked
against its name. No proxy is used, whatever the environment says: it would look names up by itself.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from pyreqwest.client import SyncClientBuilder
from pyreqwest.exceptions import ConnectError, PyreqwestError, RequestTimeoutError
from pyreqwest.http import Url

from restante import limits
from restante.errors import Unavailable
from restante.model.batches.webhook_addresses import is_allowed
from restante.ports.webhook import PostWebhook, WebhookCall

LookUp = Callable[[str], Sequence[str]]
"""The IP addresses of a name; `OSError` when it has none."""
_MOMENT_SECONDS = 0.001
"""The least time a try is given: none at all would mean without end."""


def webhook_poster(
    allowed_networks: Sequence[str] = (),
    *,
    seconds: float = limits.WEBHOOK_SECONDS_MAX,
    look_up: LookUp | None = None,
    builder: Callable[[], SyncClientBuilder] = SyncClientBuilder,
) -> PostWebhook:
    """Posts webhooks to public addresses and to those of the allowed networks."""

    def post(call: WebhookCall) -> int:
        deadline = time.monotonic() + seconds
        try:
            url = Url(call.url)
            addresses = _callable_addresses(url, look_up or _look_up, allowed_networks, seconds)
            return _post(builder, url, addresses, call, deadline)
        except RequestTimeoutError as error:
            raise Unavailable(f"did not answer within {seconds:g} s") from error
        except (PyreqwestError, OSError, ValueError) as error:
            raise Unavailable(f"could not be reached, or broke off: {_root(error)}") from error

    return post


def _callable_addresses(url: Url, look_up: LookUp, allowed_networks: Sequence[str], seconds: float) -> list[str]:
    host = (url.host_str or "").strip("[]")
    found = [host] if url.domain is None else _in_time(look_up, host, seconds)
    allowed = [address for address in found if is_allowed(address, allowed_networks)]
    if not allowed:
        shown = ", ".join(found[: limits.WEBHOOK_ADDRESSES_MAX])
        raise Unavailable(
            f"may not be called: {shown or 'no address'} is not public; the setting webhooks.allowed_networks is for others"
        )
    return allowed[: limits.WEBHOOK_ADDRESSES_MAX]


def _look_up(host: str) -> Sequence[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _in_time(look_up: LookUp, host: str, seconds: float) -> Sequence[str]:
    """Look a name up in a thread of its own, as that cannot be broken off; one that takes too long is left to itself."""
    found: list[Sequence[str]] = []
    failures: list[str] = []

    def work() -> None:
        try:
            found.append(look_up(host))
        except (OSError, ValueError) as error:  # ValueError: a label that is no name
            failures.append(str(error))

    thread = threading.Thread(target=work, name="restante-names", daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        why = failures[0] if failures else f"not within {seconds:g} s"
        raise Unavailable(f"could not be reached: {host} was not found ({why})")
    return found[0]


def _post(
    builder: Callable[[], SyncClientBuilder], url: Url, addresses: Sequence[str], call: WebhookCall, deadline: float
) -> int:
    """The status answered at the first address that can be connected to."""
    for address in addresses[:-1]:
        try:
            return _post_to(builder, url, address, call, deadline)
        except ConnectError:
            continue
    return _post_to(builder, url, addresses[-1], call, deadline)


def _post_to(
    builder: Callable[[], SyncClientBuilder], url: Url, address: str, call: WebhookCall, deadline: float
) -> int:
    left = timedelta(seconds=max(deadline - time.monotonic(), _MOMENT_SECONDS))
    pinned = builder().no_proxy().follow_redirects(False).user_agent("restante")
    if url.domain is not None:
        pinned = pinned.resolve(url.domain, address, url.port_or_known_default or 0)
    with pinned.build() as client:
        request = client.post(url).body_bytes(call.body).timeout(left)
        for name, value in call.headers.items():
            request = request.header(name, value)
        with request.build_streamed() as response:
            return response.status


def _root(error: Exception) -> str:
    """The innermost cause, which says most and does not repeat the address."""
    causes = getattr(error, "details", {}).get("causes") or []
    return str(causes[-1]["message"]) if causes else getattr(error, "message", str(error))
