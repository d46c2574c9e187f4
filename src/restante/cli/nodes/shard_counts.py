"""`restante shards split` and `join`: more or fewer shards for a data folder, or a database, that nobody serves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.options import AsJson, StoreUrl
from restante.cli.shared.output import print_json, progress_bar
from restante.cli.shared.plain import say
from restante.errors import InvalidRequest
from restante.model.figures import counted, duration, size

if TYPE_CHECKING:
    from restante.cluster.reshard import Resharded

_Data = Annotated[
    Path,
    typer.Option("--data", metavar="FOLDER", file_okay=False, help="The data folder; nobody serves it."),
]


def split(
    shards: Annotated[
        int, typer.Argument(metavar="N", min=2, help="How many shards there will be.", show_default=False)
    ],
    data: _Data = Path("data"),
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Cut a data folder, or a database, into more shards, so that more processes share the work.

    Stop the hub first. The data of a folder is copied into new folders, and the old ones are removed at the end: keep as much
    space free as the folder takes. In a database nothing moves. If the command is interrupted, the split is done completely or
    not at all.

    \b
    restante shards split 4 --data ./mail
    restante serve --data ./mail --doors 2
    restante shards split 16 --store postgresql://mail@db/mail
    """
    _change(data, store, shards, more=True, as_json=as_json)


def join(
    shards: Annotated[int, typer.Argument(metavar="[N]", min=1, help="How many shards there will be.")] = 1,
    data: _Data = Path("data"),
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Join the shards of a data folder, or a database, to fewer, or to one, which one process serves.

    Stop the hub first. As with a split, the join is done completely or not at all.

    \b
    restante shards join --data ./mail
    restante shards join 2 --data ./mail
    restante shards join --store postgresql://mail@db/mail
    """
    _change(data, store, shards, more=False, as_json=as_json)


def _change(data: Path, store: str | None, shards: int, *, more: bool, as_json: bool) -> None:
    has, started = _shard_count(data, store), time.monotonic()
    if has != shards and (has < shards) != more:
        place = f"--data {data}" if store is None else f"--store {store}"
        other = f"restante shards {'join' if more else 'split'} {shards} {place}"
        raise InvalidRequest(f"{store or data} has {counted(has, 'shard')}. To have {shards}: {other}")
    done = _in_folder(data, shards) if store is None else _in_database(store, shards)
    _print(store or data, done, time.monotonic() - started, folder=store is None, as_json=as_json)


def _shard_count(data: Path, store: str | None) -> int:
    from restante.cli.shared.hub_options import settings_here
    from restante.cluster.database_reshard import database_shard_count
    from restante.cluster.reshard import shard_count

    return shard_count(data) if store is None else database_shard_count(store, settings_here())


def _in_folder(data: Path, shards: int) -> Resharded:
    from restante.cli.shared.hub_options import settings_here
    from restante.cluster.reshard import reshard

    with progress_bar() as bar:
        task = bar.add_task(f"copying {data}", total=None, note="")
        return reshard(data, shards, settings_here(), lambda now, total: bar.update(task, completed=now, total=total))


def _in_database(store: str, shards: int) -> Resharded:
    from restante.cli.shared.hub_options import settings_here
    from restante.cluster.database_reshard import reshard_database

    return reshard_database(store, shards, settings_here())


def _print(place: Path | str, done: Resharded, seconds: float, *, folder: bool, as_json: bool) -> None:
    if as_json:
        print_json({"folder" if folder else "store": str(place), **done._asdict(), "seconds": round(seconds, 3)})
    elif done.before == done.after:
        say(f"{place} has {counted(done.after, 'shard')} already. There is nothing to do.")
    else:
        rows = counted(done.entries, "row")
        work = f"{rows}, {size(done.bytes)} copied" if folder else f"{rows} changed"
        say(f"{place}: {counted(done.after, 'shard')} instead of {done.before}, {work} in {duration(seconds)}.")
