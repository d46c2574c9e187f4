"""`restante shards split` and `join`: more or fewer shards for a data folder that nobody serves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.options import AsJson
from restante.cli.shared.output import print_json, progress_bar
from restante.cli.shared.plain import say
from restante.errors import InvalidRequest
from restante.model.figures import counted, duration, size

if TYPE_CHECKING:
    from restante.cluster.reshard import Resharded

_Data = Annotated[
    Path,
    typer.Option("--data", metavar="FOLDER", exists=True, file_okay=False, help="The data folder; nobody serves it."),
]


def split(
    shards: Annotated[
        int, typer.Argument(metavar="N", min=2, help="How many shards there will be.", show_default=False)
    ],
    data: _Data = Path("data"),
    as_json: AsJson = False,
) -> None:
    """Cut a data folder into more shards, so that more processes share the work.

    Nobody may serve the folder meanwhile. All data is copied into new folders, and the old ones are removed at the end: keep as much
    room free as the folder takes. If the command is cut short, the folder is as before, or as wished for.

    \b
    restante shards split 4 --data ./mail
    restante serve --data ./mail --doors 2
    """
    _change(data, shards, more=True, as_json=as_json)


def join(
    shards: Annotated[int, typer.Argument(metavar="[N]", min=1, help="How many shards there will be.")] = 1,
    data: _Data = Path("data"),
    as_json: AsJson = False,
) -> None:
    """Join the shards of a data folder to fewer, or to one, which one process serves.

    It is done like a split: nobody may serve the folder, everything is copied, and it is done wholly or not at all.

    \b
    restante shards join --data ./mail
    restante shards join 2 --data ./mail
    """
    _change(data, shards, more=False, as_json=as_json)


def _change(data: Path, shards: int, *, more: bool, as_json: bool) -> None:
    from restante.cli.shared.hub_options import settings_here
    from restante.cluster.reshard import reshard, shard_count

    has, started = shard_count(data), time.monotonic()
    if has != shards and (has < shards) != more:
        other = f"restante shards {'join' if more else 'split'} {shards} --data {data}"
        raise InvalidRequest(f"{data} has {counted(has, 'shard')}. To have {shards}: {other}")
    with progress_bar() as bar:
        task = bar.add_task(f"copying {data}", total=None, note="")
        done = reshard(data, shards, settings_here(), lambda now, total: bar.update(task, completed=now, total=total))
    _print(data, done, time.monotonic() - started, as_json=as_json)


def _print(data: Path, done: Resharded, seconds: float, *, as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(data), **done._asdict(), "seconds": round(seconds, 3)})
    elif done.before == done.after:
        say(f"{data} has {counted(done.after, 'shard')} already. There is nothing to do.")
    else:
        say(
            f"{data}: {counted(done.after, 'shard')} instead of {done.before}, {counted(done.entries, 'row')}, "
            f"{size(done.bytes)} copied in {duration(seconds)}."
        )
