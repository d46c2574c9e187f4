"""`restante migrate`: a data folder that this version can work with, made or brought forward ahead of its hub."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.shared.exits import WRONG
from restante.cli.shared.options import AsJson, NewFolder, StoreUrl
from restante.cli.shared.output import print_json
from restante.cli.shared.plain import say
from restante.cli.upkeep import migrate_database as database
from restante.cli.upkeep.migrate_database import StoredVersions


def migrate(
    data: NewFolder = Path("data"),
    store: StoreUrl = None,
    shards: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Shards of a new database, for several nodes. Default: 1.")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Partitions of a new database. Default: 256, or 16 with one shard."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only look. The exit code is 1 if there is something to do.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a data folder or the tables in a database, or bring one that an older version wrote to the format of this one.

    The migration is done completely or not at all, and takes a moment however much is stored. A hub does the same when it opens a
    folder; this command does it ahead of time. There is no way back, so make a backup first, with the older version. No
    hub may have the folder open meanwhile.

    \b
    restante migrate --data ./mail            create it, or bring it forward
    restante migrate --data ./mail --check    is there something to do?
    restante migrate --check --json           the same for programs
    restante migrate --store postgresql://mail@db.example.org/mail
    restante migrate --store postgresql://mail@db.example.org/mail --shards 16
    """
    from restante.errors import InvalidRequest

    if store is None and (shards is not None or partitions is not None):
        raise InvalidRequest("--shards and --partitions are for a database: give --store too.")
    if store is None:
        from restante.stores.sqlite.data_folder import require_own

        require_own(data)
        before, known = _found(data), _known()
    else:
        before, known = database.found(store), database.known()
    if not check and (before != known or shards is not None or partitions is not None):
        before = (
            _brought_forward(data, before)
            if store is None
            else database.brought_forward(store, before, shards, partitions)
        )
    _print(store or data, before, known, check=check, as_json=as_json)
    raise typer.Exit(WRONG if check and before != known else 0)


def _known() -> StoredVersions:
    from restante.hub.engine.partitions import FORMAT_VERSION
    from restante.stores.sqlite.schema import MIGRATIONS

    return StoredVersions(len(MIGRATIONS), FORMAT_VERSION)


def _found(folder: Path) -> StoredVersions:
    """The format that is found, with nothing changed. The format of a database whose layout is older is not known before that is brought forward."""
    from restante.assembly import open_store
    from restante.hub.upkeep.migrate import format_of
    from restante.stores.sqlite.schema import MIGRATIONS

    layout = _layout_of(folder) if (folder / "restante.db").is_file() else None
    if layout is None and not (folder / "blobs").exists():
        return StoredVersions(None, None)
    if layout in range(len(MIGRATIONS)):
        return StoredVersions(layout, None)
    with closing(open_store(folder)) as store:  # which refuses a layout that is newer, and a database that is lost
        return StoredVersions(layout, format_of(store))


def _layout_of(folder: Path) -> int:
    import sqlite3

    from restante.stores.sqlite.data_folder import FolderLock
    from restante.stores.sqlite.failures import translated
    from restante.stores.sqlite.schema import connect_reader, version_of

    lock = FolderLock(folder)
    try:
        with closing(connect_reader(folder / "restante.db")) as connection:
            return version_of(connection)
    except sqlite3.Error as error:
        raise translated(error, folder) from error
    finally:
        lock.release()


def _brought_forward(folder: Path, before: StoredVersions) -> StoredVersions:
    """The format that it had before, now that all of it is known."""
    from restante.assembly import open_store
    from restante.cli.shared.hub_options import open_hub_of
    from restante.hub.upkeep import migrate as migrating

    found = before.format
    if before.layout is not None:
        with closing(open_store(folder)) as store:
            found = migrating.migrate(store).before
    if found is None:
        open_hub_of(folder, create=True).close()
    return StoredVersions(before.layout, found)


def _print(folder: Path | str, before: StoredVersions, now: StoredVersions, *, check: bool, as_json: bool) -> None:
    if as_json:
        versions = {"before": before._asdict(), "after": now._asdict()}
        print_json({"folder": str(folder), "check": check, "changes": before != now, **versions})
    elif before == now:
        say(f"{folder}: format {now.format}. There is nothing to do.")
    elif before.format is None and before.layout in (None, now.layout):
        say(f"{folder}: {'would be ' if check else ''}created, format {now.format}.")
    else:
        say(f"{folder}: {'would be ' if check else ''}brought {_way(before, now)}.")


def _way(before: StoredVersions, now: StoredVersions) -> str:
    ways = (("layout", before.layout, now.layout), ("format", before.format, now.format))
    steps = [f"from {name} {then} to {later}" for name, then, later in ways if then not in (None, later)]
    return " and ".join(steps)
