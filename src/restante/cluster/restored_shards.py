"""Restoring a backup into a data folder: of one shard, or of several with their table. Its fences are beyond any that lived."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from restante.cluster.shard_folders import ShardTable, write_table
from restante.hub.upkeep import restore as restoring
from restante.hub.upkeep.archive import Manifest
from restante.hub.upkeep.restore import Read, restored_folders
from restante.stores.sqlite import SqliteStore


def restore(read: Read, folder: Path) -> Manifest:
    """Put a backup into a new or empty folder. If anything is wrong with it, the folder is as it was."""
    manifest = restoring.restore(read, folder)
    for own in restored_folders(folder, manifest):
        _raise_fences(own, manifest)
    if manifest.starts:
        # Last: without it the folder is nobody's.
        write_table(
            folder, ShardTable(partition_count=manifest.partition_count, starts=manifest.starts, key=manifest.key)
        )
    return manifest


def _raise_fences(folder: Path, manifest: Manifest) -> None:
    """Each opening since the backup has raised them by one, and took longer than a millisecond."""
    since = datetime.now(UTC) - manifest.made_at
    with closing(SqliteStore.open(folder)) as store:
        store.raise_fences(manifest.partition_count, by=max(1, int(since.total_seconds() * 1_000)) + 1)
