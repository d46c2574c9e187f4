"""Actions of a hub in this process, for asynchronous programs: accepted from the event loop; who waits takes no thread."""

from __future__ import annotations

import asyncio

import msgspec

from restante.calls.actions import ReadAction, ReportOutcomes, SendAction, SendActions
from restante.calls.publishing import Publish
from restante.hub.actions.accept import accepted_now, answered_many, declared_status, prepared, prepared_many
from restante.hub.actions.look_up import bell_of, check_id
from restante.hub.actions.outcomes import is_remembered, report_request
from restante.hub.door.in_process_threads import OwnWays, Threads
from restante.hub.door.in_process_watch import Watch
from restante.hub.engine.committer import CommitRequest
from restante.limits import FEW_MESSAGES_MAX
from restante.model.actions.action_answers import AcceptedActions, ActionStatus, OutcomesTaken
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few


async def send_action(link: Threads, call: SendAction) -> ActionStatus:
    message, publishing = prepared(link.hub.core, call)
    receipt = await _published(link, publishing)
    if receipt.accepted and call.wait <= 0:
        found = accepted_now(link.hub.core, message)
    else:
        assert message.id is not None, "an action has its id before it is stored"
        found = await read_action(link, ReadAction(message.id, message.recipient, call.wait))
    return declared_status(link.hub.core, call.wanted.action, found)


async def send_actions(link: Threads, call: SendActions) -> AcceptedActions:
    messages, publishing = prepared_many(link.hub.core, call)
    receipt = await _published(link, publishing)
    if receipt.duplicates:
        return await link.thread(answered_many, link.hub.core, messages, receipt)
    return answered_many(link.hub.core, messages, receipt)


async def _published(link: Threads, call: Publish) -> Receipt:
    """As a publish goes: a few are queued here, many are prepared in a thread."""
    loop = asyncio.get_running_loop()
    if not isinstance(call.sent, Few) or link.hub.crowded:
        link.hub.hand_over(loop)
        return await link.thread(link.hub.call, call)
    future: asyncio.Future[CommitRequest[Receipt]] = loop.create_future()
    link.hub.publish_soon(call, future)
    return (await future).answer()


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
    if len(call.outcomes) > FEW_MESSAGES_MAX or not is_remembered(link.hub.core, call):
        return await link.thread(link.hub.call, call)
    future: asyncio.Future[CommitRequest[OutcomesTaken]] = asyncio.get_running_loop().create_future()
    link.hub.core.committer.submit_soon(report_request(link.hub.core, call), future)
    return (await future).answer()


OWN_WAYS: OwnWays = {
    SendAction: send_action,
    SendActions: send_actions,
    ReadAction: read_action,
    ReportOutcomes: report_outcomes,
}
