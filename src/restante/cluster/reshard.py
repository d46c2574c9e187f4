"""Another number of shards for a data folder that nobody serves.

The new folders are made beside the old ones, with every row of their partitions. Then the table is replaced, in one step;
from that moment on the new folders count. Folders that do not count are removed: at the end, or, after a crash, when the data
folder is served or resharded next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from restante.assembly import open_hub
from restante.cluster.joined_shards import open_look
from restante.cluster.local_shards import LocalShards
from restante.cluster.shard_folders import ShardTable, drop_leftovers, read_table, shard_folder, write_table
from restante.errors import InvalidRequest
from restante.hub.engine.partitions import Deed, load_deed
from restante.hub.upkeep.copy import CopiedStore, copy
from restante.hub.upkeep.shard_rows import rows_hidden_alone, rows_hidden_apart, rows_of_several
from restante.model.shards.ranges import Ranges, even_ranges
from restante.ports.store import StoreReader
from restante.settings import Settings
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.data_folder import JOINED, SEVERAL
from restante.stores.sqlite.files import flush_names

SETTLE_SECONDS = 60.0

Progress = Callable[[int, int], object]
"""Gets how many partitions are copied, and how many there are."""


class Resharded(NamedTuple):
    """The outcome of a change of shards: how many there were and are, and what was copied for it."""

    before: int
    after: int
    entries: int
    bytes: int


def shard_count(folder: Path) -> int:
    table = read_table(folder)
    return 1 if table is None else len(table.starts)


def reshard(folder: Path, shards: int, settings: Settings, progress: Progress = lambda _done, _all: None) -> Resharded:
    """Give a folder so many shards. Clients see no difference but in speed: numbers and positions stay."""
    before = shard_count(folder)
    settle(folder, settings)
    with closing(open_look(folder)) as source:
        table, deed = read_table(folder), load_deed(source)
        drop_leftovers(folder, table)
        if before == shards:
            return Resharded(before, shards, 0, 0)
        if deed is None:
            raise InvalidRequest(f"Nothing is stored in {folder} yet: serve it with --shards {shards}.")
        ranges = even_ranges(deed.partition_count, shards)
        copied = _copied(folder, source, table, deed, ranges, progress)
    drop_leftovers(folder, read_table(folder))
    return Resharded(before, shards, sum(one.entries for one in copied), sum(one.bytes for one in copied))


def settle(folder: Path, settings: Settings) -> None:
    """Open a folder once, so that it is of this version, and nothing is under way between its shards."""
    table = read_table(folder)
    if table is None:
        if (folder / "restante.db").is_file():
            open_hub(folder, settings=settings).close()
        return
    with LocalShards(folder, table, settings) as shards:
        shards.settle(SETTLE_SECONDS)


def _copied(
    folder: Path, source: StoreReader, table: ShardTable | None, deed: Deed, ranges: Ranges, progress: Progress
) -> list[CopiedStore]:
    count = deed.partition_count
    if len(ranges) == 1:
        with _new_folder(folder / JOINED) as target:
            hidden = rows_hidden_alone(source, count)
            copied = [copy(source, target, hidden=hidden, progress=progress)]
        _take_joined(folder)
        return copied
    hidden = rows_hidden_apart(source, ranges)
    more = rows_of_several(source, count) if table is None else {}
    starts, epoch = tuple(own.start for own in ranges), 1 if table is None else table.epoch
    new = ShardTable(partition_count=count, starts=starts, key=deed.key, epoch=epoch + 1)
    copied = []
    for number, own in enumerate(ranges):
        with _new_folder(shard_folder(folder, number, new.epoch)) as target:
            copied.append(copy(source, target, owned=own, more=more, hidden=hidden, progress=progress))
    flush_names(folder)
    write_table(folder, new)
    return copied


@contextmanager
def _new_folder(folder: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore.open(folder)) as store:
        yield store
    (folder / "lock").unlink(missing_ok=True)
    flush_names(folder)


def _take_joined(folder: Path) -> None:
    """The joined data takes its place, and counts when there is no table any more."""
    for name in ("blobs", "restante.db"):
        (folder / JOINED / name).rename(folder / name)
    flush_names(folder)
    (folder / SEVERAL).unlink()
    flush_names(folder)
