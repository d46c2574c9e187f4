"""What `restante migrate` does with a database: its tables, and the data in them."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple


class StoredVersions(NamedTuple):
    """The layout of a database, a folder's included, and the format of the data in it."""

    layout: int | None
    format: int | None


def known() -> StoredVersions:
    from restante.assembly import database_layout
    from restante.hub.engine.partitions import FORMAT_VERSION

    return StoredVersions(database_layout(), FORMAT_VERSION)


def found(store: str) -> StoredVersions:
    """The format that is found, with nothing changed; a hub may own the store."""
    from restante.assembly import open_moment
    from restante.cli.shared.hub_options import settings_here
    from restante.errors import InvalidRequest
    from restante.hub.upkeep.migrate import format_of

    try:
        moment = open_moment(store, settings_here())
    except InvalidRequest as error:
        if error.details.get("tables") == "none":
            return StoredVersions(None, None)
        raise
    with closing(moment):
        return StoredVersions(known().layout, format_of(moment))


def brought_forward(store: str, before: StoredVersions) -> StoredVersions:
    """As a hub does it that opens the store."""
    from restante.assembly import open_hub
    from restante.cli.shared.hub_options import settings_here

    open_hub(store, settings=settings_here()).close()
    return before
