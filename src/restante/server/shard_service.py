"""One shard of several served: its HTTP server, and its calls, on sockets in its folder; doors are its only clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from restante.cluster.call_server import CallServer
from restante.cluster.places import own_socket
from restante.cluster.shard_folders import ShardTable, shard_folders
from restante.cluster.shard_lines import CALLS_SOCKET, REQUESTS_SOCKET, LineCarrier
from restante.ports.backplane import Backplane
from restante.ports.carrier import Shard
from restante.ports.clock import Clock
from restante.ports.content import OriginPort
from restante.server.serve import ServedPlace, Service
from restante.settings import Settings
from restante.settings.tree import KeyPath
from restante.stores.sqlite.data_folder import make_folder


class ShardService(Service):
    """A shard, not yet running."""

    def __init__(  # noqa: PLR0913 - all that a shard is made of
        self,
        home: Path,
        table: ShardTable,
        number: int,
        settings: Settings,
        url: str,
        *,
        places: Mapping[KeyPath, str] | None = None,
        origins: Mapping[str, OriginPort] | None = None,
        clock: Clock | None = None,
        backplane: Backplane | None = None,
    ) -> None:
        folders = shard_folders(home, table)
        folder, settings = folders[number], msgspec.structs.replace(settings, partition_count=table.partition_count)
        self._carrier = LineCarrier(table.ranges, folders)
        shard = Shard(table.ranges[number], self._carrier, table.key, table.epoch)
        make_folder(folder)
        place = ServedPlace(own_socket(folder / REQUESTS_SOCKET), url, home, shard)
        try:
            super().__init__(
                folder,
                settings,
                insecure=True,
                origins=origins,
                clock=clock,
                places=places,
                place=place,
                backplane=backplane,
            )
        except BaseException:
            self._carrier.close()
            raise
        self._calls = CallServer(self.desk.own, folder / CALLS_SOCKET)

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        await self._calls.start()
        try:
            await super().run(started)
        finally:
            self._calls.close()
            self._carrier.close()
