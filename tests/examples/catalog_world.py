"""The API of `examples/catalog` served in this process, with a database of its own."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest
import uvicorn

import restante
import restante.aio
from examples.catalog.database import Database
from examples.catalog.reckoning import Filed, Ledger
from examples.catalog.serve import RETRIES, listening, server_of
from examples.catalog.worker import DATABASE_VARIABLE, app
from restante.server.serve import start
from restante.stores.memory import MemoryStore
from tests.waiting import wait_until
from tests.work.workers import SETTINGS, WorkerHere

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
    """An API and its hub. Actions wait until `work` has them done."""

    def __init__(self, url: str, path: Path, hub_url: str) -> None:
        super().__init__(url)
        self.path, self.hub_url = path, hub_url

    def asked(self) -> list[Filed]:
        """The actions that wait."""
        ledger = self._ledger()
        return [action for place, action in ledger.filed.items() if place not in ledger.ended]

    def ended(self) -> list[str]:
        """How each action ended."""
        return list(self._ledger().ended.values())

    def _ledger(self) -> Ledger:
        ledger = Ledger()
        with restante.connect(self.hub_url) as hub:
            ledger.read(hub)
        return ledger

    def work(self) -> None:
        """Have a worker do all that waits; then the worker leaves."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(DATABASE_VARIABLE, str(self.path))
            with WorkerHere(app, self.hub_url):
                wait_until(lambda: not self.asked(), "everything is done")
        assert set(self.ended()) <= {"collected"}


@contextmanager
def served_catalog(folder: Path, hub_url: str | None = None) -> Iterator[ServedCatalog]:
    """With a hub of its own in memory, unless it is given one."""
    with ExitStack() as stack:
        if hub_url is None:
            hub_url = stack.enter_context(start(None, SETTINGS, store=MemoryStore())).url
        listener, url = stack.enter_context(listening("127.0.0.1", 0))
        database = stack.enter_context(closing(Database(folder / "catalog.db", busy_seconds=BUSY_SECONDS)))
        api = _Api(database, hub_url, listener)
        stack.callback(api.stop)
        yield ServedCatalog(url, folder / "catalog.db", hub_url)


class _Api:
    """An API in a thread of its own."""

    def __init__(self, database: Database, hub_url: str, listener: socket.socket) -> None:
        self._begun = threading.Event()
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(database, hub_url, listener),))
        self._thread.start()
        self._begun.wait()

    async def _serve(self, database: Database, hub_url: str, listener: socket.socket) -> None:
        async with restante.aio.connect(hub_url, retries=RETRIES) as hub:
            self._server = server_of(database, hub, KEY)
            self._begun.set()
            await self._server.serve([listener])

    def stop(self) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()
