"""The way to a hub: its public routes, asked in the same process or over the network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from restante.client.nodes.hub_places import HubPlaces
from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import Failure
from restante.client.transport.http import configured
from restante.console.web.exchanges import Event, Receive, Scope, Send
from restante.decoders import json_decoder
from restante.errors import RestanteError, Unavailable
from restante.limits import CONSOLE_ANSWER_BYTES_MAX, CONSOLE_HUB_SECONDS
from restante.wire.problems import error_of

T = TypeVar("T")


class HubAnswer(NamedTuple):
    """An answer of a hub."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ConsoleDoor(Protocol):
    """Carries one request to a hub, and its answer back."""

    where: str
    """The address of the hub, for people."""

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HubAnswer: ...
    async def close(self) -> None: ...


class HubApplication(Protocol):
    """An ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class SameProcessDoor:
    """A hub served by this process: the routes are asked without a connection, and let in or refuse as always."""

    def __init__(self, application: HubApplication, where: str) -> None:
        self._application = application
        self.where = where

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HubAnswer:
        path, _, query = target.partition("?")
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("127.0.0.1", 0),
        }
        taken = _Answering(body)
        await self._application(scope, taken.receive, taken.send)
        return taken.answer()

    async def close(self) -> None:
        """Close the door, which holds nothing."""


class _Answering:
    """Both sides of one request in the same process."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._status = 500
        self._headers: dict[str, str] = {}
        self._parts = bytearray()
        self._over = asyncio.Event()

    async def receive(self) -> Event:
        """The body; then nothing until the answer is whole, as of a client that waits for it."""
        body, self._body = self._body, None
        if body is None:
            await self._over.wait()
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._status = event["status"]
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event["headers"]}
        else:
            self._parts += event.get("body", b"")
            if not event.get("more_body", False):
                self._over.set()
            _check_length(len(self._parts))

    def answer(self) -> HubAnswer:
        return HubAnswer(self._status, self._headers, bytes(self._parts))


class NetworkDoor:
    """The door to a hub in another process, over HTTP. If there are several addresses and one does not answer, the next one is asked."""

    def __init__(self, *addresses: HubAddress) -> None:
        self._places = HubPlaces(addresses, time.monotonic)
        patience = self._places.patience(CONSOLE_HUB_SECONDS)
        self._client = configured(ClientBuilder(), addresses[0], connect_seconds=patience).build()
        self.where = addresses[0].url

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HubAnswer:
        place = self._places.any_place()
        try:
            return await self._asked(place, method, target, headers, body)
        except PyreqwestError as error:
            self._places.heard(place, Failure(str(error), reached=method != "GET"))
            if method != "GET" or not self._places.several:
                raise self._silent() from error
        try:
            return await self._asked(self._places.any_place(), method, target, headers, body)
        except PyreqwestError as error:
            raise self._silent() from error

    def _silent(self) -> Unavailable:
        return Unavailable(f"The hub at {self.where} does not answer. Is it running?")

    async def _asked(
        self, place: HubAddress, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> HubAnswer:
        if "authorization" in headers:
            place.warn_of_plaintext()
        builder = self._client.request(method, place.url + target)
        builder = builder.timeout(timedelta(seconds=CONSOLE_HUB_SECONDS)).headers(
            {name: value for name, value in headers.items() if name.lower() != "host"}
        )
        answer = await (builder.body_bytes(body) if body else builder).build().send()
        content = bytes(await answer.bytes())
        _check_length(len(content))
        return HubAnswer(answer.status, dict(answer.headers.items()), content)

    async def close(self) -> None:
        await self._client.close()


def _check_length(length: int) -> None:
    if length > CONSOLE_ANSWER_BYTES_MAX:
        raise Unavailable("The hub's answer is too long for a page. Use the command line, which has no such bound.")


class HubAsker:
    """The hub as one visitor sees it: every request has the visitor's own token, and no other."""

    def __init__(self, door: ConsoleDoor, token: str | None) -> None:
        self._door = door
        self._own = {"host": "localhost", "accept": "application/json"}
        if token is not None:
            self._own["authorization"] = f"Bearer {token}"

    @property
    def where(self) -> str:
        return self._door.where

    async def get(self, kind: type[T], /, *segments: str, **query: object) -> T:
        """The answer of a route, as a value of this type."""
        answer = await self._asked("GET", _target(segments, query))
        return json_decoder(kind).decode(answer.body)

    async def maybe(self, kind: type[T], /, *segments: str, **query: object) -> T | None:
        """The answer of the hub; None where the visitor may not look, or the hub has no such route."""
        try:
            return await self.get(kind, *segments, **query)
        except RestanteError as error:
            if error.code in ("forbidden", "not_found", "unavailable"):
                return None
            raise

    async def do(self, method: str, /, *segments: str, body: object = None, **query: object) -> Any:  # noqa: ANN401 - JSON
        """Change something; gives the JSON of the answer, if there is any."""
        sent = b"" if body is None else msgspec.json.encode(body)
        answer = await self._asked(method, _target(segments, query), sent)
        return msgspec.json.decode(answer.body) if answer.body else None

    async def _asked(self, method: str, target: str, body: bytes = b"") -> HubAnswer:
        headers = {**self._own, "content-type": "application/json"} if body else self._own
        answer = await self._door.ask(method, target, headers, body)
        if answer.status >= 400:
            raise _refusal(answer)
        return answer


def _target(segments: tuple[str, ...], query: Mapping[str, object]) -> str:
    path = "".join(f"/{quote(segment, safe='')}" for segment in segments)
    given = {name.rstrip("_"): _text(value) for name, value in query.items() if value is not None}
    return f"/v1{path}{'?' + urlencode(given) if given else ''}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refusal(answer: HubAnswer) -> RestanteError:
    try:
        return error_of(json_decoder(dict[str, object]).decode(answer.body))
    except msgspec.MsgspecError:
        return Unavailable(f"The address of the hub answered {answer.status}. Is a hub there?")
