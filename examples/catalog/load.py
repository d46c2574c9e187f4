"""A load generator: users who look around in the catalogue, comment, rate and delete, each as fast as it is answered.

Requests are written by hand on kept connections, and answers read by httptools: a client library would use more
processor time than the API does, and the figures would be its own.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from examples.catalog.shapes import LIST_ITEMS_MAX

ANSWER_SECONDS = 30.0
DELETES_COMMENT = 0.1
OWN_ITEM = 0.02
"""How many journeys delete their comment, and how many are about an item of their own, which goes at the end."""


class Action(NamedTuple):
    """An action that was accepted, and where its result is."""

    id: str
    method: str
    location: str

    @property
    def item_id(self) -> str:
        """The item that the action concerns."""
        return self.location.split("/")[2]


@dataclass(slots=True)
class Answers:
    """The answers that all users saw."""

    seconds: array[float] = field(default_factory=lambda: array("d"))
    statuses: Counter[int] = field(default_factory=Counter)
    errors: int = 0
    examples: list[str] = field(default_factory=list)
    """A few of the errors."""
    accepted: list[Action] = field(default_factory=list)

    def failed(self, text: str) -> None:
        self.errors += 1
        if len(self.examples) < 5:
            self.examples.append(text)


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Connection(asyncio.Protocol):
    """A kept connection: one request, one answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._parser: Any = None
        self._headers: dict[bytes, bytes] = {}
        self._body = b""
        self._gone = asyncio.Event()
        self._gone.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # that of uvloop is none by its class
        self._gone.clear()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._gone.set()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or ConnectionResetError("the connection was closed"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Answer(self._parser.get_status_code(), self._headers, self._body))

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Answer:
        assert self._transport is not None
        self._headers, self._body, self._parser = {}, b"", httptools.HttpResponseParser(self)
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._waiting

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        await self._gone.wait()


class User:
    """One user, with a connection of its own."""

    def __init__(self, url: str, key: str, answers: Answers, seed: int) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._key, self._answers = key, answers
        self._chance = random.Random(seed)
        self._connection = Connection()

    async def walk(self, items: list[str], until: float) -> None:
        """One journey after another."""
        try:
            while time.perf_counter() < until:
                try:
                    await self._journey(items)
                except (OSError, TimeoutError, httptools.HttpParserError) as error:
                    self._answers.failed(repr(error))
                    await self.leave()
        finally:
            await self.leave()

    async def leave(self) -> None:
        await self._connection.close()

    async def _journey(self, items: list[str]) -> None:
        await self.ask("GET", "/catalogitem")
        for _ in range(3):
            await self.ask("GET", self._chance.choice(items))
        own = self._chance.random() < OWN_ITEM
        item = await self.create_item() if own else self._chance.choice(items)
        await self._opinion(item)
        if own:
            await self.ask("DELETE", item, expected=202)

    async def _opinion(self, item: str) -> None:
        await self.ask("GET", f"{item}/comments")
        await self.ask("GET", f"{item}/ratings")
        await self.ask("POST", f"{item}/ratings", {"rating": self._chance.randint(1, 5)}, expected=202)
        comment = await self.ask("POST", f"{item}/comments", {"authorName": "ada", "text": "It shines."}, expected=202)
        location = comment.headers.get(b"location", b"").decode()
        if location:
            await self.ask("GET", location, expected=(200, 404))  # 404 until a worker has done it
            if self._chance.random() < DELETES_COMMENT:
                await self.ask("DELETE", location, expected=202)

    async def create_item(self) -> str:
        body = {"id": str(uuid.uuid4()), "name": f"lamp {self._chance.random():.9f}", "description": "It shines."}
        answer = await self.ask("POST", "/catalogitem", {**body, "price": 12.5}, expected=201)
        return answer.headers.get(b"location", f"/catalogitem/{body['id']}".encode()).decode()

    async def ask(self, method: str, path: str, body: object = None, expected: int | tuple[int, ...] = 200) -> Answer:
        """One request, timed; an answer that was not expected is an error."""
        if not self._connection.is_open:
            await self._connect()
        request = self._request(method, path, body)
        started = time.perf_counter()
        answer = await self._connection.ask(request)
        self._answers.seconds.append(time.perf_counter() - started)
        self._answers.statuses[answer.status] += 1
        if answer.status != expected and answer.status not in (expected if isinstance(expected, tuple) else ()):
            self._answers.failed(f"{method} {path}: {answer.status} {answer.body.decode(errors='replace')}")
        elif answer.status == 202:
            action_id, location = answer.headers[b"x-action-id"], answer.headers[b"location"]
            self._answers.accepted.append(Action(action_id.decode(), method, location.decode()))
        return answer

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, self._connection = await loop.create_connection(Connection, self._host, self._port)

    def _request(self, method: str, path: str, body: object) -> bytes:
        content = b"" if body is None else msgspec.json.encode(body)
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\nx-api-key: {self._key}\r\n"
        return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


async def stocked(url: str, key: str, count: int = LIST_ITEMS_MAX) -> list[str]:
    """Items to look at: their paths."""
    user = User(url, key, answers := Answers(), seed=0)
    items = [await user.create_item() for _ in range(count)]
    await user.leave()
    if answers.errors:
        raise RuntimeError(f"The catalogue did not take items: {answers.examples}")
    return items


async def load(url: str, key: str, items: list[str], *, users: int, seconds: float) -> Answers:
    """Drive so many users, for so many seconds."""
    answers, until = Answers(), time.perf_counter() + seconds
    async with asyncio.TaskGroup() as tasks:
        for number in range(users):
            tasks.create_task(User(url, key, answers, seed=number + 1).walk(items, until))
    return answers
