"""The API of `examples/catalog` served in this process, with a database of its own."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from examples.catalog.database import Database
from examples.catalog.serve import listening, server_of
from examples.catalog.worker import DATABASE_VARIABLE, app
from restante.work import ActionRequest
from restante.work.testing import WorkRun, run

KEY = "the key of these tests"
TEST_DATA = {"X-Test-Data": "true"}
BUSY_SECONDS = 0.05


class Answered(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def detail(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        assert self.body["status"] == self.status
        assert self.body["correlationId"] == self.headers["x-correlation-id"]
        return str(self.body["detail"])


class Caller:
    """Asks an API for things."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        """A name of a header has `_` for `-`; `key` is the API key."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if "key" in sent:
            sent["X-API-KEY"] = sent.pop("key")
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request(method, path, None if body is None else content, sent)
            answer = connection.getresponse()
            read = answer.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answered(answer.status, found, msgspec.json.decode(read) if read else None)

    def get(self, path: str) -> Answered:
        return self.ask("GET", path)

    def new_item(self, name: str = "a lamp", **more: str) -> str:
        """The path of a new item."""
        body = {"name": name, "description": "It shines.", "price": 12.5}
        answered = self.ask("POST", "/catalogitem", body, key=KEY, **more)
        assert answered.status == 201
        return answered.headers["location"]


class ServedCatalog(Caller):
    """An API whose actions wait in `asked` until `work` does them."""

    def __init__(self, url: str, path: Path) -> None:
        super().__init__(url)
        self.path = path
        self.asked: list[ActionRequest] = []
        self.refusal: Exception | None = None
        """What the hub says instead of accepting."""

    async def ask_for(self, action: ActionRequest) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(action)

    def work(self) -> WorkRun:
        """Do what was asked for, as a worker would."""
        asked, self.asked = self.asked, []
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(DATABASE_VARIABLE, str(self.path))
            ran = run(app, asked)
        assert set(ran.states) <= {"done"}
        return ran


@contextmanager
def served_catalog(folder: Path) -> Iterator[ServedCatalog]:
    path = folder / "catalog.db"
    with listening("127.0.0.1", 0) as (listener, url):
        world = ServedCatalog(url, path)
        database = Database(path, busy_seconds=BUSY_SECONDS)
        server = server_of(database, world.ask_for, KEY)
        thread = threading.Thread(target=asyncio.run, args=(server.serve([listener]),))
        thread.start()
        try:
            yield world
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
            database.close()
