"""Answers about a whole hub, for operators, from the answers of all shards: probes, the tree of health, rates, metrics, live clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from restante.decoders import json_decoder
from restante.errors import Unavailable
from restante.model.health.bounds import HealthMeasure, worst
from restante.model.health.health_history import HealthAnswer, HealthMinute
from restante.model.health.tree import HealthNode
from restante.model.mailboxes.list_pages import page_size
from restante.server.connections.exchange import Exchange
from restante.server.doors.upstream import Upstream, fetch
from restante.server.health.rates import RateHistory
from restante.server.routes.health import Check, Health
from restante.server.routes.live_clients import LiveClientPage
from restante.wire.problems import error_of

T = TypeVar("T")
GatheredAnswer = Callable[[Sequence[Upstream], Exchange, Sequence[bytes]], Awaitable[None]]
"""Answers a request; the last is what the doors have counted themselves."""

METRICS, RATES = b"/metrics", b"/v1/rates"
"""The paths of what doors count, too."""
_NO_STORE = ((b"cache-control", b"no-store"),)
_OK, _WRONG, _FAILED = 200, 400, 503
_LEAST, _MOST = ("restante_health_score",), ("restante_health_state", "restante_health_value")
"""Figures of which the worst counts, and not the sum."""
_OF_DOORS = frozenset(
    {
        "restante_requests_total",
        "restante_request_duration_seconds",
        "restante_received_bytes_total",
        "restante_sent_bytes_total",
    }
)
"""The metrics that are counted where clients are connected."""
_SUMMED = ("accepted", "collected", "waiting", "commits", "requests", "failures", "connections")
_AVERAGED = ("commit_ms", "request_ms")
_ASKED_OF_DOORS = ("requests", "request_ms", "failures")
"""The rates that are counted where clients are connected: a shard is asked by doors alone, and in other ways."""


async def _asked(
    upstreams: Sequence[Upstream], exchange: Exchange, path: bytes | None = None
) -> list[tuple[int, bytes]]:
    """The answer of each shard to the same request, or to one for another path."""
    return await asyncio.gather(*(fetch(upstream, exchange, path) for upstream in upstreams))


async def _values(
    upstreams: Sequence[Upstream], exchange: Exchange, kind: type[T], path: bytes | None = None
) -> list[T]:
    answers = await _asked(upstreams, exchange, path)
    for status, body in answers:
        if status == _WRONG:
            raise error_of(json_decoder(dict[str, Any]).decode(body))
        if status != _OK:
            raise Unavailable("A shard does not report its health. Ask again.")
    return [json_decoder(kind).decode(body) for _, body in answers]


async def _probe(upstreams: Sequence[Upstream], exchange: Exchange, _: Sequence[bytes]) -> None:
    """The probe, as well as the least well of the shards."""
    try:
        answers = await _asked(upstreams, exchange)
    except Unavailable as error:
        away = Check(name="shards", status="fail", duration_ms=0.0, reason=error.message)
        await exchange.json(_FAILED, Health(status="fail", checks=[away]), headers=_NO_STORE)
        return
    found = [json_decoder(Health).decode(body) for _, body in answers]
    failed = any(one.status == "fail" for one in found)
    checks: dict[str, Check] = {}
    for shard, health in enumerate(found):
        for check in health.checks:
            checks[check.name] = _worse(checks.get(check.name), check, shard)
    answer = Health(status="fail" if failed else "pass", checks=list(checks.values()))
    await exchange.json(_FAILED if failed else _OK, answer, headers=_NO_STORE)


def _worse(known: Check | None, check: Check, shard: int) -> Check:
    if check.status == "fail" and (known is None or known.status != "fail"):
        return msgspec.structs.replace(check, reason=f"Shard {shard}: {check.reason}")
    if known is None:
        return check
    return msgspec.structs.replace(known, duration_ms=max(known.duration_ms, check.duration_ms))


async def _tree(upstreams: Sequence[Upstream], exchange: Exchange, _: Sequence[bytes]) -> None:
    found = await _values(upstreams, exchange, HealthAnswer)
    node = _joined(found)
    fields = {name: getattr(node, name) for name in HealthNode.__struct_fields__}
    minutes = [one.history for one in found if one.history is not msgspec.UNSET]
    history = _minutes(minutes) if minutes else msgspec.UNSET
    await exchange.json(_OK, HealthAnswer(**fields, history=history), headers=_NO_STORE)


def _joined(nodes: Sequence[HealthNode]) -> HealthNode:
    """One node for those of the same name: as bad as the worst of them."""
    state = worst([node.state for node in nodes])
    scores = [node.score for node in nodes if node.score is not msgspec.UNSET]
    parts: dict[str, list[HealthNode]] = {}
    measures: dict[str, HealthMeasure] = {}
    for node in nodes:
        for part in node.parts:
            parts.setdefault(part.name, []).append(part)
        for own in node.measures:
            known = measures.get(own.name)
            if known is None or (own.state.severity, own.value) > (known.state.severity, known.value):
                measures[own.name] = own
    return HealthNode(
        name=nodes[0].name,
        measured=nodes[0].measured,
        state=state,
        since=min(node.since for node in nodes if node.state is state),
        score=min(scores) if scores else msgspec.UNSET,
        parts=tuple(_joined(same) for same in parts.values()),
        measures=tuple(measures.values()),
    )


def _minutes(histories: Iterable[Sequence[HealthMinute]]) -> tuple[HealthMinute, ...]:
    by_time: dict[Any, list[HealthMinute]] = {}
    for history in histories:
        for minute in history:
            by_time.setdefault(minute.at, []).append(minute)
    return tuple(_minute(by_time[at]) for at in sorted(by_time))


def _minute(same: Sequence[HealthMinute]) -> HealthMinute:
    red = {name for one in same for name in one.red}
    return HealthMinute(
        at=same[0].at,
        state=worst([one.state for one in same]),
        score=min(one.score for one in same),
        yellow=tuple(sorted({name for one in same for name in one.yellow} - red)),
        red=tuple(sorted(red)),
    )


async def _rates(upstreams: Sequence[Upstream], exchange: Exchange, doors: Sequence[bytes]) -> None:
    """Samples of the same few seconds are one; a sample is numbered by its time."""
    after = exchange.integer("after") or 0
    found = [_unasked(one) for one in await _values(upstreams, exchange, RateHistory, RATES)]
    found += [json_decoder(RateHistory).decode(body) for body in doors]
    await exchange.json(_OK, joined_rates(found, after), headers=_NO_STORE)


def _unasked(shard: RateHistory) -> RateHistory:
    """The rates of a shard, without what only doors know."""
    return msgspec.structs.replace(shard, **{name: [None] * len(shard.at) for name in _ASKED_OF_DOORS})


def joined_rates(found: Sequence[RateHistory], after: int) -> RateHistory:
    """The samples of several processes as those of one."""
    seconds = found[0].seconds
    slots: dict[int, list[tuple[RateHistory, int]]] = {}
    for one in found:
        for index, at in enumerate(one.at):
            slots.setdefault(round(at / seconds), []).append((one, index))
    chosen = [slot for slot in sorted(slots) if slot > after]
    columns: dict[str, list[Any]] = {"at": [slot * seconds for slot in chosen]}
    for name in _SUMMED:
        columns[name] = [sum(getattr(one, name)[index] or 0 for one, index in slots[slot]) for slot in chosen]
    for name in _AVERAGED:
        columns[name] = [_mean([getattr(one, name)[index] for one, index in slots[slot]]) for slot in chosen]
    return RateHistory(seconds=seconds, next=chosen[-1] if chosen else after, **columns)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 3) if known else None


async def _live(upstreams: Sequence[Upstream], exchange: Exchange, _: Sequence[bytes]) -> None:
    """Shard by shard: the place of a page counts those of all shards."""
    size, start = page_size(exchange.integer("limit")), exchange.integer("after") or 0
    found: list[Any] = []
    for upstream in upstreams:
        after: str | None = "0"
        while after is not None and len(found) <= start + size:
            path = b"/v1/live?limit=1000&after=" + after.encode()
            (page,) = await _values([upstream], exchange, LiveClientPage, path)
            found += page.clients
            after = page.next
    following = str(start + size) if len(found) > start + size else None
    answer = LiveClientPage(clients=tuple(found[start : start + size]), next=following)
    await exchange.json(_OK, answer, headers=_NO_STORE)


async def _metrics(upstreams: Sequence[Upstream], exchange: Exchange, doors: Sequence[bytes]) -> None:
    """The counts of shards, and those of doors about requests: a shard is asked by doors alone."""
    answers = await _asked(upstreams, exchange)
    if any(status != _OK for status, _ in answers):
        raise Unavailable("A shard does not report its metrics. Ask again.")
    text = joined_metrics([*doors, *(_less(body, _OF_DOORS) for _, body in answers)])
    await exchange.answer(_OK, text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _less(text: bytes, families: frozenset[str]) -> bytes:
    """Metrics without those of some families."""
    lines, family = [], ""
    for line in text.decode().splitlines():
        if line.startswith("#"):
            family = line.split(" ", 3)[2]
        if family not in families:
            lines.append(line)
    return "\n".join(lines).encode()


def joined_metrics(texts: Sequence[bytes]) -> bytes:
    """The same figures of several processes as one: sums, or the worst where a sum would say nothing."""
    heads: dict[str, list[str]] = {}
    figures: dict[str, dict[str, float]] = {}
    for text in texts:
        family = ""
        for line in text.decode().splitlines():
            if line.startswith("#"):
                family = line.split(" ", 3)[2]
                known = heads.setdefault(family, [])
                if line not in known:
                    known.append(line)
            elif line:
                name, _, value = line.rpartition(" ")
                own = figures.setdefault(family, {})
                own[name] = _together(family, own[name], float(value)) if name in own else float(value)
    lines = [
        line
        for family, head in heads.items()
        for line in (*head, *(f"{name} {value}" for name, value in figures.get(family, {}).items()))
    ]
    return ("\n".join(lines) + "\n").encode()


def _together(family: str, one: float, other: float) -> float:
    if family in _LEAST:
        return min(one, other)
    return max(one, other) if family in _MOST else one + other


GATHERED_ANSWERS: Mapping[str, GatheredAnswer] = {
    "/livez": _probe,
    "/readyz": _probe,
    "/startupz": _probe,
    "/healthz": _probe,
    "/v1/health": _tree,
    RATES.decode(): _rates,
    "/v1/live": _live,
    METRICS.decode(): _metrics,
}
"""The functions by which a door answers a route from the answers of all shards, by the path of the route."""
