"""The folders of a hub with several shards on one machine: `shards.json` says which partitions each has.

`data/shard-0`, `data/shard-1` … are data folders, each of one shard. Tokens and secrets lie in `data` itself.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from restante.decoders import json_decoder
from restante.errors import DataDamaged, InvalidRequest
from restante.model.shards.ranges import Ranges, even_ranges
from restante.stores.sqlite.data_folder import FILE_MODE, JOINED, SEVERAL, make_folder, require_own
from restante.stores.sqlite.files import flush_names

_FAILURE = "not_started.txt"
"""A file in the folder of a shard that says why the shard could not be started."""


class ShardTable(msgspec.Struct, frozen=True, kw_only=True):
    """Which shard has which partitions; it changes only while nobody serves."""

    partition_count: int
    starts: tuple[int, ...]
    """The first partition of each shard."""
    key: int
    """The key of all hashes, the same in all shards."""
    epoch: int = 1
    """A change of the shards raises it; their folders are named by it."""

    @property
    def ranges(self) -> Ranges:
        ends = (*self.starts[1:], self.partition_count)
        return tuple(range(first, end) for first, end in zip(self.starts, ends, strict=True))


def shard_folder(folder: Path, shard: int, epoch: int = 1) -> Path:
    return folder / (f"shard-{shard}" if epoch == 1 else f"shard-{shard}.{epoch}")


def shard_folders(folder: Path, table: ShardTable) -> list[Path]:
    return [shard_folder(folder, number, table.epoch) for number in range(len(table.starts))]


def drop_leftovers(folder: Path, table: ShardTable | None) -> None:
    """Remove folders that do not count: those of a change of the shards that was cut short, and the old ones of a finished change."""
    kept = [] if table is None else shard_folders(folder, table)
    for path in (*folder.glob("shard-*"), folder / JOINED):
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)
    (folder / f"{SEVERAL}.new").unlink(missing_ok=True)
    if table is not None:
        # The database goes last: without it, the others are taken for what is left of a lost one.
        shutil.rmtree(folder / "blobs", ignore_errors=True)
        for name in ("log-0", "log-1", "restante.db-wal", "restante.db-shm", "restante.db"):
            (folder / name).unlink(missing_ok=True)


def note_failure(folder: Path, reason: str | None) -> None:
    """Why the shard of this folder could not be started; None: it was."""
    with suppress(OSError):  # A full disk is reported by other means, too.
        if reason is None:
            (folder / _FAILURE).unlink(missing_ok=True)
        else:
            (folder / _FAILURE).write_text(reason, encoding="utf-8")


def read_failure(folder: Path) -> str | None:
    try:
        return (folder / _FAILURE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def read_table(folder: Path) -> ShardTable | None:
    """The shards of a folder; None if it has no more than one."""
    try:
        content = (folder / SEVERAL).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return json_decoder(ShardTable).decode(content)
    except msgspec.MsgspecError as error:
        raise DataDamaged(f"{folder / SEVERAL} cannot be read ({error}). Restore it from a backup.") from error


def write_table(folder: Path, table: ShardTable) -> None:
    """Whole or not at all, whatever happens meanwhile."""
    new = folder / f"{SEVERAL}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        os.write(descriptor, msgspec.json.format(msgspec.json.encode(table)))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    new.replace(folder / SEVERAL)
    flush_names(folder)


def found_table(folder: Path, shards: int, partition_count: int) -> ShardTable:
    """The table of a folder with so many shards, made if nothing is in the folder yet; refused if it has another number."""
    table = read_table(folder)
    if table is None:
        if shards > 1 and (folder / "restante.db").exists():
            raise refuse_count(folder, 1, shards)
        for begun in folder.glob("shard-*"):
            with suppress(OSError):
                begun.rmdir()  # if it is empty: left by a start that was cut short
        require_own(folder)
        make_folder(folder)
        ranges = even_ranges(partition_count, shards)
        key = secrets.randbits(64)
        table = ShardTable(partition_count=partition_count, starts=tuple(own.start for own in ranges), key=key)
        for number in range(shards):
            make_folder(shard_folder(folder, number))
        write_table(folder, table)
    if len(table.starts) != shards:
        raise refuse_count(folder, len(table.starts), shards)
    require_folders(folder, table)
    return table


def require_folders(folder: Path, table: ShardTable) -> None:
    """Raise if a folder is missing. Folders are made before the table, so it was lost, and must not begin empty."""
    for own in shard_folders(folder, table):
        if not own.is_dir():
            raise DataDamaged(
                f"{own} is missing, and the data of that shard with it. Restore the folder from a backup."
            )


def refuse_count(folder: Path, has: int, wanted: int) -> InvalidRequest:
    return InvalidRequest(
        f"{folder} has {has} {'shard' if has == 1 else 'shards'}, not {wanted}. Serve it with --shards {has}, or change it first: "
        f"restante shards {'split' if wanted > has else 'join'} {wanted} --data {folder}"
    )
