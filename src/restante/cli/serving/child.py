"""A process of a hub with several: a shard, or a door. The supervisor starts it and says over a pipe which it is."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from restante.cluster.supervisor import ChildOrder
    from restante.server.http_server import HttpServer
    from restante.server.shard_service import ShardService

_LOCKED_SECONDS = 15.0
"""How long a shard waits for its folder: the one before may be ending still."""
_LOOK_SECONDS = 0.1


def main() -> None:
    from restante.cli.shared.no_pandas import leave_pandas_out
    from restante.cli.shared.plain import say
    from restante.process_memory import spare_memory

    spare_memory()
    leave_pandas_out()
    from restante.cluster.supervisor import read_order
    from restante.errors import RestanteError
    from restante.server import logs

    order = read_order(sys.stdin.buffer.read)
    logs.set_up(order.settings.server)
    try:
        _run(order)
    except RestanteError as error:
        say(error.message, flush=True, lines=True)
        sys.exit(1)


def _run(order: ChildOrder) -> None:
    from restante.process_memory import spare_the_collector
    from restante.server.serve import allow_connections, loop_factory

    serving = _door if order.kind == "door" else _shard
    allow_connections()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serving(order, spare_the_collector))


async def _door(order: ChildOrder, spare: Callable[[], None]) -> None:
    import socket

    from restante.backplanes import open_backplane
    from restante.cli.serving.console import mount_door_console
    from restante.cluster.node_directory import ShardProcesses
    from restante.cluster.shard_folders import shard_folders
    from restante.cluster.shard_lines import ShardLines
    from restante.server.doors.door_service import DoorService

    home, ranges = Path(order.home), order.table.ranges
    folders = shard_folders(home, order.table)
    lines = ShardLines(ranges, folders)
    bound = socket.socket(fileno=order.listener)
    directory = ShardProcesses(lines, folders)
    place = (home, order.settings, bound, order.url, dict(order.places))
    service = DoorService(lines, *place, directory=directory, backplane=open_backplane(order.settings))
    mount_door_console(service, home, order.number)
    service.be_one_of_several(home, order.number)
    spare()
    _obey(service)
    await service.run(_ready)


async def _shard(order: ChildOrder, spare: Callable[[], None]) -> None:
    service = await _opened(order)
    spare()
    _obey(service)
    await service.run(_ready)


async def _opened(order: ChildOrder) -> ShardService:
    """The hub of a shard; its folder may be held for a moment by the process before."""
    from restante.errors import DataLocked
    from restante.server.shard_service import ShardService

    deadline = asyncio.get_running_loop().time() + _LOCKED_SECONDS
    while True:
        try:
            places = dict(order.places)
            return ShardService(Path(order.home), order.table, order.number, order.settings, order.url, places=places)
        except DataLocked:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_LOOK_SECONDS)


def _ready() -> None:
    from restante.cluster.supervisor import READY

    sys.stdout.buffer.write(READY)
    sys.stdout.flush()


def _obey(service: HttpServer) -> None:
    """End with the supervisor: a word over the pipe releases those who wait, its end ends the process."""
    loop, pipe = asyncio.get_running_loop(), sys.stdin.fileno()
    os.set_blocking(pipe, False)

    def heard() -> None:
        said = os.read(pipe, 64)
        if said:
            service.release()
        else:
            loop.remove_reader(pipe)
            service.drain()

    loop.add_reader(pipe, heard)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.drain)


if __name__ == "__main__":
    main()
