"""The API description: OpenAPI and AsyncAPI for programs, and pages for people. Made once, when first asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property

from restante.server.asyncapi import document as asyncapi_document
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.openapi import document
from restante.server.openapi.html_pages import example_parts, html, problem_page, route_page
from restante.server.route_table import ANYBODY, Handler, Route
from restante.wire import media

_HTML = "text/html; charset=utf-8"
_HOST = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
"""A name or an address, and perhaps a port: nothing that a page could take for something else."""
# A page loads nothing. It has its own style and runs its own script, known by their digests; that speaks to this hub alone.
_POLICY = (
    f"default-src 'none'; style-src '{html.style_digest()}'; script-src '{html.script_digest()}'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = ((b"content-security-policy", _POLICY.encode()),)


class Pages:
    """The pages about a table of routes, and about the web sockets."""

    def __init__(self, others: tuple[Route, ...], sockets: tuple[Route, ...]) -> None:
        self._sockets = sockets
        self.routes = (
            Route("GET", "/", _home, ANYBODY),
            Route("GET", "/openapi.json", _serving(lambda: self._openapi, media.JSON), ANYBODY),
            Route("GET", "/asyncapi.json", _serving(lambda: self._asyncapi, media.JSON), ANYBODY),
            Route("GET", "/docs", self._show_routes, ANYBODY),
            Route("GET", "/docs/problems", _serving(_problems, _HTML), ANYBODY),
        )
        """The routes of the pages themselves."""
        self._all = (*others, *self.routes)

    @cached_property
    def _openapi(self) -> bytes:
        return document.encoded(self._description)

    @cached_property
    def _description(self) -> dict[str, object]:
        return document.document(self._all)

    @cached_property
    def _asyncapi(self) -> bytes:
        return asyncapi_document.encoded(self._sockets)

    @cached_property
    def _docs(self) -> bytes:
        return route_page.page(self._description)

    async def _show_routes(self, desk: Desk, exchange: Exchange) -> None:
        """The examples name the hub as its reader does, so that they can be copied."""
        page = await desk.link.thread(lambda: self._docs)
        here = _address_of(exchange) or desk.url
        page = page.replace(example_parts.EXAMPLE_ADDRESS.encode(), here.encode())
        await exchange.answer(200, page, media_type=_HTML, headers=_SAFE)


@cache
def _problems() -> bytes:
    return problem_page.page()


def _serving(made: Callable[[], bytes], media_type: str) -> Handler:
    async def handle(desk: Desk, exchange: Exchange) -> None:
        await exchange.answer(200, await desk.link.thread(made), media_type=media_type, headers=_SAFE)

    return handle


def _address_of(exchange: Exchange) -> str | None:
    """The address by which the reader's browser calls this hub; None if that is no plain address."""
    host = exchange.header(b"host")
    if host is None or not _HOST.fullmatch(host):
        return None
    return f"{'https' if exchange.header(b'x-forwarded-proto') == 'https' else 'http'}://{host}"


async def _home(_desk: Desk, exchange: Exchange) -> None:
    await exchange.answer(307, headers=[(b"location", b"/docs")])
