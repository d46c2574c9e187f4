"""`restante serve`: the hub on the network."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.serving.console import mount_console
from restante.cli.shared.options import NewFolder, StoreUrl
from restante.cli.shared.plain import say


def serve(
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
    curl http://127.0.0.1:8470/healthz     is the hub healthy?

    With --store the messages are in PostgreSQL; tokens and secrets stay in the folder:

    \b
    restante serve --store postgresql://mail@db.example.org/mail

    For other machines, make a token first; --new makes the folder for it:

    \b
    restante tokens create --role operator --data ./mail --new
    restante serve --data ./mail --host 0.0.0.0
    """
    import msgspec

    from restante.cli.shared.no_pandas import leave_pandas_out
    from restante.errors import ExtraMissing
    from restante.server.memory import spare_memory
    from restante.settings_file import load

    spare_memory()
    leave_pandas_out()
    try:
        from restante.server import logs
        from restante.server import serve as serving
    except ImportError as error:
        raise ExtraMissing(
            f"The server needs more than is installed ({error}): pip install 'restante[server]'."
        ) from error

    loaded = load(settings, os.environ)
    chosen = loaded.settings
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    chosen = msgspec.structs.replace(
        chosen, store_url=store or chosen.store_url, server=msgspec.structs.replace(chosen.server, **given)
    )
    logs.set_up(chosen.server)
    places = dict(loaded.places) | {("server", name): f"option --{name}" for name in given}
    if store is not None:
        places["store_url",] = "option --store"
    service = serving.Service(data, chosen, insecure=insecure, places=places)
    mount_console(service)
    serving.serve(service, lambda: _say_hello(data, chosen.store_url, service.url, console=chosen.server.console))


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
