"""Every call about actions as a dialogue with a hub over HTTP: no input and output here, only what to say.

An action gets its id before the first attempt, so that a repetition finds what an earlier one brought. A report may be
repeated as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from restante import limits
from restante.calls.actions import (
    GiveUpPoison,
    ListPoison,
    ReadAction,
    RepeatPoison,
    ReportEach,
    ReportOutcomes,
    SendAction,
    SendActions,
)
from restante.calls.call import query_of
from restante.client.transport.address import segment
from restante.client.transport.exchange import Dialogue, HttpRequest, Pairs
from restante.client.transport.http_answers import expect, value_of
from restante.client.transport.options import Terms
from restante.client.transport.requests import FOR_JSON, WITH_JSON, Dialogues, done, long, read, whole_number
from restante.client.transport.retries import answered
from restante.errors import InvalidRequest
from restante.model.actions.action_answers import (
    AcceptedActions,
    ActionStatus,
    OutcomesReported,
    OutcomesTaken,
    PoisonPage,
)
from restante.model.actions.action_kind import CORRELATION_PROPERTY, TRACE_PROPERTY
from restante.model.actions.wanted_action import WantedAction
from restante.model.uuid_text import made_ids
from restante.wire.action_bodies import action_json, report_json, reports_json

_encoder = msgspec.json.Encoder()
_HEADERS = {CORRELATION_PROPERTY: "Restante-Correlation-Id", TRACE_PROPERTY: "traceparent"}


def _with_id(terms: Terms, wanted: WantedAction) -> WantedAction:
    if wanted.id is not None:
        return wanted
    (made,) = made_ids(1, terms.random, terms.now_ms())
    return msgspec.structs.replace(wanted, id=made)


def send(terms: Terms, call: SendAction) -> Dialogue[ActionStatus]:
    """The waiting is done at the hub: the answer comes as soon as there is an outcome."""
    body = _encoder.encode(action_json(_with_id(terms, call.wanted), named=False))
    path = f"/v1/actions/{segment(call.wanted.action, 'action')}"
    longest = min(max(call.wait, 0), limits.WAIT_SECONDS_MAX)
    headers = (*WITH_JSON, *_carried(call.carried), *_batch(call.batch))

    def attempt(elapsed: float) -> HttpRequest:
        left = max(longest - elapsed, 0)
        return HttpRequest("POST", path, terms.timeout + left, query=_wait(left), headers=headers, body=body)

    answer = yield from answered(terms, attempt)
    return value_of(expect(answer.response, terms.address, 200, 202), ActionStatus, terms.address)


def _carried(carried: Mapping[str, str]) -> Pairs:
    """The properties that an action takes over from the one during which it is sent, as headers; other properties do not travel so."""
    return tuple((_HEADERS[name], value) for name, value in carried.items() if name in _HEADERS)


def _batch(batch: str | None) -> Pairs:
    return () if batch is None else (("Restante-Batch", batch),)


def _wait(seconds: float) -> Pairs:
    return (("wait", f"{seconds:.3f}"),) if seconds else ()


def send_many(terms: Terms, call: SendActions) -> Dialogue[AcceptedActions]:
    sent = [action_json(_with_id(terms, wanted), named=True) for wanted in call.wanted]
    headers = (*WITH_JSON, *_carried(call.carried), *_batch(call.batch))
    body = _encoder.encode({"actions": sent})
    request = HttpRequest("POST", "/v1/actions", long(terms), headers=headers, body=body)
    return value_of((yield from done(terms, request, 202)), AcceptedActions, terms.address)


def show(terms: Terms, call: ReadAction) -> Dialogue[ActionStatus]:
    path = f"/v1/actions/{segment(call.action_id, 'id')}"
    longest = min(max(call.wait, 0), limits.WAIT_SECONDS_MAX)
    named: Pairs = () if call.concerns is None else (("concerns", call.concerns),)

    def attempt(elapsed: float) -> HttpRequest:
        left = max(longest - elapsed, 0)
        query = (*named, ("redirect", "false"), *_wait(left))
        return HttpRequest("GET", path, terms.timeout + left, query=query, headers=FOR_JSON)

    answer = yield from answered(terms, attempt)
    return value_of(expect(answer.response, terms.address, 200), ActionStatus, terms.address)


def report(terms: Terms, call: ReportOutcomes) -> Dialogue[OutcomesTaken]:
    partition = whole_number("A partition", call.partition)
    path = f"/v1/groups/{segment(call.group, 'group')}/partitions/{partition}/outcomes"
    request = HttpRequest("POST", path, terms.timeout, headers=WITH_JSON, body=report_json(call))
    return value_of((yield from done(terms, request, 200)), OutcomesTaken, terms.address)


def report_each(terms: Terms, call: ReportEach) -> Dialogue[OutcomesReported]:
    """Report outcomes of one group: it stands in the path."""
    groups = {own.group for own in call.reports}
    if len(groups) != 1:
        raise InvalidRequest("Reports that are sent together are of one group.", field="reports")
    path = f"/v1/groups/{segment(groups.pop(), 'group')}/outcomes"
    request = HttpRequest("POST", path, terms.timeout, headers=WITH_JSON, body=reports_json(call))
    return value_of((yield from done(terms, request, 200)), OutcomesReported, terms.address)


def poison(terms: Terms, call: ListPoison) -> Dialogue[PoisonPage]:
    return (yield from read(terms, _poison(call.group), PoisonPage, query_of(call)))


def again(terms: Terms, call: RepeatPoison) -> Dialogue[ActionStatus]:
    path = f"{_poison(call.group)}/{segment(call.action_id, 'id')}/again"
    request = HttpRequest("POST", path, terms.timeout, query=query_of(call), headers=FOR_JSON)
    return value_of((yield from done(terms, request, 202)), ActionStatus, terms.address)


def give_up(terms: Terms, call: GiveUpPoison) -> Dialogue[None]:
    path = f"{_poison(call.group)}/{segment(call.action_id, 'id')}"
    yield from done(terms, HttpRequest("DELETE", path, terms.timeout, query=query_of(call), headers=FOR_JSON), 204)


def _poison(group: str) -> str:
    return f"/v1/groups/{segment(group, 'group')}/poison"


DIALOGUES: Dialogues = {
    ListPoison: poison,
    RepeatPoison: again,
    GiveUpPoison: give_up,
    SendAction: send,
    SendActions: send_many,
    ReadAction: show,
    ReportOutcomes: report,
    ReportEach: report_each,
}
