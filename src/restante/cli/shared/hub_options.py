"""Where a command finds its hub: the options that all of them share, and the door that these open."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from restante.cli.shared.plain import SaidLogs

if TYPE_CHECKING:
    from restante.calls.call import Call
    from restante.cli.shared.output import Item, Page
    from restante.client.surface.surface import Hub
    from restante.client.transport.link import Link
    from restante.client.transport.small_link import SmallLink
    from restante.hub.door.hub import OpenHub as InnerHub
    from restante.ports.content import OriginPort
    from restante.settings import Settings


DEFAULT_URL = "http://127.0.0.1:8470"
_PANEL = "Which hub"
Answer = TypeVar("Answer")

HubUrl = Annotated[
    str,
    typer.Option(
        "--hub",
        envvar="RESTANTE_HUB",
        metavar="ADDRESS",
        help="The hub to ask: host:port, or a URL.",
        rich_help_panel=_PANEL,
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar="RESTANTE_TOKEN", help="The access token.", show_default=False, rich_help_panel=_PANEL),
]
_DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        file_okay=False,
        help="Open this data folder in the command, without a hub. No hub may have the folder open.",
        rich_help_panel=_PANEL,
    ),
]


class Door(NamedTuple):
    """The hub that the options name: an address, or a data folder, with its token."""

    hub: str
    token: str | None
    data: Path | None

    @property
    def where(self) -> str:
        return self.hub if self.data is None else str(self.data)

    def open(self, *, create: bool = False) -> Hub:
        """The hub, in this process or far away: both have the same surface. Only `create` makes a folder."""
        if self.data is not None:
            return open_folder(self.data, create=create)
        from restante.cli.shared.no_pandas import leave_pandas_out

        leave_pandas_out()  # Before the client: some of its modules make arrays when they are loaded.
        from restante.client.surface.connect import connect

        hear_client()
        return connect(self.hub, token=self.token)

    def open_small(self) -> SmallLink:
        """The hub far away, for a single message or an explanation: it comes without Arrow. Close it."""
        from restante.client.transport.options import terms_of
        from restante.client.transport.small_link import SmallLink

        hear_client()
        return SmallLink(terms_of(self.hub, token=self.token))

    def link(self, *, create: bool = False) -> Link:
        """The link under the hub's surface, for the few things that the surface leaves out. Close it."""
        if self.data is not None:
            return open_hub_of(self.data, create=create)
        from restante.cli.shared.no_pandas import leave_pandas_out

        leave_pandas_out()
        from restante.client.transport.http_sync import HttpLink
        from restante.client.transport.options import terms_of

        hear_client()
        return HttpLink(terms_of(self.hub, token=self.token))

    def ask(self, call: Call[Answer]) -> Answer:
        """The answer of the hub to one call."""
        with closing(self.link()) as link:
            return link.call(call)

    def listed(self, call: Call[Page], rows: Callable[[Page], Sequence[Item]], limit: int) -> list[Item]:
        """The first `rows` that the hub lists for a call."""
        from restante.cli.shared.output import listed

        with closing(self.link()) as link:
            return listed(link, call, rows, limit)


def at_hub(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a `door`: on the command line the options --hub, --token and --data stand in its place."""

    def options(hub: HubUrl = DEFAULT_URL, token: TokenOption = None, data: _DataFolder = None) -> Door:
        return Door(hub, token, data)

    @wraps(command)
    def run(*, hub: str, token: str | None, data: Path | None, **others: Any) -> None:  # noqa: ANN401  # the command's own
        command(door=options(hub, token, data), **others)

    said = inspect.signature(options, eval_str=True).parameters.values()
    own = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        in_its_place = [one.replace(kind=parameter.kind) for one in said]
        parameters += in_its_place if parameter.name == "door" else [parameter]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # what Typer reads
    return run


def open_folder(folder: Path, *, create: bool = False) -> Hub:
    opened = open_hub_of(folder, create=create)
    from restante.client.surface.sync import Hub as Surface

    return Surface(opened)


def open_hub_of(folder: Path, *, create: bool = False) -> InnerHub:
    """The hub of a data folder, with what its surface leaves out."""
    from restante.cli.shared.no_pandas import leave_pandas_out

    leave_pandas_out()
    from restante.assembly import open_hub
    from restante.errors import DataLocked

    if not create:
        require_data(folder)
    settings = settings_here()
    try:
        return open_hub(folder, settings=settings, origins=_origins(settings))
    except DataLocked as error:
        error.message = f"{error.message} To ask the hub that has it, use --hub instead of --data."
        raise


def _origins(settings: Settings) -> dict[str, OriginPort]:
    """How the origins are reached whose addresses the settings give: with them, claim checks work here too."""
    if not settings.origins:
        return {}
    from restante.outside.origins import origin_ports

    return origin_ports(settings)


def require_data(folder: Path) -> None:
    """Refuse a data folder that does not exist, so that a mistyped name is an error and not a new folder."""
    from restante.errors import InvalidRequest

    if not any((folder / name).exists() for name in ("restante.db", "blobs", "shards.json")):
        raise InvalidRequest(f"{folder} is not a data folder of Restante: no database is in it.")


def settings_here() -> Settings:
    """The settings that a hub started here would have."""
    from restante.settings.file import load_settings

    path = os.environ.get("RESTANTE_SETTINGS")
    return load_settings(Path(path) if path else None, os.environ)


def hear_client() -> None:
    """Print what the client says while it tries again, from now on. A second call changes nothing."""
    from restante.client.transport.address import LOGGER

    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, SaidLogs) for handler in logger.handlers):
        logger.addHandler(SaidLogs())
        logger.propagate = False
