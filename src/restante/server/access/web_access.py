"""Which host names a hub answers to, and which web pages may use it.

A browser that shows a stranger's page reaches whatever is served on its own machine. Two headers give such a request
away: `Origin` names the site of the page, and `Host` the stranger's own name, where that name was made to point here
(DNS rebinding). A hub that asks for no token looks at both. A hub that asks for tokens need not: a page has none.

Browsers fetch pictures, and follow links, without an `Origin`; such a request could open a bundle. They say in
`Sec-Fetch-Site` that it comes from elsewhere.

An address in place of a name needs no DNS, so nobody can bend it: a hub that serves other machines answers to every one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from restante.errors import Forbidden, InvalidRequest
from restante.limits import HOSTS_REMEMBERED_MAX
from restante.model.access.open_access import is_loopback
from restante.server.access.gate import Gate
from restante.server.connections.exchange import Exchange, Headers
from restante.settings import ServerSettings

EXPOSED = (
    "Restante-Correlation-Id",
    "Restante-Bundle-Id",
    "Restante-Origin",
    "Restante-Kind",
    "Restante-Document-Types",
    "Restante-Message-Count",
    "Restante-Content",
    "Restante-Empty-Reason",
    "Restante-Next",
    "Restante-Start",
    "Restante-End",
    "Restante-Position",
    "Restante-As-Of",
    "Retry-After",
)
"""The headers that a page of a listed origin may read of an answer, besides those that every page may."""
_ELSEWHERE = frozenset({b"cross-site", b"same-site"})
"""The words of a browser in `Sec-Fetch-Site` when another page sent it; another port of this machine is the same site."""
_DATA = b"/v1/"
_METHODS = b"GET, POST, PUT, DELETE"
"""The methods of all routes."""
_VARY = (b"vary", b"origin")
_REMEMBER_SECONDS = b"600"
_ONCE = frozenset({b"authorization", b"host", b"origin", b"content-type", b"content-encoding"})
_NAME = re.compile(rb"[A-Za-z0-9.:/_\[\]-]{1,80}")


class WebAccess:
    """Judges the `Host` and the `Origin` of requests, and answers what browsers ask before a page's request."""

    def __init__(self, settings: ServerSettings, gate: Gate, url: str, *, free_paths: Collection[bytes]) -> None:
        """`free_paths` are those at which anybody may ask, under any name."""
        self._gate = gate
        self._free_paths = free_paths
        self._names = frozenset(name.lower() for name in (*settings.hosts, settings.host, urlsplit(url).hostname or ""))
        self._addresses = not is_loopback(settings.host)
        self._origins = frozenset(origin.lower().encode() for origin in settings.origins)
        self._answers_to = lru_cache(HOSTS_REMEMBERED_MAX)(self._judged)

    def check(self, exchange: Exchange) -> None:
        """Refuse what a stranger's page sends to a hub that asks for no token, and headers that say two things."""
        if not exchange.distinct:
            _refuse_repeated(exchange)
        host, origin = exchange.raw(b"host"), exchange.raw(b"origin")
        if self._origins:
            exchange.beside = self._beside(origin)
        led_here = origin is None and exchange.raw(b"sec-fetch-site") in _ELSEWHERE and exchange.path.startswith(_DATA)
        if origin is None and host is not None and not led_here and self._answers_to(host):
            return
        if host is None and exchange.scope.get("http_version") == "1.1":
            raise InvalidRequest("The header Host is missing.", header="Host")
        if exchange.path in self._free_paths or not self._gate.open:
            return
        if host is None or not self._answers_to(host):
            raise Forbidden(
                f"This hub asks for no token, so it answers only to names of its own, and {_shown(host)} is none. If it "
                "is meant to be, list it in the setting server.hosts; or make a token with `restante tokens create`."
            )
        if origin is not None and not self._is_allowed(origin, host):
            raise Forbidden(
                f"This hub asks for no token, so web pages of {_shown(origin)} may not use it. If they are meant to, "
                "list that origin in the setting server.origins."
            )
        if led_here:
            raise Forbidden(
                "This hub asks for no token, so links and frames of other web pages are refused. Open the address directly."
            )

    def is_plain(self, host: bytes | None) -> bool:
        """Whether there is nothing to look at in a request with this `Host` that comes from no page."""
        return not self._origins and host is not None and self._answers_to(host)

    def preflight(self, exchange: Exchange) -> Headers | None:
        """The answer to a browser that asks what a page of a listed origin may send."""
        asked = exchange.raw(b"access-control-request-method")
        if asked is None or not self._lists(exchange.raw(b"origin")):
            return None
        return (
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", exchange.raw(b"access-control-request-headers") or b"content-type"),
            (b"access-control-max-age", _REMEMBER_SECONDS),
        )

    def _beside(self, origin: bytes | None) -> Headers:
        if origin is None or not self._lists(origin):
            return (_VARY,)
        exposed = ", ".join(EXPOSED).encode()
        return ((b"access-control-allow-origin", origin), (b"access-control-expose-headers", exposed), _VARY)

    def _lists(self, origin: bytes | None) -> bool:
        return origin is not None and origin.lower() in self._origins

    def _is_allowed(self, origin: bytes, host: bytes) -> bool:
        own = b"http://" + host.lower()
        return origin.lower() in (own, own.removesuffix(b":80")) or self._lists(origin)

    def _judged(self, host: bytes) -> bool:
        """Whether a `Host` is a name of this hub: at any port, for a proxy or a container may map it."""
        name = _name_of(host.decode("latin-1").lower())
        if name in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._addresses or address.is_loopback


def _name_of(host: str) -> str:
    """The name or address in a `Host`, without port, brackets and the dot that ends a full name."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def _shown(header: bytes | None) -> str:
    """The name as it came, if it could be a host's name: other text of a stranger is not repeated to the reader of the error."""
    if header is None:
        return "none at all"
    return repr(header.decode()) if _NAME.fullmatch(header) else "what was sent"


class CarriedAccess(WebAccess):
    """The access of what a door passes on: it has judged the `Host`, which names a node, and not always this one."""

    def _judged(self, host: bytes) -> bool:
        del host
        return True


def _refuse_repeated(exchange: Exchange) -> None:
    repeated = _repeated([name for name, _ in exchange.scope["headers"]])
    if repeated is not None:
        shown = repeated.decode().title()
        raise InvalidRequest(f"The header {shown} came more than once: send it once.", header=shown)


def _repeated(names: Collection[bytes]) -> bytes | None:
    seen: set[bytes] = set()
    for name in names:
        if name in seen and name in _ONCE:
            return name
        seen.add(name)
    return None
