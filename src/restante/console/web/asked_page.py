"""The page that a visitor asked for and did not get: the address of the sign-in page keeps it, and signing in leads to it."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode

from restante.console.view.markup import at
from restante.console.web.exchanges import ConsoleRequest

_STEPS = frozenset({".", ".."})


def kept(request: ConsoleRequest) -> str | None:
    """The path below the console's and the query of the page; None for the start, and for a change, which is not repeated."""
    if request.method != "GET" or not request.segments:
        return None
    path = "/".join(quote(segment, safe="") for segment in request.segments)
    return f"{path}?{urlencode(request.query)}" if request.query else path


def address_of(page: str | None) -> str:
    """The address of a page that was kept. Its parts are put together again, so it is one of the console, whatever it says."""
    path, _, query = (page or "").partition("?")
    segments = [unquote(segment) for segment in path.split("/") if segment]
    if not _STEPS.isdisjoint(segments):
        segments = []
    return at(*segments, **dict(parse_qsl(query)))
