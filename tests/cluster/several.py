"""A hub of several shards and doors in threads of this process: the same parts as in processes, sooner started."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from restante.cluster.shard_folders import found_table, shard_folders
from restante.cluster.shard_lines import ShardLines
from restante.limits import CONNECTIONS_BACKLOG
from restante.ports.backplane import Backplane
from restante.ports.content import OriginPort
from restante.server.doors.door_service import DoorService
from restante.server.serve import ServedHub, listening_socket, url_of
from restante.server.shard_service import ShardService
from restante.settings import Settings

SHARDS, DOORS = 4, 2


class SeveralHub:
    """Shards, and doors in front of them."""

    def __init__(
        self,
        folder: Path,
        settings: Settings | None = None,
        *,
        shards: int = SHARDS,
        doors: int = DOORS,
        origins: Mapping[str, OriginPort] | None = None,
        clock: Callable[[], int] | None = None,
        backplane: Backplane | None = None,
        prepare: Callable[[DoorService, Path, int], None] = lambda *_: None,
    ) -> None:
        chosen = settings or Settings()
        chosen = msgspec.structs.replace(chosen, server=msgspec.structs.replace(chosen.server, port=0))
        self.table = found_table(folder, min(shards, chosen.partition_count), chosen.partition_count)
        bound = listening_socket(chosen.server.host, 0)
        bound.listen(CONNECTIONS_BACKLOG)
        self.url = url_of(bound)
        self._folder, self._settings, self._origins, self._clock = folder, chosen, origins, clock
        self._backplane = backplane
        self._prepare = prepare
        numbers = range(len(self.table.ranges))
        self.folders = shard_folders(folder, self.table)
        self.shards = [self._shard(number) for number in numbers]
        self.doors = [self._door(bound.dup(), number) for number in range(doors)]
        bound.close()

    def _shard(self, number: int) -> ServedHub:
        place = (self._folder, self.table, number, self._settings, self.url)
        return ServedHub(ShardService(*place, origins=self._origins, clock=self._clock, backplane=self._backplane))

    def _door(self, bound: socket.socket, number: int) -> ServedHub:
        lines = ShardLines(self.table.ranges, self.folders)
        claims = None if self._origins is None else frozenset(n for n, port in self._origins.items() if port.content)
        place = (self._folder, self._settings, bound, self.url)
        service = DoorService(lines, *place, {}, claims, backplane=self._backplane)
        service.be_one_of_several(self._folder, number)
        self._prepare(service, self._folder, number)
        return ServedHub(service)

    def stop_shard(self, number: int) -> None:
        self.shards[number].stop()

    def start_shard(self, number: int) -> None:
        self.shards[number] = self._shard(number)

    def stop(self) -> None:
        for own in (*self.shards, *self.doors):
            own.release()
        for own in (*self.doors, *self.shards):
            own.stop()
