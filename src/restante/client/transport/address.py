"""The address of a hub, and the segments of its paths."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote, urlsplit

from pyreqwest.http import Url

from restante.errors import InvalidRequest
from restante.limits import HOSTS_REMEMBERED_MAX
from restante.model.access.open_access import is_loopback

LOGGER = "restante.client"
DEFAULT_URL = "http://127.0.0.1:8470"
_EXAMPLE = "like 127.0.0.1:8470 or https://hub.example.org"
_HOST_AND_PORT = re.compile(r"(\[[^]/]+\]|[^\s:/?#@\[\]]+):[0-9]+/?")
_log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class HubAddress:
    """The address of a hub, and the token. `repr` does not show the token."""

    url: str
    """Without a slash at the end."""
    local: bool
    """Whether the hub is on this machine, so that no proxy is used."""
    token: str | None = field(default=None, repr=False)

    @property
    def socket_url(self) -> str:
        """The address for web sockets: `http` becomes `ws`, `https` `wss`."""
        return "ws" + self.url.removeprefix("http")

    def credentials(self) -> dict[str, str]:
        """The headers that take the token there. If others can read it on the way, that is warned of."""
        if self.token is None:
            return {}
        self.warn_of_plaintext()
        return {"Authorization": f"Bearer {self.token}"}

    def warn_of_plaintext(self) -> None:
        """Log a warning, once for each address, if a token would go to another machine without encryption."""
        if not self.local and self.url.startswith("http:"):
            _warn_of_plaintext(self.url)


def address_of(url: str, *, token: str | None = None) -> HubAddress:
    """Check an address."""
    spelled = _spelled(url)
    _check_token(token)
    return HubAddress(spelled, is_loopback(urlsplit(spelled).hostname or ""), token)


def addresses_of(url: str, *, token: str | None = None) -> tuple[HubAddress, ...]:
    """Check the addresses of one hub, separated by commas."""
    several = [one for one in url.split(",") if one.strip()] if "," in str(url) else [url]
    return tuple(dict.fromkeys(address_of(one, token=token) for one in several or [url]))


@lru_cache(HOSTS_REMEMBERED_MAX)
def _warn_of_plaintext(url: str) -> None:
    """Once for each address."""
    _log.warning("The token goes to %s without encryption: who listens on the way can use it. Use https://.", url)


def segment(name: object, what: str) -> str:
    """Encode a name as one segment of a path."""
    if not isinstance(name, str) or not name.strip() or not _encodes(name):
        raise InvalidRequest(f"A {what} must be text that is not blank, not {name!r}.")
    if name in (".", ".."):
        # `.` and `..` are steps in a URL even if percent-encoded, so the request would reach another route.
        raise InvalidRequest(f"A {what} named {name!r} cannot be spelled in an address. Choose another name.")
    return quote(name, safe="")


def _spelled(url: object) -> str:
    """The address in ASCII: whatever carries a request, it asks the same host."""
    if not isinstance(url, str):
        raise InvalidRequest(f"The address of a hub must be text, {_EXAMPLE}, not {type(url).__name__}.")
    text = _with_scheme(url.strip())
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _unreadable(error) from error
    if parts.username is not None or parts.password is not None:
        # The error does not repeat the address, because the address holds a secret.
        raise InvalidRequest("The address of a hub must not hold a user and a password. Give a token instead: token=….")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or " " in parts.netloc:
        raise InvalidRequest(f"{url!r} is not the address of a hub. Give one {_EXAMPLE}.")
    if parts.query or parts.fragment:
        raise InvalidRequest(f"The address {url!r} has a query or a fragment: leave out the part from ? or # on.")
    try:
        read = Url(text)
        host = read.host_str or ""
        host.encode("idna")  # Refuses labels that are empty or too long, which no resolver takes.
    except ValueError as error:
        raise _unreadable(error) from error
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{read.path.rstrip('/')}"


def _unreadable(error: ValueError) -> InvalidRequest:
    return InvalidRequest(f"The address of the hub cannot be read: {error}. Give one {_EXAMPLE}.")


def _with_scheme(text: str) -> str:
    """Make `http://host:port` of `host:port`, because the hub itself speaks HTTP. A proxy's address must have a scheme."""
    return f"http://{text}" if _HOST_AND_PORT.fullmatch(text) else text


def _check_token(token: object) -> None:
    if token is None:
        return
    if not isinstance(token, str) or not token or not all("!" <= character <= "~" for character in token):
        raise InvalidRequest("The token is empty or holds characters that no token has, such as a space or a line end.")


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
