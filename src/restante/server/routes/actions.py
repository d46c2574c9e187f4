"""Actions: accepted by name, one or many; looked at and waited for; reported by workers; poison, done again or given up."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from restante.calls.actions import (
    GiveUpPoison,
    ListPoison,
    ReadAction,
    RepeatPoison,
    SendAction,
    SendActions,
)
from restante.calls.call import Home, query_names
from restante.limits import (
    ACTIONS_AT_ONCE_MAX,
    GROUP_PARTITIONS_AT_ONCE_MAX,
    OUTCOMES_AT_ONCE_MAX,
    SEND_BYTES_MAX,
)
from restante.model.access.access import Role
from restante.model.actions.action_answers import ActionStatus
from restante.model.actions.action_kind import CORRELATION_PROPERTY, TRACE_PROPERTY
from restante.model.actions.action_row import ActionState
from restante.server.connections.bodies import JsonBounds, read_json, read_nothing
from restante.server.connections.exchange import Exchange
from restante.server.connections.incoming_messages import read_apart
from restante.server.connections.room import Wait
from restante.server.connections.waits import unless_gone
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.requests.publish_headers import batch_of
from restante.server.route_table import Route
from restante.server.routes.publishing import partition_number
from restante.wire.action_bodies import read_action, read_actions, read_outcomes, read_reports, report_of

_NO_STORE = (b"cache-control", b"no-store")
_LATER = (b"retry-after", b"1")
_ACTIONS = "/v1/actions"
_ACTION = "/v1/actions/{action}"
_OUTCOMES = "/v1/groups/{group}/partitions/{partition}/outcomes"
_JOINT_OUTCOMES = "/v1/groups/{group}/outcomes"
_POISON = "/v1/groups/{group}/poison"


_PUBLISHER = frozenset({Role.PUBLISHER})
_ASKING = frozenset(Role)
"""Callers that may not know of an action only hear that it is not there."""
_WORKING = frozenset({Role.WORKER})
_OPERATING = frozenset({Role.OPERATOR})
_TRACE_CHARACTERS_MAX = 128
_VALUES_MAX = 10
"""More values than this no action has, nor an outcome, nor what is said of a partition beside its outcomes."""
_ACTIONS_BOUNDS = JsonBounds(3, _VALUES_MAX * ACTIONS_AT_ONCE_MAX)
_OUTCOMES_BOUNDS = JsonBounds(3, _VALUES_MAX * OUTCOMES_AT_ONCE_MAX)
_REPORTS_BOUNDS = JsonBounds(5, _VALUES_MAX * (OUTCOMES_AT_ONCE_MAX + GROUP_PARTITIONS_AT_ONCE_MAX))


def _carried(exchange: Exchange) -> dict[str, str]:
    return carried_properties(exchange.correlation_id, exchange.header(b"traceparent"))


async def send(desk: Desk, exchange: Exchange) -> None:
    wait, batch = exchange.seconds("wait"), batch_of(exchange)
    with desk.room.publish() as parcel:
        body = await read_json(desk, exchange, parcel)
        wanted = await read_apart(desk, len(body), read_action, exchange.place["action"], body)
        link = desk.link_of(exchange.grant)
        status = await link.call(SendAction(wanted, carried=_carried(exchange), batch=batch))
    if wait > 0 and not status.is_final:
        look = ReadAction(status.id, status.concerns, wait)
        found = await _waited(desk, exchange, look)
        status = status if found is None else msgspec.structs.replace(found, declared=status.declared)
    final = wait > 0 and status.is_final
    await exchange.json(200 if final else 202, status, headers=_headers(status))


async def _waited(desk: Desk, exchange: Exchange, call: ReadAction) -> ActionStatus | None:
    with desk.room.wait(Wait.ACTION):
        return await unless_gone(desk, exchange, desk.link_of(exchange.grant).call(call))


def _headers(status: ActionStatus) -> list[tuple[bytes, bytes]]:
    headers = [_NO_STORE, (b"location", f"{_ACTIONS}/{quote(status.id, safe='')}".encode())]
    return headers if status.is_final else [*headers, _LATER]


async def send_many(desk: Desk, exchange: Exchange) -> None:
    batch = batch_of(exchange)
    with desk.room.publish() as parcel:
        body = await read_json(desk, exchange, parcel, bounds=_ACTIONS_BOUNDS)
        wanted = await read_apart(desk, len(body), read_actions, body)
        call = SendActions(wanted, batch=batch, carried=_carried(exchange))
        accepted = await desk.link_of(exchange.grant).call(call)
    await exchange.json(202, accepted, headers=[_NO_STORE])


async def show(desk: Desk, exchange: Exchange) -> None:
    redirect = exchange.text("redirect") is None or exchange.flag("redirect")
    call = asked(exchange, ReadAction, action_id=exchange.place["action"])
    found = await _waited(desk, exchange, call) if call.wait > 0 else None
    if found is None:
        found = await desk.call(ReadAction(call.action_id, call.concerns), exchange.grant)
    headers = [_NO_STORE] if found.is_final else [_NO_STORE, _LATER]
    if redirect and found.state is ActionState.DONE and isinstance(found.location, str):
        await exchange.json(303, found, headers=[*headers, (b"location", found.location.encode())])
    else:
        await exchange.json(200, found, headers=headers)


async def poison(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, ListPoison, group=exchange.place["group"])
    await exchange.json(200, await desk.call(call, exchange.grant), headers=[_NO_STORE])


async def again(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    call = asked(exchange, RepeatPoison, group=exchange.place["group"], action_id=exchange.place["id"])
    status = await desk.call(call, exchange.grant)
    await exchange.json(202, status, headers=_headers(status))


async def give_up(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    call = asked(exchange, GiveUpPoison, group=exchange.place["group"], action_id=exchange.place["id"])
    await desk.call(call, exchange.grant)
    await exchange.answer(204)


async def report(desk: Desk, exchange: Exchange) -> None:
    partition = partition_number(exchange.place["partition"])
    with desk.room.publish() as parcel:
        body = await read_json(desk, exchange, parcel, bounds=_OUTCOMES_BOUNDS)
        sent = await read_apart(desk, len(body), read_outcomes, body)
        call = report_of(exchange.place["group"], partition, sent)
        taken = await desk.link_of(exchange.grant).call(call)
    await exchange.json(200, taken, headers=[_NO_STORE])


async def report_each(desk: Desk, exchange: Exchange) -> None:
    with desk.room.publish() as parcel:
        body = await read_json(desk, exchange, parcel, bounds=_REPORTS_BOUNDS)
        call = await read_apart(desk, len(body), read_reports, exchange.place["group"], body)
        reported = await desk.link_of(exchange.grant).call(call)
    await exchange.json(200, reported, headers=[_NO_STORE])


SEND = Route("POST", _ACTION, send, _PUBLISHER, frozenset({"wait"}))
REPORT = Route("POST", _OUTCOMES, report, _WORKING, body_max=SEND_BYTES_MAX)
REPORT_EACH = Route("POST", _JOINT_OUTCOMES, report_each, _WORKING, home=Home.ALL)
ROUTES = (
    SEND,
    Route("POST", _ACTIONS, send_many, _PUBLISHER),
    Route("GET", _ACTION, show, _ASKING, query_names(ReadAction) | {"redirect"}),
    REPORT,
    REPORT_EACH,
    Route("GET", _POISON, poison, _WORKING, query_names(ListPoison), home=Home.ALL),
    Route("POST", _POISON + "/{id}/again", again, _OPERATING, query_names(RepeatPoison), home=Home.ALL),
    Route("DELETE", _POISON + "/{id}", give_up, _OPERATING, query_names(GiveUpPoison), home=Home.ALL),
)


def carried_properties(correlation_id: str, trace: str | None) -> dict[str, str]:
    carried = {CORRELATION_PROPERTY: correlation_id}
    if trace is not None and len(trace) <= _TRACE_CHARACTERS_MAX and trace.isascii() and trace.isprintable():
        carried[TRACE_PROPERTY] = trace
    return carried
