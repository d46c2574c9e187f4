"""Where the tests of batches keep their hubs: on every engine, closed and opened again at will."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from restante.assembly import open_hub
from restante.hub.door.hub import OpenHub
from restante.settings import Settings
from restante.stores.memory import MemoryStore

HOUR = 3_600
DAY = 86_400
SETTINGS = Settings(
    partition_count=2,
    housekeeping_seconds=0,
    filing=False,
    open_batch_retention_seconds=2 * HOUR,
    sealed_batch_retention_seconds=7 * DAY,
)


class Place(Protocol):
    """Somewhere that keeps batches. `open` may be called again once the hub it gave was closed."""

    def open(self, clock: Callable[[], int] | None = None) -> OpenHub: ...


class MemoryPlace:
    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()

    def open(self, clock: Callable[[], int] | None = None) -> OpenHub:
        self.store = self.store.survivor()
        return open_hub(None, store=self.store, settings=SETTINGS, clock=clock)


class SqlitePlace:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, clock: Callable[[], int] | None = None) -> OpenHub:
        return open_hub(self.folder, settings=SETTINGS, clock=clock)


PLACES: dict[str, Callable[[Path], Place]] = {"memory": MemoryPlace, "sqlite": SqlitePlace}
