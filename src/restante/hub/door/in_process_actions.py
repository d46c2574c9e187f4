"""Actions of a hub in this process, for asynchronous programs: accepted from the event loop. A wait takes no thread."""

from __future__ import annotations

import asyncio

import msgspec

from restante.calls.actions import ReadAction, ReportEach, ReportOutcomes, SendAction, SendActions
from restante.calls.publishing import Publish
from restante.hub.actions.accept import (
    accepted_now,
    answered_many,
    declared_status,
    prepared,
    prepared_many,
    published_at,
)
from restante.hub.actions.joint_reports import report_each_soon
from restante.hub.actions.look_up import bell_of, check_id
from restante.hub.actions.outcomes import are_light, report_request
from restante.hub.door.in_process_watch import OwnWays, Threads, Watch
from restante.hub.engine.commit_request import CommitRequest
from restante.model.actions.action_answers import AcceptedActions, ActionStatus, OutcomesReported, OutcomesTaken
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few


async def send_action(link: Threads, call: SendAction) -> ActionStatus:
    message, publishing = prepared(link.hub.core, call)
    if link.hub.crowded or not isinstance(publishing.sent, Few) or link.hub.asks_first(publishing):
        link.hub.hand_over(asyncio.get_running_loop())
        found = await link.thread(link.hub.call, msgspec.structs.replace(call, wait=0))
        return found if call.wait <= 0 or found.is_final else await _followed(link, call, found.id, found.concerns)
    request = await _queued(link, publishing)
    if request.answer().accepted and call.wait <= 0:
        return declared_status(link.hub.core, call.wanted.action, accepted_now(message, published_at(request)))
    assert message.id is not None, "an action has its id before it is stored"
    return await _followed(link, call, message.id, message.recipient)


async def _followed(link: Threads, call: SendAction, action_id: str, concerns: str) -> ActionStatus:
    found = await read_action(link, ReadAction(action_id, concerns, call.wait))
    return declared_status(link.hub.core, call.wanted.action, found)


async def send_actions(link: Threads, call: SendActions) -> AcceptedActions:
    messages, publishing = prepared_many(link.hub.core, call)
    receipt = await _published(link, publishing)
    if receipt.duplicates:
        return await link.thread(answered_many, link.hub.core, messages, receipt)
    return answered_many(link.hub.core, messages, receipt)


async def _published(link: Threads, call: Publish) -> Receipt:
    """Publish actions as messages: a few are queued here, many are prepared in a thread."""
    loop = asyncio.get_running_loop()
    if not isinstance(call.sent, Few) or link.hub.crowded or link.hub.asks_first(call):
        link.hub.hand_over(loop)
        return await link.thread(link.hub.call, call)
    return (await _queued(link, call)).answer()


async def _queued(link: Threads, call: Publish) -> CommitRequest[Receipt]:
    future: asyncio.Future[CommitRequest[Receipt]] = asyncio.get_running_loop().create_future()
    link.hub.publish_soon(call, future)
    return await future


async def read_action(link: Threads, call: ReadAction) -> ActionStatus:
    check_id(call.action_id)
    now = msgspec.structs.replace(call, wait=0)
    if call.wait <= 0:
        return await link.thread(link.hub.call, now)
    watch = Watch(link, lambda: link.hub.call(now), lambda found: found.is_final)
    with link.hub.core.bell.listening(bell_of(call.action_id), watch.ring):
        return await watch.wait(await watch.look(), call.wait)


async def report_outcomes(link: Threads, call: ReportOutcomes) -> OutcomesTaken:
    """A report of actions that memory knows goes to the committer from the event loop itself."""
    if not are_light(link.hub.core, (call,)):
        return await link.thread(link.hub.call, call)
    future: asyncio.Future[CommitRequest[OutcomesTaken]] = asyncio.get_running_loop().create_future()
    link.hub.core.committer.submit_soon(report_request(link.hub.core, call), future)
    return (await future).answer()


async def report_each(link: Threads, call: ReportEach) -> OutcomesReported:
    future: asyncio.Future[CommitRequest[OutcomesReported]] = asyncio.get_running_loop().create_future()
    if not report_each_soon(link.hub.core, call, future):
        return await link.thread(link.hub.call, call)
    return (await future).answer()


OWN_WAYS: OwnWays = {
    SendAction: send_action,
    SendActions: send_actions,
    ReadAction: read_action,
    ReportOutcomes: report_outcomes,
    ReportEach: report_each,
}
