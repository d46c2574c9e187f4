"""The backup of several shards: a tar of the shards' backups, all of one moment, then a manifest as in each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from restante.hub.engine.partitions import FORMAT_VERSION
from restante.hub.upkeep.archive import (
    END,
    JOINT_FORMAT,
    NO_CHECKSUM,
    Manifest,
    ManifestFile,
    archive_size,
    ending,
    header,
    padding,
    shard_name,
)
from restante.model.mailboxes.answers import moment


class ShardedData(NamedTuple):
    """The fixed facts of data in several shards."""

    partition_count: int
    starts: tuple[int, ...]
    key: int


class JointBackup:
    """Makes the bytes around the shards' backups, whose sizes are known. `show` must see all bytes of these, for checksums."""

    def __init__(self, data: ShardedData, sizes: Sequence[int], *, made_at: int, held_seconds: float) -> None:
        files = [
            ManifestFile(name=shard_name(number), bytes=size, sha256=NO_CHECKSUM) for number, size in enumerate(sizes)
        ]
        self._seconds = made_at // 1_000_000
        self._manifest = Manifest(
            format=JOINT_FORMAT,
            data_format=FORMAT_VERSION,
            made_at=moment(made_at),
            partition_count=data.partition_count,
            files=tuple(files),
            starts=data.starts,
            key=data.key,
            held_ms=round(held_seconds * 1_000, 1),
        )
        self._checks = [hashlib.sha256() for _ in sizes]
        self.size_bytes = archive_size(self._manifest)

    def before(self, shard: int) -> bytes:
        file = self._manifest.files[shard]
        return header(file.name, file.bytes, seconds=self._seconds)

    def show(self, shard: int, chunk: bytes) -> bytes:
        """Add a chunk of a shard's backup to its checksum; return the chunk."""
        self._checks[shard].update(chunk)
        return chunk

    def after(self, shard: int) -> bytes:
        return padding(self._manifest.files[shard].bytes)

    def end(self) -> bytes:
        files = zip(self._manifest.files, self._checks, strict=True)
        checked = [msgspec.structs.replace(file, sha256=check.hexdigest()) for file, check in files]
        manifest = msgspec.structs.replace(self._manifest, files=tuple(checked))
        return ending(manifest, seconds=self._seconds) + END
