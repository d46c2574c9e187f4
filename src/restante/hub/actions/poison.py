"""Poison: listing the actions of a group that could not be done, repeating them, and giving them up.

When a worker dies, each action that it ran counts one more death. The third death makes the action poison.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Sequence
from functools import partial

import msgspec
from msgspec import UNSET, Raw, UnsetType

from restante import limits
from restante.calls.actions import GiveUpPoison, ListPoison, RepeatPoison
from restante.errors import ActionUnknown, InvalidRequest, MessageErased, MessageUnknown
from restante.hub.action_rows.action_memory import ActionMemory, ActionPlace
from restante.hub.action_rows.outcome_rows import action_so_far, put_action, put_ending
from restante.hub.action_rows.settle_action import ring_actions
from restante.hub.actions.look_up import check_id, find_action, look_up
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.groups.group_rows import group_so_far, position_so_far, unknown_group
from restante.hub.groups.memory import GroupMemory
from restante.hub.mailboxes.history import find
from restante.hub.removal import removal
from restante.model.access.access import EVERYTHING, Grant
from restante.model.actions.action_answers import ActionProblem, ActionStatus, PoisonedAction, PoisonPage
from restante.model.actions.action_reports import Ending, after_death
from restante.model.actions.action_row import (
    ActionRow,
    ActionState,
    OutcomeTexts,
    PoisonRow,
    action_key,
    decode_action,
    decode_poison,
    poison_key,
    poison_prefix,
)
from restante.model.columns import media_types
from restante.model.groups.group_answers import Running
from restante.model.groups.group_names import check_group
from restante.model.groups.membership import GroupMember
from restante.model.mailboxes.answers import moment
from restante.model.mailboxes.list_pages import page_size
from restante.model.publishing.message import Message
from restante.model.storage.change import ChangeKind
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix, key_number

_encoder = msgspec.json.Encoder()


def list_poison(core: Core, call: ListPoison, _: Grant) -> PoisonPage:
    """List poisoned actions by partition and number. A page ends before it becomes too large to send."""
    name, size = check_group(call.group), page_size(call.limit)
    _check_known(core, name)
    found: list[PoisonedAction] = []
    room = limits.ANSWER_BYTES_TARGET
    for place, poison in _entries(core, name, _start(core, call.after)):
        if len(found) >= size or room < 0:
            last = found[-1]
            return PoisonPage(poison=tuple(found), next=f"{last.partition}-{last.sequence_number}")
        shown = _shown(core, place, poison)
        if shown is not None:
            found.append(shown)
            room -= len(_encoder.encode(shown))
    return PoisonPage(poison=tuple(found), next=None)


def _check_known(core: Core, name: str) -> None:
    """Raise `GroupUnknown` unless the group exists, or a deleted group of this name left poison."""
    if name not in core.memory(GroupMemory).groups and next(_entries(core, name, (0, 0)), None) is None:
        raise unknown_group(name)


def _start(core: Core, after: str | None) -> tuple[int, int]:
    """The partition and the number after which a page begins."""
    if after is None:
        return 0, 0
    partition, dash, number = after.partition("-")
    digits = partition + number
    if not (dash and partition and number and digits.isascii() and digits.isdecimal() and len(after) <= 30):
        raise InvalidRequest(f"after must be the next of an earlier page, not {after!r}.", parameter="after")
    if int(partition) >= core.deed.partition_count or int(number) >= 2**63 - 1:
        raise InvalidRequest(f"after must be the next of an earlier page, not {after!r}.", parameter="after")
    return int(partition), int(number)


def _entries(core: Core, group: str, start: tuple[int, int]) -> Iterator[tuple[ActionPlace, PoisonRow]]:
    first, after = start
    end = after_prefix(poison_prefix(group))
    for partition in range(max(first, core.owned.start), core.owned.stop):
        key: bytes | None = poison_key(group, after + 1 if partition == first else 0)
        while key is not None:
            page = core.store.scan(partition, Space.ACTION_POISON, start=key, end=end, limit=limits.PAGE_MAX)
            for own, value in page:
                poison = decode_poison(value)
                yield ActionPlace(partition, poison.recipient_hash, key_number(own[-8:])), poison
            key = page[-1][0] + b"\x00" if len(page) == limits.PAGE_MAX else None


def _shown(core: Core, place: ActionPlace, poison: PoisonRow) -> PoisonedAction | None:
    """A poisoned action with its message; None if it is gone meanwhile."""
    value = core.store.get(place.partition, Space.ACTION, action_key(place.recipient_hash, place.number))
    if value is None:
        return None
    row = decode_action(value)
    try:
        message = find(core, core.address(row.concerns), row.text_id or uuid_text(row.id))
    except (MessageUnknown, MessageErased):
        return None
    return _poisoned(place, poison, row, message)


def _poisoned(place: ActionPlace, poison: PoisonRow, row: ActionRow, message: Message) -> PoisonedAction:
    data, text, encoded = _content(message)
    return PoisonedAction(
        id=row.text_id or uuid_text(row.id),
        action=row.name,
        concerns=row.concerns,
        origin=row.origin,
        partition=place.partition,
        sequence_number=place.number,
        published_at=moment(row.accepted_at),
        media_type=message.media_type or media_types.BYTES,
        properties=message.properties,
        attempts=row.attempts,
        deaths=row.deaths,
        problem=ActionProblem(code=row.code, detail=poison.detail),
        at=moment(poison.at),
        member=poison.member,
        data=data,
        text=text,
        data_base64=encoded,
    )


def _content(message: Message) -> tuple[Raw | UnsetType, str | UnsetType, str | UnsetType]:
    """The body as JSON, as text, or as bytes."""
    if isinstance(message.data, bytes):
        return UNSET, UNSET, base64.b64encode(message.data).decode()
    if message.text is not None:
        return UNSET, message.text, UNSET
    return (UNSET if message.data is UNSET else Raw(_encoder.encode(message.data))), UNSET, UNSET


def _poison_of(core: Core, call: RepeatPoison | GiveUpPoison) -> ActionRow:
    name = check_group(call.group)
    check_id(call.action_id)
    _check_known(core, name)
    _, row = find_action(core, call.action_id, call.concerns)
    if row.state is not ActionState.POISONED or row.group != name:
        raise ActionUnknown(
            f"No poison of the group {name!r} has the id {call.action_id!r}. GET /v1/actions/{call.action_id} says what became "
            "of it.",
            id=call.action_id,
            group=name,
        )
    return row


def repeat_poison(core: Core, call: RepeatPoison, _: Grant) -> ActionStatus:
    """Release a poisoned action to the end, with its counts reset."""
    row = _poison_of(core, call)
    removal.release(core, core.address(row.concerns), call.action_id)
    return look_up(core, call.action_id, row.concerns, EVERYTHING)


def give_up_poison(core: Core, call: GiveUpPoison, _: Grant) -> None:
    row = _poison_of(core, call)
    removal.withdraw(core, core.address(row.concerns), call.action_id)


def count_deaths(core: Core, draft: RequestDraft, group: str, member: GroupMember, running: Sequence[Running]) -> None:
    """Count a death for each action of its group that a member was running when its lease ended in this commit.

    Only what this hub has handed out since it was opened counts. A member can claim any number, and in a commit nothing is
    read for numbers that nobody was handed.
    """
    for own in running:
        if not 0 <= own.partition < core.deed.partition_count:
            continue
        if position_so_far(core, draft, group, own.partition).holder == member.member_id:
            _count(core, draft, group, member, own)


def _count(core: Core, draft: RequestDraft, group: str, member: GroupMember, own: Running) -> None:
    key = (own.partition, own.sequence_number)
    handed = core.memory(ActionMemory).handed.get(key)
    if handed is None:
        return
    place = ActionPlace(own.partition, handed.recipient_hash, handed.number)
    row = action_so_far(draft, place)
    if row is None or row.is_final or row.name not in group_so_far(core, draft, group).actions:
        return
    after = after_death(row, now=core.clock(), group=group)
    if after.is_final:
        detail = f"{after.deaths} workers died, or lost their leases, while they did it; the last was {member.name}."
        put_ending(core, draft, place, Ending(after, ChangeKind.SET_ASIDE, OutcomeTexts(b"", detail)), member.name)
        ring_actions(draft, [row.id])
    else:
        put_action(draft, place, after)
        draft.applies.append(partial(core.memory(ActionMemory).note_death, *key, after.deaths))


def running_in(core: Core, partition: int, recipient_hash: int, numbers: Collection[int]) -> set[int]:
    """The numbers, among these of a thing's actions, that members of their groups are running, by their own statements."""
    groups, running = core.memory(GroupMemory), set()
    for name, known in tuple(groups.groups.items()):
        for number in groups.at_work(name, partition).intersection(numbers) if known.row.actions else ():
            value = core.store.get(partition, Space.ACTION, action_key(recipient_hash, number))
            if value is not None and decode_action(value).name in known.row.actions:
                running.add(number)
    return running
