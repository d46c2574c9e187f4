"""Health with reasons, and metrics."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from restante.errors import Unavailable
from restante.limits import DISK_FREE_BYTES_MIN, NO_ROOM_SECONDS, PUBLISH_SECONDS_HEALTHY, UNFILED_RUNS_MAX
from restante.model.access.access import Role
from restante.model.health.bounds import Bound, HealthState
from restante.model.health.tree import disabled_alike
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.health.health_rounds import CachedCheck
from restante.server.route_table import ANYBODY, Handler, Route

Probe = Callable[[Desk], str | None]
"""A function that gives the reason why something is not well, or None."""


CheckStatus = Literal["pass", "fail"]


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that was looked at; if it is not well, why."""

    name: str
    status: CheckStatus
    duration_ms: float
    reason: str | UnsetType = UNSET


class Health(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether all is well, check by check."""

    status: CheckStatus
    checks: list[Check]


def _commits(desk: Desk) -> str | None:
    if not desk.hub.committing:
        return "The hub no longer commits. Its log says why; start it again."
    failure = desk.hub.store_failure()
    if failure is not None:
        return f"The store has stopped: {failure}. Start the hub again: it then finds out what is stored."
    return None


def _commits_in_time(desk: Desk) -> str | None:
    """Why commits are not in time, or None. A slow disk is no reason to start the hub again: that makes no disk faster."""
    stopped = _commits(desk) or desk.hub.not_owned()
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
    if desk.folder is None or "disk_left" in desk.settings.health.disabled:
        return None
    free = shutil.disk_usage(desk.folder).free
    if free >= DISK_FREE_BYTES_MIN:
        return None
    return f"Only {free:,} bytes are free for the data folder; at least {DISK_FREE_BYTES_MIN:,} are wanted."


def _filing(desk: Desk) -> str | None:
    most = max((status.unfiled, status.partition) for status in desk.hub.partition_statuses())
    if most[0] <= UNFILED_RUNS_MAX:
        return None
    return f"Partition {most[1]} has {most[0]} unfiled runs: publishers have to wait for the filing."


def _disk_at_red(desk: Desk) -> str | None:
    """Whether the disk is full as for `/readyz`; and the bound of the measure, which an operator may set."""
    reason = _disk(desk)
    if reason is not None or desk.folder is None or "disk_left" in desk.settings.health.disabled:
        return reason
    usage = shutil.disk_usage(desk.folder)
    bound = desk.settings.health.bounds.disk_left
    left = 100 * usage.free / usage.total if usage.total else 0.0
    if Bound(yellow=bound.yellow, red=bound.red).judge(left) is not HealthState.RED:
        return None
    return f"Only {left:.1f} % of the disk are free for the data folder; more than {bound.red:g} % are wanted."


def _accepting(desk: Desk) -> str | None:
    return "The hub is shutting down." if desk.draining.is_set() else None


def _started(desk: Desk) -> str | None:
    return None if desk.hub.partition_statuses() else "The hub has no partitions yet."


_LIVE: dict[str, Probe] = {"commits": _commits}
_READY: dict[str, Probe] = {"accepting": _accepting, "commits": _commits_in_time, "disk": _disk, "filing": _filing}
_STARTED: dict[str, Probe] = {"started": _started}
_NOW: dict[str, Probe] = {"started": _started, "commits": _commits_in_time, "accepting": _accepting}


def examined(desk: Desk, probes: Iterable[tuple[str, Probe]]) -> tuple[int, Health]:
    checks = []
    for name, probe in probes:
        began = time.perf_counter()
        reason = probe(desk)
        checks.append(_check(name, reason, round((time.perf_counter() - began) * 1_000, 3)))
    return _status(checks)


def _check(name: str, reason: str | None, duration_ms: float) -> Check:
    return Check(name=name, status="fail" if reason else "pass", duration_ms=duration_ms, reason=reason or UNSET)


def _status(checks: list[Check]) -> tuple[int, Health]:
    failed = any(check.reason for check in checks)
    return 503 if failed else 200, Health(status="fail" if failed else "pass", checks=checks)


def _health(probes: dict[str, Probe]) -> Handler:
    async def handle(desk: Desk, exchange: Exchange) -> None:
        disabled = disabled_alike(desk.settings.health.disabled)
        status, answer = examined(desk, [(name, probe) for name, probe in probes.items() if name not in disabled])
        await exchange.json(status, answer, headers=[(b"cache-control", b"no-store")])

    return handle


def cached_checks(desk: Desk) -> dict[str, CachedCheck]:
    """The checks that a round makes for `/healthz`."""
    return {"disk": partial(_disk_at_red, desk), "filing": partial(_filing, desk)}


def whole_health(desk: Desk) -> tuple[int, Health]:
    """The health of all that this node needs to serve: from the last round, but what costs nothing as it is now."""
    _, now = examined(desk, _NOW.items())
    problem, last = desk.health.overdue(), desk.health.last
    if problem is not None:
        checks = [*now.checks, Check(name="round", status="fail", duration_ms=0.0, reason=problem)]
    else:
        assert last is not None
        checks = [*now.checks, *(_check(name, why, last.took_ms[name]) for name, why in last.problems.items())]
    return _status(checks)


async def healthz(desk: Desk, exchange: Exchange) -> None:
    status, answer = whole_health(desk)
    await exchange.json(status, answer, headers=[(b"cache-control", b"no-store")])


async def tree(desk: Desk, exchange: Exchange) -> None:
    """Everything that is measured, as of the last round."""
    found = desk.health.answer(history=exchange.flag("history"))
    if found is None:
        raise Unavailable("No round of checks has ended yet. Ask again.")
    await exchange.json(200, found, headers=[(b"cache-control", b"no-store")])


async def rates(desk: Desk, exchange: Exchange) -> None:
    """The last hour, or what came since."""
    found = desk.rates.history(exchange.integer("after") or 0)
    await exchange.json(200, found, headers=[(b"cache-control", b"no-store")])


async def metrics(desk: Desk, exchange: Exchange) -> None:
    text = await desk.link.thread(desk.metrics.text)
    await exchange.answer(200, text, media_type="text/plain; version=0.0.4; charset=utf-8")


ROUTES = (
    Route("GET", "/livez", _health(_LIVE), ANYBODY),
    Route("GET", "/readyz", _health(_READY), ANYBODY),
    Route("GET", "/startupz", _health(_STARTED), ANYBODY),
    Route("GET", "/healthz", healthz, ANYBODY),
    Route("GET", "/v1/health", tree, frozenset({Role.READER}), frozenset({"history"})),
    Route("GET", "/v1/rates", rates, frozenset({Role.READER}), frozenset({"after"})),
    Route("GET", "/metrics", metrics, frozenset({Role.READER})),
)
HEALTH_PATHS = frozenset(route.path.encode() for route in ROUTES if route.roles is ANYBODY)
"""Where anybody may ask, and under any name: probes know the hub by an address of their own."""
