"""`restante serve`: the hub on the network."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.serving.console import mount_console
from restante.cli.shared.options import NewFolder, StoreUrl
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from restante.settings import Settings
    from restante.settings.tree import KeyPath


_Shards = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processes that have the messages. Default: 1, or what the folder has."),
]
_Doors = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processes that speak HTTP, in front of the shards. Default: 1."),
]
_Node = Annotated[
    str | None, typer.Option(metavar="NAME", help="Be one of several nodes on the database that --store names.")
]
_Listen = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Where other nodes reach this one. Default: 127.0.0.1:8472.")
]
_Advertise = Annotated[
    str | None, typer.Option(metavar="HOST", help="The name of this machine for clients and other nodes.")
]


def serve(  # noqa: PLR0917 - each is an option
    data: NewFolder = Path("data"),
    store: StoreUrl = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one. Default: 8470.")
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="RESTANTE_SETTINGS", dir_okay=False, help="The settings, a TOML file."),
    ] = None,
    shards: _Shards = None,
    doors: _Doors = None,
    node: _Node = None,
    listen: _Listen = None,
    advertise: _Advertise = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines without asking for tokens.")
    ] = False,
) -> None:
    """Serve a hub over HTTP until Ctrl-C or SIGTERM; then the hub finishes the requests under way and ends with 0.

    On the loopback address the hub is open to every program on this machine. On any other address the hub asks for
    tokens, and does not start before there is a token.

    In a terminal the log is text; elsewhere the log is one JSON object a line.

    \b
    restante serve                         ./data on http://127.0.0.1:8470
    restante serve --data ./mail --port 9000
    restante serve --shards 4 --doors 2    the same on several cores
    curl http://127.0.0.1:8470/healthz     is the hub healthy?

    With --store the messages are in PostgreSQL; tokens and secrets stay in the folder:

    \b
    restante serve --store postgresql://mail@db.example.org/mail
    restante serve --store postgresql://mail@db/mail --node a    one of several

    For other machines, make a token first; --new makes the folder for it:

    \b
    restante tokens create --role operator --data ./mail --new
    restante serve --data ./mail --host 0.0.0.0
    """
    from restante.cli.shared.no_pandas import leave_pandas_out
    from restante.errors import ExtraMissing
    from restante.process_memory import spare_memory

    spare_memory()
    leave_pandas_out()
    try:
        from restante.server import logs
    except ImportError as error:
        raise ExtraMissing(
            f"The server needs more than is installed ({error}): pip install 'restante[server]'."
        ) from error

    chosen, places = _chosen(settings, store, host, port)
    chosen = _as_node(chosen, places, {"node": node, "listen": listen, "advertise": advertise})
    logs.set_up(chosen.server)
    if chosen.cluster.node is not None:
        _serve_node(data, chosen, places, shards or doors, insecure=insecure)
        return
    count = _shards(data, chosen.store_url, shards, doors)
    if count > 1:
        _serve_several(data, chosen, places, count, doors or 1, insecure=insecure)
    else:
        _serve_alone(data, chosen, places, insecure=insecure)


def _chosen(
    file: Path | None, store: str | None, host: str | None, port: int | None
) -> tuple[Settings, dict[KeyPath, str]]:
    """The settings that count, and where each came from."""
    import msgspec

    from restante.settings.file import load

    loaded = load(file, os.environ)
    chosen = loaded.settings
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    chosen = msgspec.structs.replace(
        chosen, store_url=store or chosen.store_url, server=msgspec.structs.replace(chosen.server, **given)
    )
    places = dict(loaded.places) | {("server", name): f"option --{name}" for name in given}
    if store is not None:
        places["store_url",] = "option --store"
    return chosen, places


def _as_node(chosen: Settings, places: dict[KeyPath, str], given: dict[str, str | None]) -> Settings:
    """The settings with what was said of the node."""
    import msgspec

    said = {name: value for name, value in given.items() if value is not None}
    places.update({("cluster", name): f"option --{name}" for name in said})
    return msgspec.structs.replace(chosen, cluster=msgspec.structs.replace(chosen.cluster, **said))


def _serve_node(
    data: Path, chosen: Settings, places: dict[KeyPath, str], processes: int | None, *, insecure: bool
) -> None:
    from restante.cli.serving.node import serve_node
    from restante.errors import InvalidRequest

    if chosen.store_url is None:
        raise InvalidRequest("Nodes share a store in a database: give --store too.")
    if processes is not None:
        raise InvalidRequest("A node is one process: leave --shards and --doors out, and start more nodes.")

    def started(url: str) -> None:
        _say_hello(data, chosen.store_url, url, console=chosen.server.console)

    serve_node(data, chosen, insecure=insecure, places=places, started=started)


def _serve_alone(data: Path, chosen: Settings, places: dict[KeyPath, str], *, insecure: bool) -> None:
    from restante.server import serve as serving

    service = serving.Service(data, chosen, insecure=insecure, places=places)
    mount_console(service)
    serving.serve(service, lambda: _say_hello(data, chosen.store_url, service.url, console=chosen.server.console))


def _serve_several(
    data: Path, chosen: Settings, places: dict[KeyPath, str], shards: int, doors: int, *, insecure: bool
) -> None:
    from restante.cli.serving.hub_processes import serve_several

    def started(url: str) -> None:
        _say_hello(data, None, url, console=chosen.server.console)

    serve_several(data, chosen, shards=shards, doors=doors, insecure=insecure, places=places, started=started)


def _shards(data: Path, store: str | None, shards: int | None, doors: int | None) -> int:
    """How many shards are served: as many as the folder has, unless another number is asked for."""
    from restante.cluster.shard_folders import read_table, refuse_count
    from restante.errors import InvalidRequest

    table = None if store is not None else read_table(data)
    has = 1 if table is None else len(table.starts)
    if store is not None and ((shards or 1) > 1 or (doors or 1) > 1):
        raise InvalidRequest("A store in a database is served by one process: leave --shards and --doors out.")
    if table is not None and shards is not None and shards != has:
        raise refuse_count(data, has, shards)
    if table is None and shards in (None, 1) and (doors or 1) > 1:
        raise InvalidRequest("Several doors stand in front of several shards: give --shards too.")
    return has if shards is None else shards


def _say_hello(data: Path, store: str | None, url: str, *, console: bool) -> None:
    """One line for programs; in a terminal, what a person wants to know first."""
    lines = [f"Restante serves {store or data} on {url}"]
    if sys.stdout.isatty():
        lines += [
            f"  data folder   {data.absolute()}" if store is None else f"  data          {store}",
            *([f"  console       {url}/console"] if console else []),
            f"  API pages     {url}/docs",
            f"  try it        restante send --hub {url} --recipient alice --text hello",
            f"  Ctrl-C ends the hub. Everything it has acknowledged is {'on the disk' if store is None else 'stored'}.",
        ]
    say("\n".join(lines), lines=True, flush=True)
