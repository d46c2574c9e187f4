"""`restante serve --shards N --doors M`: the supervisor of several processes that are one hub."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from restante.cluster.shard_folders import ShardTable
    from restante.cluster.supervisor import ChildOrder
    from restante.settings import Settings

_MODULE = "restante.cli.serving.child"
_BEFORE_SECONDS = 15.0
"""How long the port is waited for: the doors of a supervisor that was killed may be ending still."""
_BEYOND_DRAIN_SECONDS = 10.0


def serve_several(
    folder: Path,
    settings: Settings,
    *,
    shards: int,
    doors: int,
    insecure: bool,
    places: Mapping[tuple[str, ...], str],
    started: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT."""
    from restante.cluster.shard_folders import drop_leftovers, found_table
    from restante.server.access.gate import gate_of
    from restante.server.serve import url_of
    from restante.stores.sqlite.data_folder import FolderLock, make_folder

    table = found_table(folder, shards, settings.partition_count)
    make_folder(folder)
    gate_of(settings.server, folder, insecure=insecure)
    lock = FolderLock(folder)
    try:
        table = found_table(folder, shards, settings.partition_count)  # nobody changes it any more
        drop_leftovers(folder, table)
        bound = _listening(folder, table, settings.server.host, settings.server.port)
        url = url_of(bound)

        def order(kind: str, number: int) -> ChildOrder:
            from restante.cluster.supervisor import ChildOrder

            return ChildOrder(
                kind=kind,
                number=number,
                home=str(folder.absolute()),
                settings=settings,
                places=tuple(places.items()),
                table=table,
                url=url,
                listener=bound.fileno() if kind == "door" else -1,
            )

        all_shards = [order("shard", number) for number in range(shards)]
        all_doors = [order("door", number) for number in range(doors)]
        asyncio.run(_supervise(all_shards, all_doors, settings.server.drain_seconds, lambda: started(url)))
    finally:
        lock.release()


async def _supervise(
    shards: list[ChildOrder], doors: list[ChildOrder], drain_seconds: float, started: Callable[[], None]
) -> None:
    from restante.cluster.supervisor import Supervisor

    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    supervisor = Supervisor(shards, doors, _MODULE, drain_seconds + _BEYOND_DRAIN_SECONDS)
    await supervisor.start()
    started()
    await told.wait()
    await supervisor.end()


def _listening(folder: Path, table: ShardTable, host: str, port: int) -> socket.socket:
    """The port. Doors of a supervisor that was killed a moment ago let go of it soon."""
    from restante.cluster.shard_folders import shard_folders
    from restante.errors import InvalidRequest
    from restante.limits import CONNECTIONS_BACKLOG
    from restante.server.serve import listening_socket
    from restante.stores.sqlite.data_folder import FolderLock

    deadline = time.monotonic() + _BEFORE_SECONDS
    while True:
        try:
            bound = listening_socket(host, port)
            bound.listen(CONNECTIONS_BACKLOG)
        except (InvalidRequest, OSError):
            if time.monotonic() > deadline or not FolderLock.is_held(shard_folders(folder, table)[0]):
                raise
            time.sleep(0.1)
        else:
            bound.setblocking(False)
            return bound
