"""Looking up the status of an action by its id, in every partition unless its thing is named."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from restante import limits
from restante.calls.actions import ReadAction
from restante.errors import ActionUnknown, InvalidRequest, MessageUnknown
from restante.hub.action_rows.action_memory import ActionMemory, ActionPlace, TriedAction
from restante.hub.action_rows.settle_action import action_bell
from restante.hub.engine.core import Core, is_text, uuid_text
from restante.hub.groups.memory import GroupMemory
from restante.hub.mailboxes.history import find_row
from restante.model.access.access import EVERYTHING, Grant
from restante.model.actions.action_answers import ActionProblem, ActionStatus
from restante.model.actions.action_row import (
    ActionRow,
    ActionState,
    OutcomeTexts,
    action_id_key,
    action_key,
    decode_action,
    decode_poison,
    decode_texts,
    poison_key,
    texts_key,
)
from restante.model.columns.text_ids import id_bytes, is_id
from restante.model.mailboxes.answers import moment
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix, key_number

FoundAction = tuple[ActionPlace, ActionRow]


def read_action(core: Core, call: ReadAction, caller: Grant) -> ActionStatus:
    return follow_action(core, call, caller)


def follow_action(core: Core, call: ReadAction, caller: Grant) -> ActionStatus:
    """The status of an action. With a wait, it is given when the action has ended or the time is up."""
    check_id(call.action_id)
    deadline, rung = time.monotonic() + min(call.wait, limits.WAIT_SECONDS_MAX), threading.Event()
    with core.bell.listening(bell_of(call.action_id), rung.set):
        while True:
            rung.clear()
            status = look_up(core, call.action_id, call.concerns, caller)
            left = deadline - time.monotonic()
            if status.is_final or left <= 0 or core.closing.is_set() or not rung.wait(left):
                return status


def bell_of(action_id: str) -> int:
    return action_bell(id_bytes(action_id))


def check_id(action_id: str) -> None:
    if not (is_text(action_id) and is_id(action_id)):
        raise InvalidRequest(
            f"An action's id is text of 1 to {limits.ID_CHARACTERS_MAX} characters, not blank, without control "
            f"characters, not {action_id!r:.100}.",
            parameter="id",
        )


def look_up(core: Core, action_id: str, concerns: str | None = None, caller: Grant = EVERYTHING) -> ActionStatus:
    """The status of an action. Raises `ActionUnknown` if the caller may not know of it."""
    return status_of(core, *find_action(core, action_id, concerns, caller))


def find_action(core: Core, action_id: str, concerns: str | None = None, caller: Grant = EVERYTHING) -> FoundAction:
    """The place and the row of an action. For a caller that may not know of it, it does not exist."""
    own_id = id_bytes(action_id)
    found = [one for one in _candidates(core, own_id, concerns) if _may_know(core, caller, one[1])]
    if len({row.concerns for _, row in found}) > 1:
        raise InvalidRequest(
            f"Several actions have the id {action_id!r}: say which thing it concerns, with concerns=…",
            parameter="concerns",
        )
    if not found:
        _tell_if_erased(core, action_id, concerns, caller)
        raise ActionUnknown(f"No action has the id {action_id!r}.", id=action_id)
    return found[0]


def _may_know(core: Core, caller: Grant, row: ActionRow) -> bool:
    """Whether a caller may know of an action: as its origin, as the thing it concerns, or as a worker of its group."""
    if caller.may_publish(row.origin) or caller.may_collect(row.concerns):
        return True
    return caller.may_work(row.group or core.memory(GroupMemory).actions().get(row.name, ""))


def _candidates(core: Core, own_id: bytes, concerns: str | None) -> Iterator[FoundAction]:
    if concerns is not None:
        address = core.address(concerns)
        value = core.store.get(address.partition, Space.ACTION_ID, action_id_key(own_id, address.hash))
        keys = [] if value is None else [(address.partition, address.hash, key_number(value))]
    else:
        keys = [
            (partition, key_number(key[16:]), key_number(value))
            for partition in core.owned
            for key, value in core.store.scan(
                partition, Space.ACTION_ID, start=own_id, end=after_prefix(own_id), limit=limits.PAGE_MAX
            )
        ]
    for partition, recipient_hash, number in keys:
        value = core.store.get(partition, Space.ACTION, action_key(recipient_hash, number))
        row = None if value is None else decode_action(value)
        if row is not None and row.id == own_id and concerns in (None, row.concerns):
            yield ActionPlace(partition, recipient_hash, number), row


def _tell_if_erased(core: Core, action_id: str, concerns: str | None, caller: Grant) -> None:
    """Raise `MessageErased` if the action was erased, and the caller may know of the thing."""
    if concerns is None or not caller.may_collect(concerns):
        return
    with suppress(MessageUnknown), core.pins.reading():
        find_row(core, core.address(concerns), action_id)


def status_of(core: Core, place: ActionPlace, row: ActionRow) -> ActionStatus:
    """The status of an action, from its row or from the attempts at it."""
    if not row.is_final:
        return _status_open(core, place, row)
    texts = _texts(core, place, row)
    problem = ActionProblem(code=row.code, detail=texts.detail) if row.code else None
    return _status(row, result=texts.result, problem=problem)


def _status_open(core: Core, place: ActionPlace, row: ActionRow) -> ActionStatus:
    key = (place.partition, place.number)
    tried = core.memory(ActionMemory).under_way.get(key)
    if tried is None:
        groups = core.memory(GroupMemory)
        is_running = place.number in groups.at_work(groups.actions().get(row.name, ""), place.partition)
        return _status(row, state=ActionState.UNDER_WAY if is_running else ActionState.ACCEPTED)
    return _status(row, state=ActionState.UNDER_WAY, tried=tried, problem=_problem_of(tried))


def _problem_of(tried: TriedAction) -> ActionProblem | None:
    return ActionProblem(code=tried.code, detail=tried.detail) if tried.code else None


def _texts(core: Core, place: ActionPlace, row: ActionRow) -> OutcomeTexts:
    if row.state is ActionState.POISONED:
        value = core.store.get(place.partition, Space.ACTION_POISON, poison_key(row.group, place.number))
        return OutcomeTexts(b"", "" if value is None else decode_poison(value).detail)
    if not row.noted:
        return OutcomeTexts()
    key = texts_key(row.ended_at, place.recipient_hash, place.number)
    value = core.store.get(place.partition, Space.ACTION_TEXTS, key)
    return OutcomeTexts() if value is None else decode_texts(value)


def _status(
    row: ActionRow,
    *,
    state: ActionState | None = None,
    tried: TriedAction | None = None,
    result: bytes = b"",
    problem: ActionProblem | None = None,
) -> ActionStatus:
    begun_at = row.begun_at if tried is None else tried.begun_at
    optional: dict[str, object] = {}
    if tried is not None and tried.next_attempt_at:
        optional["next_attempt_at"] = moment(tried.next_attempt_at)
    if result:
        optional["result"] = msgspec.Raw(result)
    if row.location:
        optional["location"] = row.location
    if problem is not None:
        optional["problem"] = problem
    return ActionStatus(
        id=row.text_id or uuid_text(row.id),
        action=row.name,
        concerns=row.concerns,
        state=state or row.state,
        attempts=row.attempts if tried is None else max(row.attempts, tried.attempts),
        deaths=row.deaths,
        accepted_at=moment(row.accepted_at),
        begun_at=moment(begun_at) if begun_at else None,
        ended_at=moment(row.ended_at) if row.ended_at else None,
        **optional,  # type: ignore[arg-type]
    )
