"""The part of `restante migrate` for a database: its tables, and the data in them."""

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
    from restante.errors import FormatUnsupported, InvalidRequest
    from restante.hub.upkeep.migrate import format_of

    try:
        moment = open_moment(store, settings_here())
    except InvalidRequest as error:
        if error.details.get("tables") == "none":
            return StoredVersions(None, None)
        raise
    except FormatUnsupported as error:
        older = error.details.get("found")
        if isinstance(older, int) and older < (known().layout or 0):
            return StoredVersions(older, None)
        raise
    with closing(moment):
        return StoredVersions(known().layout, format_of(moment))


def brought_forward(
    store: str, before: StoredVersions, shards: int | None = None, partitions: int | None = None
) -> StoredVersions:
    """Bring a store forward, as a hub does that opens it. A new one gets so many shards and partitions."""
    from restante.assembly import found_database, open_database
    from restante.cli.shared.hub_options import settings_here
    from restante.errors import InvalidRequest
    from restante.hub.upkeep import migrate as migrating

    settings = settings_here()
    with closing(open_database(store, settings)) as opened:
        found = migrating.migrate(opened).before
    if found is None:
        found_database(store, settings, shards=shards or 1, partitions=partitions)
    elif shards is not None or partitions is not None:
        raise InvalidRequest("The store is there already: its shards and partitions stay as they are.")
    return StoredVersions(before.layout, found)
