"""Where engines meet the hub, and the hub its clients: the doors `restante.open` and `restante.aio.open`."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from restante.backplanes import open_backplane
from restante.client.concurrency.openings import Unopened
from restante.client.surface import asynchronous, sync
from restante.counters import open_counters
from restante.errors import DataDamaged, ExtraMissing, InvalidRequest, InvalidSettings
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.hub.door.opening_rows import BlobsAhead
from restante.hub.engine.partitions import create_deed, load_deed
from restante.limits import SHARED_PARTITIONS
from restante.model.shards.ranges import Ranges, even_ranges
from restante.model.storage.partition import check_new_count
from restante.outside.webhooks import webhook_poster
from restante.ports.backplane import Backplane
from restante.ports.carrier import Shard
from restante.ports.clerk import Clerk
from restante.ports.clock import Clock
from restante.ports.content import OriginPort
from restante.ports.membership import NodeMembership, WholeStore
from restante.ports.store import Store, StoreReader
from restante.settings import Settings
from restante.settings.texts import is_store_url
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.data_folder import require_whole


def system_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1_000


def open_store(place: str | os.PathLike[str]) -> Store:
    """The store of a data folder that is there already, or of a database, without a hub: for those who look after it."""
    if is_store_url(os.fspath(place)):
        return open_database(os.fspath(place))
    _require_folder(os.fspath(place))
    path = Path(os.fspath(place))
    if not (path / "restante.db").is_file():
        lost = (path / "blobs").is_dir()
        detail = (
            "the database is missing, yet there are blobs; restore it from a backup" if lost else "no database is in it"
        )
        raise (DataDamaged if lost else InvalidRequest)(f"{path} is not a data folder of Restante: {detail}.")
    return SqliteStore.open(path)


def open_database(url: str, settings: Settings | None = None) -> WholeStore:
    """The store in a database; its tables are made if need be."""
    store: WholeStore = _postgresql().PostgresqlStore.open(url, password=store_password(settings))
    return store


def found_database(url: str, settings: Settings, *, shards: int, partitions: int | None = None) -> None:
    """A new store in a database, with so many shards; nothing must be in it yet."""
    few = settings.partition_count if shards == 1 else SHARED_PARTITIONS
    count = partitions or few
    check_new_count(count)
    firsts = [own.start for own in even_ranges(count, shards)]
    with closing(open_database(url, settings)) as store:
        store.cut(firsts)
    with closing(open_database(url, settings)) as store:
        if load_deed(store) is None:
            create_deed(store, count, int.from_bytes(os.urandom(8), "big"), store.raise_fences(count))


class SharedStore(NamedTuple):
    """The facts that are fixed in a database that nodes share."""

    ranges: Ranges
    key: int


def look_at_shards(url: str, settings: Settings) -> SharedStore | None:
    """The shards of a database; None if nobody has founded it."""
    try:
        moment = _postgresql().PostgresqlMoment.open(url, password=store_password(settings))
    except InvalidRequest as error:
        if error.details.get("tables") == "none":
            return None
        raise
    with closing(moment):
        deed = load_deed(moment)
        if deed is None:
            return None
        firsts = [*moment.shard_firsts(), deed.partition_count]
    return SharedStore(tuple(itertools.starmap(range, itertools.pairwise(firsts))), deed.key)


def enter_nodes(url: str, name: str, settings: Settings, about: bytes) -> NodeMembership:
    """A place among the nodes of a database."""
    node: NodeMembership = _postgresql().PostgresqlNode.open(url, name, password=store_password(settings), about=about)
    return node


def open_moment(place: str | os.PathLike[str], settings: Settings | None = None) -> StoreReader:
    """A store to be looked at: a data folder that no hub has open, or a database as it is at this moment."""
    if not is_store_url(os.fspath(place)):
        return open_store(place)
    moment: StoreReader = _postgresql().PostgresqlMoment.open(os.fspath(place), password=store_password(settings))
    return moment


def database_layout() -> int:
    """The number of the layout of tables that this version makes."""
    layout: int = _postgresql().LAYOUT
    return layout


def _postgresql() -> ModuleType:
    try:
        return import_module("restante.stores.postgresql")  # only who uses it needs the extra
    except ImportError as error:
        raise ExtraMissing(
            f"A store in PostgreSQL needs more than is installed ({error}): pip install 'restante[postgresql]'."
        ) from error


def store_password(settings: Settings | None) -> str | None:
    """The content of the password file, if the settings name one."""
    named = settings.store_password_file if settings is not None else None
    if named is None:
        return None
    try:
        return Path(named).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"store_password_file: {named} cannot be read ({error}).") from error


def open_hub(  # noqa: PLR0913 - all that a hub may be opened with
    folder: str | os.PathLike[str] | None,
    *,
    settings: Settings | None = None,
    origins: Mapping[str, OriginPort] | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
    backplane: Backplane | None = None,
    shard: Shard | None = None,
    clerk: Clerk | None = None,
    ahead: BlobsAhead | None = None,
) -> OpenHub:
    """A hub over a data folder (made if need be), over a database by its address, or over a store of the caller's.

    With a `shard` it has some of the partitions, and others have the rest; `ahead` was read of these before.
    """
    if (folder is None) == (store is None):
        raise InvalidRequest("Give a data folder or a store, and not both.")
    known = settings or Settings()
    if shard is None and folder is not None and not is_store_url(os.fspath(folder)):
        require_whole(Path(os.fspath(folder)))
    chosen = store if store is not None else new_store(os.fspath(folder or ""), known)
    try:
        return OpenHub(
            chosen,
            settings=known,
            origins=origins or {},
            clock=clock or system_clock,
            random=os.urandom,
            counters=open_counters(known),
            post_webhook=webhook_poster(known.webhooks.allowed_networks),
            backplane=open_backplane(known) if backplane is None else backplane,
            shard=shard,
            clerk=clerk,
            ahead=ahead,
        )
    except BaseException:
        chosen.close()
        raise


def new_store(place: str, settings: Settings) -> Store:
    """The store of a folder or a database, made if need be, without a hub."""
    if is_store_url(place):
        return _of_one_shard(place, open_database(place, settings))
    _require_folder(place)
    if Path(place).is_file():
        raise InvalidRequest(f"{place} is a file. Give a folder for the data; it is made if need be.")
    return SqliteStore.open(Path(place))


def _require_folder(place: str) -> None:
    """Refuse the address of some other store: it would be taken for the name of a new folder."""
    if "://" in place:
        raise InvalidRequest(
            f"{place} is no store that there is: name a folder, or a database as postgresql://user@host/database."
        )


def _of_one_shard(url: str, store: WholeStore) -> Store:
    """A hub alone has one shard; the rows of several say what shards have asked of one another."""
    if store.shard_count > 1:
        store.close()
        raise InvalidRequest(
            f"{url} has {store.shard_count} shards: serve it by nodes, with `restante serve --node NAME`."
        )
    return store


def open(  # the public name
    folder: str | os.PathLike[str] | None,
    *,
    settings: Settings | None = None,
    origins: Mapping[str, OriginPort] | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
) -> sync.Hub:
    """Open a hub in this process, for programs that wait. The folder is made if need be; one process at a time has it open.

    ```python
    with restante.open("./data") as hub:
        hub.send(recipient="alice", text="hello")
    ```
    """
    return sync.Hub(open_hub(folder, settings=settings, origins=origins, clock=clock, store=store))


class HubOpening(Unopened):
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
    """Open a hub in this process, for asynchronous programs; otherwise as `restante.open`.

    ```python
    async with restante.aio.open("./data") as hub:
        await hub.send(recipient="alice", text="hello")
    ```
    """
    return HubOpening(partial(open_hub, folder, settings=settings, origins=origins, clock=clock, store=store))
