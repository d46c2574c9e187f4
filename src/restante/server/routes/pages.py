"""The contract as the hub tells it: OpenAPI and AsyncAPI for programs, and pages for people. Made once, when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from restante.server.asyncapi import document as asyncapi_document
from restante.server.desk import Desk
from restante.server.exchange import Exchange
from restante.server.openapi import document, problem_page, route_page
from restante.server.routing import ANYBODY, Handler, Route
from restante.wire import media

_HTML = "text/html; charset=utf-8"
# A page loads nothing and runs nothing: it is text and its own style.
_SAFE = (
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)


@cache
def _description() -> dict[str, object]:
    from restante.server.app import ROUTES  # noqa: PLC0415 - the table has the routes of this module, too

    return document.document(ROUTES)


@cache
def _openapi() -> bytes:
    return document.encoded(_description())


@cache
def _asyncapi() -> bytes:
    from restante.server.app import SOCKETS  # noqa: PLC0415 - the module of the table has the routes of this one, too

    return asyncapi_document.encoded(SOCKETS)


@cache
def _docs() -> bytes:
    return route_page.page(_description())


@cache
def _problems() -> bytes:
    return problem_page.page()


def _serving(made: Callable[[], bytes], media_type: str) -> Handler:
    async def handle(desk: Desk, exchange: Exchange) -> None:
        await exchange.answer(200, await desk.link.thread(made), media_type=media_type, headers=_SAFE)

    return handle


async def _home(_desk: Desk, exchange: Exchange) -> None:
    await exchange.answer(307, headers=[(b"location", b"/docs")])


ROUTES = (
    Route("GET", "/", _home, ANYBODY),
    Route("GET", "/openapi.json", _serving(_openapi, media.JSON), ANYBODY),
    Route("GET", "/asyncapi.json", _serving(_asyncapi, media.JSON), ANYBODY),
    Route("GET", "/docs", _serving(_docs, _HTML), ANYBODY),
    Route("GET", "/docs/problems", _serving(_problems, _HTML), ANYBODY),
)
