"""Where engines meet the hub, and the hub its clients: the doors `restante.open` and `restante.aio.open`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from restante.client.surface import asynchronous, sync
from restante.counters import open_counters
from restante.errors import DataDamaged, InvalidRequest
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.outside.webhooks import webhook_poster
from restante.ports.clock import Clock
from restante.ports.content import OriginPort
from restante.ports.store import Store
from restante.settings import Settings
from restante.stores.sqlite import SqliteStore


def system_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1_000


def open_store(folder: str | os.PathLike[str]) -> Store:
    """The store of a data folder that is there already, without a hub: for those who look after it."""
    path = Path(os.fspath(folder))
    if not (path / "restante.db").is_file():
        lost = (path / "blobs").is_dir()
        detail = (
            "the database is missing, yet there are blobs; restore it from a backup" if lost else "no database is in it"
        )
        raise (DataDamaged if lost else InvalidRequest)(f"{path} is not a data folder of Restante: {detail}.")
    return SqliteStore.open(path)


def open_hub(
    folder: str | os.PathLike[str] | None,
    *,
    settings: Settings | None = None,
    origins: Mapping[str, OriginPort] | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
) -> OpenHub:
    """A hub over a data folder (made if need be), or over a store of the caller's."""
    if (folder is None) == (store is None):
        raise InvalidRequest("Give a data folder or a store, and not both.")
    if store is None and folder is not None and Path(os.fspath(folder)).is_file():
        raise InvalidRequest(f"{os.fspath(folder)} is a file. Give a folder for the data; it is made if need be.")
    chosen = store if store is not None else SqliteStore.open(Path(os.fspath(folder or "")))
    known = settings or Settings()
    try:
        return OpenHub(
            chosen,
            settings=known,
            origins=origins or {},
            clock=clock or system_clock,
            random=os.urandom,
            counters=open_counters(known),
            post_webhook=webhook_poster(known.webhooks.allowed_networks),
        )
    except BaseException:
        chosen.close()
        raise


def open(  # the public name
    folder: str | os.PathLike[str] | None,
    *,
    settings: Settings | None = None,
    origins: Mapping[str, OriginPort] | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
) -> sync.Hub:
    """Open a hub in this process, for programs that wait."""
    return sync.Hub(open_hub(folder, settings=settings, origins=origins, clock=clock, store=store))


class HubOpening:
    """An asynchronous hub being opened: `async with` it, or `await` it and close it."""

    def __init__(self, opener: Callable[[], OpenHub]) -> None:
        self._opener = opener
        self._hub: asynchronous.Hub | None = None

    async def _open(self) -> asynchronous.Hub:
        hub = await asyncio.get_running_loop().run_in_executor(None, self._opener)
        return asynchronous.Hub(InProcess(hub))

    def __await__(self) -> Generator[Any, None, asynchronous.Hub]:
        return self._open().__await__()

    async def __aenter__(self) -> asynchronous.Hub:
        self._hub = await self._open()
        return self._hub

    async def __aexit__(self, *_: object) -> None:
        if self._hub is not None:
            await self._hub.close()


def open_async(
    folder: str | os.PathLike[str] | None,
    *,
    settings: Settings | None = None,
    origins: Mapping[str, OriginPort] | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
) -> HubOpening:
    """Open a hub in this process, for asynchronous programs."""
    return HubOpening(partial(open_hub, folder, settings=settings, origins=origins, clock=clock, store=store))
