"""Health with reasons, and metrics."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from restante.calls.mailboxes import ListPartitions
from restante.limits import DISK_FREE_BYTES_MIN, NO_ROOM_SECONDS, PUBLISH_SECONDS_HEALTHY, UNFILED_RUNS_MAX
from restante.model.access.access import Role
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.route_table import ANYBODY, Handler, Route

Probe = Callable[[Desk], str | None]
"""Gives the reason why something is not well, or None."""


Status = Literal["pass", "fail"]


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that was looked at; if it is not well, why."""

    name: str
    status: Status
    duration_ms: float
    reason: str | UnsetType = UNSET


class Health(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether all is well, check by check."""

    status: Status
    checks: list[Check]


def _commits(desk: Desk) -> str | None:
    if not desk.hub.committing:
        return "The hub no longer commits. Its log says why; start it again."
    failure = desk.hub.store_failure()
    if failure is not None:
        return f"The store has stopped: {failure}. Start the hub again: it then finds out what is stored."
    return None


def _commits_in_time(desk: Desk) -> str | None:
    """To start a hub again makes no disk faster, so this is no reason to."""
    stopped = _commits(desk)
    if stopped is not None:
        return stopped
    typical = desk.metrics.typical_publish_seconds()
    if typical > PUBLISH_SECONDS_HEALTHY:
        return f"Half of the publishes of the last minute took more than {typical:.1f} s. Is the disk slow?"
    return None


def _disk(desk: Desk) -> str | None:
    if desk.hub.seconds_without_room() < NO_ROOM_SECONDS:
        # A quota, or a limit on the size of files, may be reached where the disk itself has room.
        return "The last commit found no room. Make room for the data folder, or raise the limit on it."
    if desk.folder is None:
        return None
    free = shutil.disk_usage(desk.folder).free
    if free >= DISK_FREE_BYTES_MIN:
        return None
    return f"Only {free:,} bytes are free for the data folder; at least {DISK_FREE_BYTES_MIN:,} are wanted."


def _filing(desk: Desk) -> str | None:
    most = max((status.unfiled, status.partition) for status in desk.hub.call(ListPartitions()))
    if most[0] <= UNFILED_RUNS_MAX:
        return None
    return f"Partition {most[1]} has {most[0]} unfiled runs: publishers have to wait for the filing."


def _accepting(desk: Desk) -> str | None:
    return "The hub is shutting down." if desk.draining.is_set() else None


def _started(desk: Desk) -> str | None:
    return None if desk.hub.call(ListPartitions()) else "The hub has no partitions yet."


_LIVE: dict[str, Probe] = {"commits": _commits}
_READY: dict[str, Probe] = {"accepting": _accepting, "commits": _commits_in_time, "disk": _disk, "filing": _filing}
_STARTED: dict[str, Probe] = {"started": _started}


def examined(desk: Desk, probes: Iterable[tuple[str, Probe]]) -> tuple[int, Health]:
    checks = []
    for name, probe in probes:
        began = time.perf_counter()
        reason = probe(desk)
        spent = round((time.perf_counter() - began) * 1_000, 3)
        checks.append(Check(name=name, status="fail" if reason else "pass", duration_ms=spent, reason=reason or UNSET))
    failed = any(check.reason for check in checks)
    return 503 if failed else 200, Health(status="fail" if failed else "pass", checks=checks)


def _health(probes: dict[str, Probe]) -> Handler:
    async def handle(desk: Desk, exchange: Exchange) -> None:
        status, answer = examined(desk, probes.items())
        await exchange.json(status, answer, headers=[(b"cache-control", b"no-store")])

    return handle


async def metrics(desk: Desk, exchange: Exchange) -> None:
    text = await desk.link.thread(desk.metrics.text)
    await exchange.answer(200, text, media_type="text/plain; version=0.0.4; charset=utf-8")


ROUTES = (
    Route("GET", "/livez", _health(_LIVE), ANYBODY),
    Route("GET", "/readyz", _health(_READY), ANYBODY),
    Route("GET", "/startupz", _health(_STARTED), ANYBODY),
    Route("GET", "/healthz", _health(_STARTED | _LIVE | _READY), ANYBODY),
    Route("GET", "/metrics", metrics, frozenset({Role.READER})),
)
HEALTH_PATHS = frozenset(route.path.encode() for route in ROUTES if route.roles is ANYBODY)
"""Where anybody may ask, and under any name: probes know the hub by an address of their own."""
