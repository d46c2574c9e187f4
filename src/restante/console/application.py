"""The console as an ASGI application: sessions, forged requests refused, pages found, problems shown."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Final
from urllib.parse import unquote, urlsplit

from restante.console.pages import ROUTES, sign_in
from restante.console.pages.frame import problem_page
from restante.console.view.markup import BASE, at
from restante.console.web.asked_page import address_of, kept
from restante.console.web.console_routes import ConsoleRouter, FoundRoute
from restante.console.web.doors import ConsoleDoor, HubAsker
from restante.console.web.exchanges import (
    ConsoleReply,
    ConsoleRequest,
    Receive,
    Scope,
    Send,
    read_request,
    redirect,
    send_reply,
)
from restante.console.web.known_extras import KnownExtras
from restante.console.web.sessions import ConsoleSessions, is_cookie, new_cookie
from restante.console.web.slow_answers import SlowAnswers
from restante.console.web.streams import PageStreams
from restante.console.web.visits import ConsoleVisitor, Visit
from restante.errors import Forbidden, Internal, InvalidRequest, NotFound, RestanteError, Unauthenticated, Unavailable
from restante.limits import CONSOLE_SESSION_SECONDS, CONSOLE_STREAM_SECONDS
from restante.wire.problems import status_of

_log = logging.getLogger("restante.console")

_ASSETS: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "mark.svg": "image/svg+xml",
}
_SAFE_SITES: Final = frozenset({None, "same-origin", "none"})


class Console:
    """A console of one hub."""

    path = BASE

    def __init__(
        self,
        door: ConsoleDoor,
        *,
        cookie: str,
        stream_seconds: float = CONSOLE_STREAM_SECONDS,
        check_open: Callable[[], None] = lambda: None,
    ) -> None:
        """`check_open` refuses a hub that asks for no token."""
        self._door = door
        self._check_open = check_open
        self._cookie = cookie
        """The name of the cookie: consoles of several hubs on one machine share a host, and must not share this."""
        self._sessions = ConsoleSessions(time.monotonic)
        self._router = ConsoleRouter(ROUTES)
        self._streams = PageStreams(stream_seconds)
        self._slow_answers = SlowAnswers()
        self._extras = KnownExtras()

    def drain(self) -> None:
        """End the streams: pages are left as they are."""
        self._streams.drain()

    async def close(self) -> None:
        self.drain()
        await self._door.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = scope["method"] == "HEAD"
        try:
            request = await read_request({**scope, "method": "GET"} if head else scope, receive, BASE)
            if request.segments[:1] == ("stream",) and not head:
                await self._follow(request, receive, send)
                return
            reply = await self._answer(request)
        except RestanteError as error:
            reply = sign_in.not_taken(error)
        await send_reply(send, reply, head=head)

    async def _answer(self, request: ConsoleRequest) -> ConsoleReply:
        if request.segments[:1] == ("assets",):
            return _asset(request)
        cookie, fresh = self._cookie_of(request)
        if request.method == "POST":
            self._refuse_forged(request, cookie)
        elif fresh and request.from_elsewhere:
            return sign_in.come_in(address_of(kept(request)))
        reply = await self._visited(request, cookie)
        if fresh and "set-cookie" not in reply.headers:
            reply.headers["set-cookie"] = self._set(cookie, request)
        return reply

    async def _visited(self, request: ConsoleRequest, cookie: str) -> ConsoleReply:
        if request.segments == ("sign-in",):
            return await self._sign_in(request, cookie)
        if request.segments == ("sign-out",) and request.method == "POST":
            return self._sign_out(request, cookie)
        try:
            visit = await self._visit(request, cookie)
        except Unauthenticated:
            self._sessions.end(cookie)
            return redirect(at("sign-in", page=kept(request)))
        except RestanteError as error:
            address = None if request.method == "POST" else address_of(kept(request))
            return sign_in.unreachable(self._door.where, error, address)
        return await self._shown(visit)

    async def _shown(self, visit: Visit) -> ConsoleReply:
        """The page, or what went wrong as a page."""
        try:
            found = self._found(visit)
            visit.place = found.place
            return await found.route.handler(visit)
        except RestanteError as error:
            return _problem(visit, error)
        except Exception:  # noqa: BLE001  # whatever it is, the visitor gets a page, and the log the rest
            _log.exception("A page of the console failed.")
            return _problem(visit, Internal("The console failed. The log of its process has more."))

    def _found(self, visit: Visit) -> FoundRoute:
        request = visit.request
        found = self._router.find(request.method, request.segments)
        if found is None:
            raise NotFound("There is no such page.")
        if not found.route.may(visit.visitor):
            raise Forbidden("Your token does not have the role that this page needs.")
        return found

    # --- Visitors

    async def _visit(self, request: ConsoleRequest, cookie: str, *, using: bool = True) -> Visit:
        session = self._sessions.find(cookie, using=using)
        hub = HubAsker(self._door, None if session is None else session.token)
        visitor = await self._visitor(hub)
        extras = await self._extras.of(visitor, hub)
        return Visit(request, visitor, hub, self._slow_answers, self._sessions.seal(cookie), extras)

    async def _visitor(self, hub: HubAsker) -> ConsoleVisitor:
        visitor = await hub.get(ConsoleVisitor, "whoami")
        if visitor.open:
            self._check_open()
        return visitor

    async def check_hub(self) -> None:
        """Refuse a hub that is there, and may not be shown here."""
        with suppress(Unauthenticated, Unavailable):
            await self._visitor(HubAsker(self._door, None))

    def _cookie_of(self, request: ConsoleRequest) -> tuple[str, bool]:
        """The visitor's cookie, or a new one."""
        given = request.cookies.get(self._cookie)
        return (given, False) if given is not None and is_cookie(given) else (new_cookie(), True)

    def _set(self, cookie: str, request: ConsoleRequest) -> str:
        age = f"Max-Age={CONSOLE_SESSION_SECONDS:.0f}"
        secure = "; Secure" if request.encrypted else ""
        return f"{self._cookie}={cookie}; Path={BASE}; {age}; HttpOnly; SameSite=Strict{secure}"

    def _refuse_forged(self, request: ConsoleRequest, cookie: str) -> None:
        """A change must come from a page of this console: by the form's seal, and by what browsers say of its origin."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        elsewhere = origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower()
        sealed = self._sessions.is_sealed(cookie, request.form.get("seal", ""))
        if site not in _SAFE_SITES or elsewhere or not sealed:
            raise Forbidden(
                "This form is not from this session. Go back, load the page again, and repeat what you did."
            )

    async def _sign_in(self, request: ConsoleRequest, cookie: str) -> ConsoleReply:
        seal, page = self._sessions.seal(cookie), (request.form.get("page") or request.query.get("page"))
        if request.method != "POST":
            return await sign_in.ask(HubAsker(self._door, None), seal, page)
        token = request.form.get("token", "").strip()
        try:
            _check_token(token)
            await HubAsker(self._door, token).get(ConsoleVisitor, "whoami")
        except RestanteError as error:
            return sign_in.refused(self._door.where, seal, page, error)
        self._sessions.end(cookie)
        reply = redirect(address_of(page))
        reply.headers["set-cookie"] = self._set(self._sessions.begin(token), request)
        return reply

    def _sign_out(self, request: ConsoleRequest, cookie: str) -> ConsoleReply:
        self._sessions.end(cookie)
        reply = redirect(at("sign-in"))
        reply.headers["set-cookie"] = self._set(new_cookie(), request)
        return reply

    # --- Streams

    async def _follow(self, request: ConsoleRequest, receive: Receive, send: Send) -> None:
        cookie, _ = self._cookie_of(request)
        visit = await self._visit(_page_of(request), cookie)
        self._found(visit)
        key = (visit.visitor.sight, visit.request.segments, tuple(sorted(visit.request.query.items())))

        async def allowed() -> Visit:
            again = await self._visit(visit.request, cookie, using=False)
            again.place, again.again = self._found(again).place, True
            if again.visitor.sight != visit.visitor.sight:
                raise Unauthenticated("Another token has signed in. Load the page again.")
            return again

        async def made() -> Mapping[str, str]:
            again = await allowed()
            await self._found(again).route.handler(again)
            return {name: part.text for name, part in again.parts.items()}

        await self._streams.serve(key, made, allowed, receive, send)


def _page_of(request: ConsoleRequest) -> ConsoleRequest:
    """The page whose parts a stream sends."""
    query = dict(request.query)
    path = query.pop("page", "")
    segments = tuple(unquote(segment) for segment in path.split("/")) if path else ()
    return ConsoleRequest("GET", segments, query, request.headers)


def _check_token(token: str) -> None:
    if not token.isascii() or not token.isprintable() or not 0 < len(token) <= 200:
        raise InvalidRequest("A token is a line that begins with rst_. Paste it as it was given to you.")


def _problem(visit: Visit, error: RestanteError) -> ConsoleReply:
    titles = {404: "Not found", 403: "Not allowed", 409: "Not possible now", 410: "Gone"}
    status = status_of(error.code)
    return problem_page(visit, titles.get(status, "That did not work"), error.message, status=status)


@cache
def _content(name: str) -> bytes:
    return files("restante.console.assets").joinpath(name).read_bytes()


def _asset(request: ConsoleRequest) -> ConsoleReply:
    name = "/".join(request.segments[1:])
    if request.method != "GET" or name not in _ASSETS:
        raise NotFound("There is nothing at this address.")
    content = _content(name)
    etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"cache-control": "no-cache", "etag": etag}
    if request.headers.get("if-none-match") == etag:
        return ConsoleReply(status=304, media_type=_ASSETS[name], headers=headers)
    return ConsoleReply(content, media_type=_ASSETS[name], headers=headers)
