"""The hubs that the same tests are run on, each able to close and open again on what it has stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import restante
from restante.client.sockets.publish_socket_sync import PublishSocket
from restante.client.surface import sync
from restante.client.surface.surface import Hub
from restante.client.transport.http_sync import HttpLink
from restante.client.transport.options import terms_of
from restante.ports.content import OriginPort
from restante.server.serve import ServedHub, start
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.cluster.several import SeveralHub
from tests.postgresql_server import schema_address
from tests.reference.hub import ReferenceHub
from tests.reference.office import Office, ReferenceStore

START = 1_790_000_000_000_000
"""Where the fake clock begins: microseconds, a moment in 2026."""


class FakeClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)


class Engine(Protocol):
    """Somewhere to keep mail. `open` may be called again once the hub it gave was closed."""

    def open(self, *, settings: Settings, origins: Mapping[str, OriginPort], clock: Callable[[], int]) -> Hub: ...


class MemoryEngine:
    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()

    def open(self, *, settings: Settings, origins: Mapping[str, OriginPort], clock: Callable[[], int]) -> Hub:
        self.store = self.store.survivor()
        return restante.open(None, settings=settings, origins=origins, clock=clock, store=self.store)


class SqliteEngine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, *, settings: Settings, origins: Mapping[str, OriginPort], clock: Callable[[], int]) -> Hub:
        return restante.open(self.folder, settings=settings, origins=origins, clock=clock)


class PostgresqlEngine:
    def __init__(self, folder: Path) -> None:
        self.address = schema_address(folder)

    def open(self, *, settings: Settings, origins: Mapping[str, OriginPort], clock: Callable[[], int]) -> Hub:
        return restante.open(self.address, settings=settings, origins=origins, clock=clock)


class ReferenceEngine:
    """The reference passes the same tests: it is a fake that must keep what the real thing keeps.

    It is no `Hub` by type: it has the calls of mailboxes, with the signatures of `Hub`, and no others.
    """

    def __init__(self, folder: Path) -> None:
        self.store = ReferenceStore()

    def open(self, *, settings: Settings, origins: Mapping[str, OriginPort], clock: Callable[[], int]) -> Hub:
        return cast("Hub", ReferenceHub(Office(self.store, settings, origins, clock)))


class WireHub(sync.Hub):
    """A client that takes its hub with it when it closes."""

    def __init__(self, running: ServedHub | SeveralHub) -> None:
        terms = terms_of(running.url)
        super().__init__(HttpLink(terms), partial(PublishSocket, terms, 1))
        self.running = running

    def close(self) -> None:
        super().close()
        self.running.stop()


class WireEngine:
    """The hub behind a real socket, and the client in front of it: what is true in process is true over the network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, *, settings: Settings, origins: Mapping[str, OriginPort], clock: Callable[[], int]) -> Hub:
        return WireHub(start(self.folder, settings, origins=origins, clock=clock))


class DoorsEngine:
    """Four shards behind two doors: what is true of one hub is true of several processes that are one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, *, settings: Settings, origins: Mapping[str, OriginPort], clock: Callable[[], int]) -> Hub:
        return WireHub(SeveralHub(self.folder, settings, origins=origins, clock=clock))


ENGINES: dict[str, Callable[[Path], Engine]] = {
    "memory": MemoryEngine,
    "sqlite": SqliteEngine,
    "postgresql": PostgresqlEngine,
    "wire": WireEngine,
    "doors": DoorsEngine,
    "reference": ReferenceEngine,
}
