"""The routes for operators: filing, expiry and retention now, and a backup of everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.calls.call import Call
from restante.calls.removal import ExpireNow, FileNow, RetainNow
from restante.model.access.access import Role
from restante.server.connections.bodies import read_nothing, stream
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.route_table import Handler, Route
from restante.settings.file import Effective, LoadedSettings


class Done(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The changes that were made now."""

    count: Annotated[int, Meta(ge=0, description="How many runs were merged, or messages settled.")]


def _now(kind: Callable[[], Call[int]]) -> Handler:
    async def handle(desk: Desk, exchange: Exchange) -> None:
        await read_nothing(desk, exchange)
        await exchange.json(200, Done(await desk.call(kind())))

    return handle


CUT = b"restante-cut"
"""The header with which a door asks a shard for its part of a backup over all of them."""


BACKUP_HEADERS = (
    (b"content-disposition", b'attachment; filename="restante-backup.tar"'),
    (b"cache-control", b"no-store"),
)


async def backup(desk: Desk, exchange: Exchange) -> None:
    """Everything as of one moment, as a tar archive; publishing goes on meanwhile."""
    archive = await desk.read(desk.hub.backup, exchange.header(CUT))
    headers = [
        (b"content-length", b"%d" % archive.size_bytes),
        *BACKUP_HEADERS,
    ]
    try:
        await stream(desk, exchange, iter(archive), media_type="application/x-tar", headers=headers)
    finally:
        await desk.link.thread(archive.close)


class SettingsInForce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting that counts, secrets left out, and where each came from."""

    settings: list[Effective]


async def show_settings(desk: Desk, exchange: Exchange) -> None:
    effective = LoadedSettings(desk.settings, desk.places).effective()
    await exchange.json(200, SettingsInForce(effective), headers=[(b"cache-control", b"no-store")])


_OPERATOR = frozenset({Role.OPERATOR})

ROUTES = (
    Route("POST", "/v1/maintenance/file", _now(FileNow), _OPERATOR),
    Route("POST", "/v1/maintenance/expire", _now(ExpireNow), _OPERATOR),
    Route("POST", "/v1/maintenance/retain", _now(RetainNow), _OPERATOR),
    Route("GET", "/v1/backup", backup, _OPERATOR, is_long=True),
    Route("GET", "/v1/settings", show_settings, _OPERATOR),
)
