"""Every call about groups as a dialogue with a hub over HTTP: no input and output here, only what to say.

All of them may be repeated when an answer was lost. To join again under the same name takes the place of the member that
the lost answer told of.
"""

from __future__ import annotations

from functools import partial

import msgspec

from restante import limits
from restante.calls.call import query_of
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
from restante.client.transport.address import HubAddress, segment
from restante.client.transport.column_answers import table_of
from restante.client.transport.exchange import Dialogue, HttpRequest, LongWork, Response
from restante.client.transport.http_answers import expect, unreadable, value_of
from restante.client.transport.options import Terms
from restante.client.transport.requests import FOR_ARROW, FOR_JSON, WITH_JSON, Dialogues, done, read, said, whole_number
from restante.client.transport.retries import Answered, answered
from restante.errors import ActionUnknown, GroupUnknown, MemberUnknown, RestanteError
from restante.model.groups.group_answers import (
    Checkpointed,
    FewPages,
    GroupPage,
    GroupStatus,
    HeartbeatAnswer,
    Joined,
    NextAnswer,
)
from restante.wire.media import ARROW, JSON
from restante.wire.outgoing.outgoing_groups import next_of_table

_encoder = msgspec.json.Encoder()
_WITH_ARROW = (*FOR_ARROW, ("Content-Type", JSON))
_WITH_FEW = (("Accept", f"{ARROW}, {JSON};q=0.9"), ("Content-Type", JSON))


def define(terms: Terms, call: DefineGroup) -> Dialogue[GroupStatus]:
    request = HttpRequest(
        "PUT",
        _group(call.group),
        terms.timeout,
        query=(("change", "true"),) if call.change else (),
        headers=WITH_JSON,
        body=_encoder.encode(said(call, without=("group", "change"))),
    )
    return value_of((yield from done(terms, request, 200)), GroupStatus, terms.address)


def group(terms: Terms, call: ReadGroup) -> Dialogue[GroupStatus]:
    return (yield from read(terms, _group(call.group), GroupStatus))


def groups(terms: Terms, call: ListGroups) -> Dialogue[GroupPage]:
    return (yield from read(terms, "/v1/groups", GroupPage, query_of(call)))


def delete(terms: Terms, call: DeleteGroup) -> Dialogue[None]:
    yield from _removed(terms, _group(call.group), GroupUnknown)


def join(terms: Terms, call: JoinGroup) -> Dialogue[Joined]:
    request = _posted(terms, f"{_group(call.group)}/members", said(call, without=("group",)))
    return value_of((yield from done(terms, request, 201)), Joined, terms.address)


def leave(terms: Terms, call: LeaveGroup) -> Dialogue[None]:
    yield from _removed(terms, _member(call.group, call.member_id), MemberUnknown)


def heartbeat(terms: Terms, call: SendHeartbeat) -> Dialogue[HeartbeatAnswer]:
    path = f"{_member(call.group, call.member_id)}/heartbeat"
    request = _posted(terms, path, said(call, without=("group", "member_id")))
    return value_of((yield from done(terms, request, 200)), HeartbeatAnswer, terms.address)


def read_next(terms: Terms, call: ReadNext) -> Dialogue[NextAnswer]:
    """The waiting is done at the hub: the answer comes as soon as there is a change."""
    path = f"{_member(call.group, call.member_id)}/next"
    longest = min(max(call.wait, 0), limits.WAIT_SECONDS_MAX)
    asked = said(call, without=("group", "member_id", "wait", "few"))

    def attempt(elapsed: float) -> HttpRequest:
        left = max(longest - elapsed, 0)
        body = _encoder.encode({**asked, "wait": round(left, 3)} if left else asked)
        return HttpRequest(
            "POST", path, terms.timeout + left, headers=_WITH_FEW if call.few else _WITH_ARROW, body=body
        )

    answer: Answered = yield from answered(terms, attempt)
    make = partial(_next_of, expect(answer.response, terms.address, 200), terms.address)
    pages: NextAnswer = make() if len(answer.response.body) <= limits.MIB else (yield LongWork(make))
    return pages


def _next_of(response: Response, address: HubAddress) -> NextAnswer:
    if response.headers.get("content-type") == JSON:
        few = value_of(response, FewPages, address)
        return NextAnswer(pages=(), few=few.pages, now=few.now)
    try:
        return next_of_table(table_of(response, address))
    except (msgspec.MsgspecError, ValueError) as error:
        raise unreadable(address, str(error)) from error


def checkpoint(terms: Terms, call: WriteCheckpoint) -> Dialogue[Checkpointed]:
    body = _encoder.encode(said(call, without=("group", "partition")))
    request = HttpRequest("PUT", _position(call.group, call.partition), terms.timeout, headers=WITH_JSON, body=body)
    return value_of((yield from done(terms, request, 200)), Checkpointed, terms.address)


def reset(terms: Terms, call: ResetPosition) -> Dialogue[Checkpointed]:
    body = said(call, without=("group", "partition"))
    request = _posted(terms, f"{_position(call.group, call.partition)}/reset", body)
    return value_of((yield from done(terms, request, 200)), Checkpointed, terms.address)


def pause(terms: Terms, call: PauseGroup) -> Dialogue[None]:
    yield from _without_body(terms, f"{_group(call.group)}/pause")


def resume(terms: Terms, call: ResumeGroup) -> Dialogue[None]:
    yield from _without_body(terms, f"{_group(call.group)}/resume")


def drop_action(terms: Terms, call: DropAction) -> Dialogue[None]:
    yield from _removed(terms, f"{_group(call.group)}/actions/{segment(call.action, 'action')}", ActionUnknown)


def _without_body(terms: Terms, path: str) -> Dialogue[None]:
    yield from done(terms, HttpRequest("POST", path, terms.timeout, headers=FOR_JSON), 204)


def _removed(terms: Terms, path: str, unknown: type[RestanteError]) -> Dialogue[None]:
    """Counts as done when an earlier attempt that got no answer may have done it, and the hub does not know it any more."""
    request = HttpRequest("DELETE", path, terms.timeout, headers=FOR_JSON)
    answer: Answered = yield from answered(terms, lambda _: request)
    try:
        expect(answer.response, terms.address, 204)
    except unknown:
        if not answer.maybe_done:
            raise


def _posted(terms: Terms, path: str, body: object) -> HttpRequest:
    return HttpRequest("POST", path, terms.timeout, headers=WITH_JSON, body=_encoder.encode(body))


def _group(name: str) -> str:
    return f"/v1/groups/{segment(name, 'group')}"


def _member(name: str, member_id: str) -> str:
    return f"{_group(name)}/members/{segment(member_id, 'member id')}"


def _position(name: str, partition: object) -> str:
    return f"{_group(name)}/positions/{whole_number('A partition', partition)}"


DIALOGUES: Dialogues = {
    DefineGroup: define,
    ReadGroup: group,
    ListGroups: groups,
    DeleteGroup: delete,
    JoinGroup: join,
    LeaveGroup: leave,
    SendHeartbeat: heartbeat,
    ReadNext: read_next,
    WriteCheckpoint: checkpoint,
    ResetPosition: reset,
    PauseGroup: pause,
    ResumeGroup: resume,
    DropAction: drop_action,
}
