"""Accepting actions. Each becomes a message of the kind `action`, which is published like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from restante import limits
from restante.calls.actions import ReadAction, SendAction, SendActions
from restante.calls.publishing import Publish
from restante.errors import ActionUnknown, InvalidRequest
from restante.hub.actions.look_up import follow_action, look_up
from restante.hub.engine import filing
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.core import Core, uuid_text
from restante.hub.groups.memory import GroupMemory
from restante.hub.publishing.calls import enlisted_request, publish
from restante.hub.publishing.publish_request import PublishRequest
from restante.model.access.access import EVERYTHING, Grant
from restante.model.actions.action_answers import AcceptedAction, AcceptedActions, ActionStatus
from restante.model.actions.action_row import ActionState
from restante.model.actions.wanted_action import WantedAction, message_of
from restante.model.columns.text_ids import shown_id
from restante.model.mailboxes.answers import Receipt, moment
from restante.model.publishing.few_or_many import few_or_many
from restante.model.publishing.message import Message


def send_action(core: Core, call: SendAction, caller: Grant) -> ActionStatus:
    message, publishing = prepared(core, call)
    request = enlisted_request(core, publishing, caller)
    filing.relieve(core)
    receipt = core.submit(request)
    return answered(core, call, message, receipt, published_at(request))


def prepared(core: Core, call: SendAction) -> tuple[Message, Publish]:
    """The message of an action, and the publish that stores it."""
    message = _message(core, call.wanted, call.carried)
    return message, Publish(few_or_many([message]), batch=call.batch)


def published_at(request: CommitRequest[Receipt]) -> int:
    """When the messages of an answered request were stored."""
    assert isinstance(request, PublishRequest), "actions are stored at once"
    return request.published_at


def answered(core: Core, call: SendAction, message: Message, receipt: Receipt, at: int) -> ActionStatus:
    """The answer to an action stored `at` this time. For an action that was known before, its status is looked up."""
    found = accepted_now(message, at) if receipt.accepted and call.wait <= 0 else None
    if found is None:
        assert message.id is not None, "an action has its id before it is stored"
        found = follow_action(core, ReadAction(message.id, message.recipient, call.wait), EVERYTHING)
    return declared_status(core, call.wanted.action, found)


def accepted_now(message: Message, at: int) -> ActionStatus:
    assert message.id is not None, "an action has its id before it is stored"
    return ActionStatus(
        id=shown_id(message.id),
        action=message.properties["action"],
        concerns=message.recipient,
        state=ActionState.ACCEPTED,
        attempts=0,
        deaths=0,
        accepted_at=moment(at),
        begun_at=None,
        ended_at=None,
    )


def declared_status(core: Core, action: str, status: ActionStatus) -> ActionStatus:
    return msgspec.structs.replace(status, declared=is_declared(core, action))


def is_declared(core: Core, action: str) -> bool:
    return any(action in known.row.actions for known in tuple(core.memory(GroupMemory).groups.values()))


def send_actions(core: Core, call: SendActions, caller: Grant) -> AcceptedActions:
    messages, publishing = prepared_many(core, call)
    return answered_many(core, messages, publish(core, publishing, caller))


def prepared_many(core: Core, call: SendActions) -> tuple[Sequence[Message], Publish]:
    if not 0 < len(call.wanted) <= limits.ACTIONS_AT_ONCE_MAX:
        most = limits.ACTIONS_AT_ONCE_MAX
        raise InvalidRequest(f"actions has 1 to {most:,} actions, not {len(call.wanted):,}.", field="actions")
    messages = [_message(core, wanted, call.carried) for wanted in call.wanted]
    return messages, Publish(few_or_many(messages), batch=call.batch)


def answered_many(core: Core, messages: Sequence[Message], receipt: Receipt) -> AcceptedActions:
    """The answers to actions, in their order. If some were known before, their states are looked up."""
    states = [ActionState.ACCEPTED] * len(messages)
    if receipt.duplicates:
        states = [look_up(core, message.id or "", message.recipient).state for message in messages]
    return AcceptedActions(
        actions=tuple(
            AcceptedAction(
                id=shown_id(message.id or ""),
                action=message.properties["action"],
                concerns=message.recipient,
                state=state,
            )
            for message, state in zip(messages, states, strict=True)
        )
    )


def _message(core: Core, wanted: WantedAction, carried: Mapping[str, str]) -> Message:
    settings = core.settings
    if settings.actions.undeclared == "refuse" and not is_declared(core, wanted.action):
        raise ActionUnknown(
            f"No group has declared the action {wanted.action!r}. Start the worker that does it, or correct the name.",
            action=wanted.action,
        )
    held = settings.groups.hold_seconds
    message_id = uuid_text(core.new_uuid()) if wanted.id is None else wanted.id
    now = moment(core.clock())
    return message_of(
        wanted,
        message_id=message_id,
        now=now,
        expires_seconds=min(settings.actions.expires_seconds, held),
        expires_seconds_max=held,
        carried=carried,
    )
