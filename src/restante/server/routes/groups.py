"""Groups: readers that share the feed. Defined, joined, kept alive, read, checkpointed, looked at, and operated."""

from __future__ import annotations

from datetime import datetime

import msgspec

from restante.calls.call import Home, Number, query_names
from restante.calls.groups import (
    DefineGroup,
    DeleteGroup,
    DropAction,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    PauseGroup,
    ReadGroup,
    ReadNext,
    ResetPosition,
    ResumeGroup,
    SendHeartbeat,
    WriteCheckpoint,
)
from restante.decoders import converted
from restante.errors import InvalidRequest
from restante.model.access.access import Role
from restante.model.columns.text_ids import is_uuid
from restante.model.groups.group import Start
from restante.model.groups.group_answers import FewPages, NextAnswer
from restante.server.connections.bodies import (
    SMALL_TABLE_BYTES,
    read_nothing,
    read_request,
    send_arrow,
    send_pieces,
)
from restante.server.connections.exchange import Exchange
from restante.server.connections.room import Wait
from restante.server.connections.waits import unless_gone
from restante.server.desk import Desk
from restante.server.requests.call_bodies import body_of
from restante.server.requests.options import asked
from restante.server.route_table import Route
from restante.server.routes.publishing import partition_number
from restante.wire import media
from restante.wire.outgoing.outgoing_groups import next_json, next_table, next_within, total_bytes

_NO_STORE = ((b"cache-control", b"no-store"),)
_OFFERED = (media.JSON, media.ARROW)
_GROUPS = "/v1/groups"
_GROUP = "/v1/groups/{group}"
_MEMBERS = "/v1/groups/{group}/members"
_MEMBER = "/v1/groups/{group}/members/{member}"
_POSITION = "/v1/groups/{group}/positions/{partition}"


DEFINE_BODY = body_of(
    DefineGroup,
    "DefineGroupBody",
    "The definition of a group: these origins and kinds, all of them if left out; and where a new one begins.",
    given=("group",),
    query=("change",),
)
JOIN_BODY = body_of(
    JoinGroup, "JoinBody", "The member's name: the same after a restart, and nobody else's.", given=("group",)
)
HEARTBEAT_BODY = body_of(
    SendHeartbeat, "HeartbeatBody", "The actions that the member works on now.", given=("group", "member_id")
)
NEXT_BODY = body_of(
    ReadNext,
    "NextBody",
    "Up to where the member has read each partition that it asks for.",
    given=("group", "member_id", "few"),
)
CHECKPOINT_BODY = body_of(
    WriteCheckpoint, "CheckpointBody", "All up to the position is done with.", given=("group", "partition")
)


class ResetBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place where the group goes on: a number, `beginning`, `end`, or a time."""

    # The type of the call does not fit: a start and a time are both texts, which a decoder cannot tell apart. The route does.

    to: Number | str


def _group_of(exchange: Exchange) -> str:
    return exchange.place["group"]


def _member_of(exchange: Exchange) -> str:
    """The id in the path. The error for a name in its place says what is expected."""
    given = exchange.place["member"]
    if not is_uuid(given):
        raise InvalidRequest(
            f"A member is named by the member_id that joining answered, a UUID, not {given!r}.", parameter="member"
        )
    return given


async def define(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, DEFINE_BODY.shape)
    call = DEFINE_BODY.call(exchange, sent, group=_group_of(exchange))
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def show(desk: Desk, exchange: Exchange) -> None:
    await exchange.json(200, await desk.call(ReadGroup(_group_of(exchange)), exchange.grant), headers=_NO_STORE)


async def groups(desk: Desk, exchange: Exchange) -> None:
    await exchange.json(200, await desk.call(asked(exchange, ListGroups), exchange.grant))


async def delete(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(DeleteGroup(_group_of(exchange)), exchange.grant)
    await exchange.answer(204)


async def join(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, JOIN_BODY.shape)
    call = JOIN_BODY.call(exchange, sent, group=_group_of(exchange))
    await exchange.json(201, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def leave(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(LeaveGroup(_group_of(exchange), _member_of(exchange)), exchange.grant)
    await exchange.answer(204)


async def heartbeat(desk: Desk, exchange: Exchange) -> None:
    """Renew a member's lease. A heartbeat takes no room: a busy hub must not end the leases of members that it keeps busy."""
    sent = await read_request(desk, exchange, HEARTBEAT_BODY.shape)
    call = HEARTBEAT_BODY.call(exchange, sent, group=_group_of(exchange), member_id=_member_of(exchange))
    await exchange.json(200, await desk.link_of(exchange.grant).call(call), headers=_NO_STORE)


async def read_next(desk: Desk, exchange: Exchange) -> None:
    accept = exchange.header(b"accept")
    kind = media.negotiate(accept, _OFFERED)
    sent = await read_request(desk, exchange, NEXT_BODY.shape)
    few = kind == media.JSON or media.names(accept, media.JSON)
    call = NEXT_BODY.call(exchange, sent, group=_group_of(exchange), member_id=_member_of(exchange), few=few)
    answer = await _changes(desk, exchange, call)
    if call.few and not answer.pages:
        await exchange.json(200, FewPages(pages=answer.few, now=answer.now), headers=_NO_STORE)
        return
    small = total_bytes(answer.pages) <= SMALL_TABLE_BYTES
    if not small:
        answer = await desk.link.thread(next_within, answer, as_json=kind == media.JSON)
    if kind == media.ARROW:
        await send_arrow(desk, exchange, next_table(answer), headers=_NO_STORE)
    else:
        await send_pieces(desk, exchange, next_json(answer), media_type=kind, headers=_NO_STORE, small=small)


async def _changes(desk: Desk, exchange: Exchange, call: ReadNext) -> NextAnswer:
    """The changes that there are, or else those that come while the caller waits."""
    if call.wait > 0:
        with desk.room.wait(Wait.GROUP):
            answer = await unless_gone(desk, exchange, desk.link_of(exchange.grant).call(call))
        if answer is not None:
            return answer
    return await desk.call(msgspec.structs.replace(call, wait=0), exchange.grant)


async def checkpoint(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, CHECKPOINT_BODY.shape)
    partition = partition_number(exchange.place["partition"])
    call = CHECKPOINT_BODY.call(exchange, sent, group=_group_of(exchange), partition=partition)
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def reset(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, ResetBody)
    call = ResetPosition(_group_of(exchange), partition_number(exchange.place["partition"]), _place_of(sent.to))
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


def _place_of(to: int | str) -> int | datetime | Start:
    if isinstance(to, int):
        return to
    if to in (Start.BEGINNING.value, Start.END.value):
        return Start(to)
    try:
        found = converted(to, datetime)
        if found.tzinfo is None:
            raise ValueError(to)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidRequest(
            f'to must be a number, "beginning", "end", or a time with its zone such as 2030-01-31T12:00:00Z, not {to!r}.',
            parameter="to",
        ) from error
    return found


async def pause(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(PauseGroup(_group_of(exchange)), exchange.grant)
    await exchange.answer(204)


async def resume(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(ResumeGroup(_group_of(exchange)), exchange.grant)
    await exchange.answer(204)


async def drop_action(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(DropAction(_group_of(exchange), exchange.place["action"]), exchange.grant)
    await exchange.answer(204)


_WORKING = frozenset({Role.WORKER})
_LOOKING = frozenset({Role.WORKER, Role.READER})
_OPERATING: frozenset[Role] = frozenset({Role.OPERATOR})

ROUTES = (
    Route("PUT", _GROUP, define, _WORKING, DEFINE_BODY.query, home=Home.ALL),
    Route("GET", _GROUPS, groups, _LOOKING, query_names(ListGroups)),
    Route("GET", _GROUP, show, _LOOKING, home=Home.ALL),
    Route("DELETE", _GROUP, delete, _OPERATING, home=Home.ALL),
    Route("POST", _MEMBERS, join, _WORKING),
    Route("DELETE", _MEMBER, leave, _WORKING),
    Route("POST", _MEMBER + "/heartbeat", heartbeat, _WORKING, home=Home.ALL),
    Route("POST", _MEMBER + "/next", read_next, _WORKING, home=Home.ALL, is_long=True),
    Route("PUT", _POSITION, checkpoint, _WORKING),
    Route("POST", _POSITION + "/reset", reset, _OPERATING),
    Route("POST", _GROUP + "/pause", pause, _OPERATING),
    Route("POST", _GROUP + "/resume", resume, _OPERATING),
    Route("DELETE", _GROUP + "/actions/{action}", drop_action, _OPERATING),
)
