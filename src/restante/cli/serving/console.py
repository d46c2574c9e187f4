"""`restante console`: pages in a browser for a hub elsewhere; and the console of a hub that is served here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from restante.cli.shared.hub_options import DEFAULT_URL, HubUrl
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from pathlib import Path

    from restante.server.doors.door_service import DoorService
    from restante.server.http_server import HttpServer

_SOCKET = "console.sock"


def console(
    hub: HubUrl = DEFAULT_URL,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port.")] = 8471,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Show other machines a hub that asks for no tokens.")
    ] = False,
) -> None:
    """Serve the console of a hub elsewhere, until Ctrl-C. A hub that is served by `restante serve` has one at /console.

    The address is http://127.0.0.1:8471/console. The console asks the hub's routes and nothing else. Where the hub asks for tokens, people sign in with theirs: the
    console has none of its own. A hub that asks for no tokens is shown on the loopback address only.

    \b
    restante console --hub https://hub.example.org
    restante console --hub 10.1.2.3:8470 --port 9000
    """
    from restante.errors import ExtraMissing

    try:
        from restante.console.standalone import serve_console
    except ImportError as error:
        raise ExtraMissing(
            f"The console needs more than is installed ({error}): pip install 'restante[server]'."
        ) from error

    def started(address: str) -> None:
        say(f"The console of {hub} is at {address}", flush=True)

    serve_console(hub, host=host, port=port, insecure=insecure, started=started)


def mount_door_console(service: DoorService, home: Path, number: int) -> None:
    """Mount the console at the first of several doors on one port, which keeps the sessions in memory; others pass requests on."""
    from restante.cluster.places import SocketPlace, own_socket, short_path
    from restante.console.view.markup import BASE
    from restante.server.doors.mount_elsewhere import MountElsewhere
    from restante.server.doors.upstream import Upstream

    if number == 0:
        service.sockets.append(own_socket(home / _SOCKET))
        mount_console(service)
    elif service.desk.settings.server.console:
        service.mount(MountElsewhere(BASE, Upstream(SocketPlace(short_path(home / _SOCKET)), "The console")))


def mount_console(service: HttpServer) -> None:
    """The console of a hub that this process serves, unless the settings turn it off.

    It asks the hub's routes as every client does, only without a connection.
    """
    if not service.desk.settings.server.console:
        return
    from restante.console.application import Console
    from restante.console.web.doors import SameProcessDoor

    door = SameProcessDoor(service.application, service.url)
    service.mount(Console(door, cookie=f"restante_console_{urlsplit(service.url).port}"))
