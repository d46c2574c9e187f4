"""All shards of a hub opened in one process, for work on them as a whole while nobody serves them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from restante.assembly import open_hub, system_clock
from restante.calls.call import Answer, Call
from restante.cluster.joint_backup import JointBackup, ShardedData
from restante.cluster.shard_folders import ShardTable, require_folders, shard_folders
from restante.errors import Unavailable
from restante.hub.door.hub import OpenHub
from restante.model.shards.ranges import Ranges, shard_of
from restante.ports.carrier import Shard, Silent
from restante.settings import Settings
from restante.stores.sqlite.data_folder import FolderLock

_LOOK_SECONDS = 0.05


class ShardHubs:
    """The hubs of all shards in one process. They carry calls to one another without a wire."""

    def __init__(self, ranges: Ranges) -> None:
        self.hubs: list[OpenHub] = []
        self._ranges = ranges
        self._kept = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._kept.close()

    def ranges(self) -> Ranges:
        return self._ranges

    def carry(self, partition: int, call: Call[Answer]) -> Answer:
        number = shard_of(self._ranges, partition)
        if number >= len(self.hubs):
            raise Silent(f"Shard {number} is being opened.")
        return self.hubs[number].call(call)

    def settle(self, seconds: float) -> None:
        """Wait until nothing is under way between the shards: they do it by themselves. `Unavailable`: something is left."""
        deadline = time.monotonic() + seconds
        while sum(hub.hasten() for hub in self.hubs):
            if time.monotonic() > deadline:
                raise Unavailable(
                    "A consignment or a batch over several shards does not come to its end. Serve the shards, and look at "
                    "`restante shards rounds`."
                )
            time.sleep(_LOOK_SECONDS)

    def _open(self, hub: OpenHub) -> None:
        self.hubs.append(hub)
        self._kept.callback(hub.close)


class LocalShards(ShardHubs):
    """The shards of a folder, which is locked."""

    def __init__(self, folder: Path, table: ShardTable, settings: Settings) -> None:
        super().__init__(table.ranges)
        self.table = table
        with self._kept as kept:
            kept.callback(FolderLock(folder).release)
            require_folders(folder, table)
            for own_folder, own in zip(shard_folders(folder, table), table.ranges, strict=True):
                self._open(open_hub(own_folder, settings=settings, shard=Shard(own, self, table.key)))
            self._kept = kept.pop_all()

    def backup(self) -> JointStream:
        """A backup of one moment: nobody commits anything."""
        return JointStream(self)


class JointStream:
    """The bytes of a backup of several shards, once."""

    def __init__(self, shards: LocalShards) -> None:
        self._kept = ExitStack()
        self._streams = [self._kept.enter_context(hub.backup()) for hub in shards.hubs]
        table, made_at = shards.table, system_clock()
        data = ShardedData(table.partition_count, table.starts, table.key)
        sizes = [stream.size_bytes for stream in self._streams]
        self._joint = JointBackup(data, sizes, made_at=made_at, held_seconds=0.0)
        self.size_bytes = self._joint.size_bytes

    def __iter__(self) -> Iterator[bytes]:
        for number, stream in enumerate(self._streams):
            yield self._joint.before(number)
            for chunk in stream:
                yield self._joint.show(number, chunk)
            yield self._joint.after(number)
        yield self._joint.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()
