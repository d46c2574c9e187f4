"""Actions and reports for a server that queues them straight from its connections."""

from __future__ import annotations

from collections.abc import Mapping

from restante.calls.actions import ReportEach, ReportOutcomes, SendAction
from restante.hub.actions.accept import accepted_now, answered, declared_status, prepared
from restante.hub.actions.joint_reports import report_each_soon
from restante.hub.actions.outcomes import are_light, report_request
from restante.hub.door.hub import OpenHub
from restante.hub.engine.commit_request import LoopWaiter
from restante.hub.publishing.publish_request import PublishRequest
from restante.hub.publishing.sent import check_messages
from restante.model.access.access import Grant
from restante.model.actions.action_answers import ActionStatus, OutcomesReported, OutcomesTaken
from restante.model.actions.wanted_action import WantedAction
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message


class ActionPublish(PublishRequest):
    """An action to be stored, and its status if it was stored before."""

    __slots__ = ("known", "message", "wanted")

    def __init__(self, wanted: WantedAction, message: Message, caller: Grant) -> None:
        super().__init__((message,), caller=caller)
        self.wanted = wanted
        self.message = message
        self.known: ActionStatus | None = None
        """The status of an action that was stored before, once it was looked up."""


def act_soon(
    hub: OpenHub, wanted: WantedAction, carried: Mapping[str, str], caller: Grant, waiter: LoopWaiter[Receipt]
) -> None:
    """Have an action stored for `caller`; the waiter gets an `ActionPublish`."""
    message, _ = prepared(hub.core, SendAction(wanted, carried=carried))
    check_messages((message,))
    hub.core.committer.submit_soon(ActionPublish(wanted, message, caller), waiter)


def stored_status(hub: OpenHub, request: ActionPublish) -> ActionStatus:
    """The status of an action that was stored now."""
    return declared_status(hub.core, request.wanted.action, accepted_now(request.message, request.published_at))


def looked_up(hub: OpenHub, request: ActionPublish) -> ActionStatus:
    """The status of an action that was known before."""
    return answered(hub.core, SendAction(request.wanted), request.message, request.answer(), request.published_at)


def report_soon(hub: OpenHub, call: ReportOutcomes, waiter: LoopWaiter[OutcomesTaken]) -> bool:
    """Have a report committed, if nothing has to be read for it; else nothing is done."""
    if not are_light(hub.core, (call,)):
        return False
    hub.core.committer.submit_soon(report_request(hub.core, call), waiter)
    return True


def report_all_soon(hub: OpenHub, call: ReportEach, waiter: LoopWaiter[OutcomesReported]) -> bool:
    """Report outcomes of several partitions, as `report_soon` does for one."""
    return report_each_soon(hub.core, call, waiter)
