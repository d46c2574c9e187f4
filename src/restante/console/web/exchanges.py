"""A request to the console and its answer, over bare ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from restante.errors import BodyTooLarge, InvalidRequest
from restante.limits import CONSOLE_FORM_BYTES_MAX, QUERY_PARAMETERS_MAX

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

HTML: Final = "text/html; charset=utf-8"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""A page loads its own style and script, pictures of messages, and nothing else; nothing in it is a script."""
GUARDS: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""Headers of every answer, unless it has its own."""


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """A request to the console."""

    method: str
    segments: tuple[str, ...]
    """The path below the console's own."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Fields of the form that came several times, too."""

    @property
    def cookies(self) -> Mapping[str, str]:
        try:
            read = SimpleCookie(self.headers.get("cookie", ""))
        except CookieError:
            return {}
        return {name: morsel.value for name, morsel in read.items()}

    @property
    def encrypted(self) -> bool:
        """Whether the browser came over TLS, as the proxy in front says."""
        return self.headers.get("x-forwarded-proto") == "https" or self.headers.get(":scheme") == "https"

    @property
    def from_elsewhere(self) -> bool:
        """Whether a page of another site led here: then the browser keeps back the cookie that it may have."""
        return self.headers.get("sec-fetch-site") == "cross-site"


@dataclass(slots=True)
class ConsoleReply:
    """A reply of the console."""

    body: bytes = b""
    status: int = 200
    media_type: str = HTML
    headers: dict[str, str] = field(default_factory=dict)


def redirect(target: str) -> ConsoleReply:
    """Go on elsewhere in the console, by GET."""
    return ConsoleReply(status=303, headers={"location": target})


async def read_request(scope: Scope, receive: Receive, base: str) -> ConsoleRequest:
    """The request, with the form if it has one."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    headers[":scheme"] = scope.get("scheme", "http")
    method = scope["method"]
    pairs = _pairs(await _body(receive)) if method == "POST" else []
    lists: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        lists[name] = (*lists.get(name, ()), value)
    return ConsoleRequest(
        method, _segments(scope, base), dict(_pairs(scope["query_string"])), headers, dict(pairs), lists
    )


def _segments(scope: Scope, base: str) -> tuple[str, ...]:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.split(b"?", 1)[0].decode("ascii", "replace").removeprefix(base).strip("/")
    try:
        return tuple(unquote(segment, errors="strict") for segment in path.split("/")) if path else ()
    except UnicodeDecodeError as error:
        raise InvalidRequest("The path is not valid: percent-encode text as UTF-8.") from error


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX
        )
    except ValueError as error:
        raise InvalidRequest("The form cannot be read. Go back, and send it again.") from error


async def _body(receive: Receive) -> bytes:
    parts = bytearray()
    while True:
        event = await receive()
        parts += event.get("body", b"")
        if len(parts) > CONSOLE_FORM_BYTES_MAX:
            raise BodyTooLarge(f"A form has at most {CONSOLE_FORM_BYTES_MAX:,} bytes.")
        if event["type"] != "http.request" or not event.get("more_body", False):
            return bytes(parts)


async def send_reply(send: Send, reply: ConsoleReply, *, head: bool = False) -> None:
    given = {"content-type": reply.media_type, **GUARDS, **reply.headers, "content-length": str(len(reply.body))}
    headers = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else reply.body})
