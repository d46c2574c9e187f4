"""`restante copy`: everything of one store into another: a data folder, or a database."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.options import AsJson
from restante.cli.shared.output import print_json, progress_bar
from restante.cli.shared.plain import say
from restante.model.figures import counted, duration, size

if TYPE_CHECKING:
    from restante.hub.upkeep.copy import CopiedStore
    from restante.ports.store import Store

_HELP = "a data folder, or postgresql://user@host/database"


def copy(
    source: Annotated[str, typer.Option("--from", metavar="STORE", help=f"What to copy: {_HELP}.", show_default=False)],
    target: Annotated[str, typer.Option("--to", metavar="STORE", help=f"A new store: {_HELP}.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Copy a hub's data into a new store: messages, numbers, what was collected, bundles, batches, producers, consignments.

    The copy has the same partitions and the same sequence numbers, so clients go on as before. A folder must not be open; a
    database may be in use, and is copied as of one moment: that is also its backup. Several shards become one:
    consignments that they are committing are finished first.

    \b
    restante copy --from ./data --to postgresql://mail@db.example.org/mail
    restante copy --from postgresql://mail@db.example.org/mail --to ./night
    restante doctor ./night
    """
    started = time.monotonic()
    copied = _copied(source, target)
    _print(source, target, copied, time.monotonic() - started, as_json=as_json)


def _copied(source: str, target: str) -> CopiedStore:
    from restante.cli.shared.hub_options import settings_here
    from restante.cluster.joined_shards import open_look
    from restante.cluster.reshard import settle, shard_count
    from restante.hub.upkeep.copy import copy as copy_store
    from restante.hub.upkeep.shard_rows import rows_hidden_in_one
    from restante.settings.texts import is_store_url

    if not is_store_url(source) and shard_count(Path(source)) > 1:
        settle(Path(source), settings_here())
    with (
        closing(open_look(source, settings_here())) as read,
        closing(_new_store(target)) as written,
        progress_bar() as bar,
    ):
        task = bar.add_task(f"copying {source}", total=None, note="")
        hidden = rows_hidden_in_one(read)
        return copy_store(
            read, written, hidden=hidden, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )


def _new_store(target: str) -> Store:
    from restante.assembly import new_store, open_database
    from restante.cli.shared.hub_options import settings_here
    from restante.errors import InvalidRequest
    from restante.settings.texts import is_store_url

    if is_store_url(target):
        return open_database(target, settings_here())
    if Path(target).exists() and any(Path(target).iterdir()):
        raise InvalidRequest(f"{target} is not empty. Name a new folder, or an empty one.")
    return new_store(target, settings_here())


def _print(source: str, target: str, copied: CopiedStore, seconds: float, *, as_json: bool) -> None:
    if as_json:
        print_json({"from": source, "to": target, **copied._asdict(), "seconds": round(seconds, 3)})
        return
    say(
        f"{target}: {counted(copied.partitions, 'partition')}, {counted(copied.entries, 'row')}, "
        f"{counted(copied.blobs, 'blob')}, {size(copied.bytes)}, in {duration(seconds)}."
    )
