"""The short way to the next pages of a group with actions: from memory, as values, without reading the feed or the store.

It serves workers that keep up. `look_next` takes over if memory does not reach back far enough, or there are many actions,
for which columns are cheaper. Both hand out the same actions.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from restante import limits
from restante.calls.groups import ReadNext
from restante.decoders import json_decoder
from restante.hub.action_rows.action_memory import ActionMemory, HandedAction
from restante.hub.action_rows.recent_actions import RecentAction
from restante.hub.engine.commit_request import closed
from restante.hub.engine.core import Core, uuid_text
from restante.hub.groups.group_starts import starts_of
from restante.hub.groups.members import known_member, member_id_of, presume_running
from restante.hub.groups.memory import GroupMemory, KnownGroup
from restante.model.actions.action_kind import ACTION_PROPERTY
from restante.model.columns.text_ids import unpacked
from restante.model.groups.group_answers import FewPage, NextAnswer, ReadAfter, Running
from restante.model.groups.handed_row import HandedRow, ShownBody, shown_body
from restante.model.mailboxes.answers import moment
from restante.model.publishing.message import HEALTH_ORIGIN, NEVER
from restante.model.storage.rows import BUNDLEABLE

_properties_decoder = json_decoder(dict[str, str])


def look_few(core: Core, call: ReadNext) -> NextAnswer | None:
    """The current pages, each with few actions or none; None if they must be read from the feed."""
    if core.closing.is_set():
        raise closed()
    known = known_member(core, call.group, member_id_of(call.member_id))
    if not known.row.is_of_actions:
        return None
    owners = core.memory(GroupMemory).actions()
    found = _found(core, known, owners, call)
    if found is None:
        return None
    pages = tuple([_page(core, call.group, owners, each, actions) for each, actions in found])
    if call.running is not None:
        begun = [own for page in pages for own in _begun(page, names_doubtful=call.revision > 0)]
        presume_running(core, call.member_id, begun)
    return NextAnswer(pages=(), few=pages, now=moment(core.clock()))


_Found = tuple[ReadAfter, list[RecentAction]]


def _is_for(known: KnownGroup, owners: Mapping[str, str], action: RecentAction) -> bool:
    """Whether this group must do an action, or must report it as unknown because no group has declared it."""
    origins = known.row.filter.origins
    return owners.get(action.name) in (None, known.row.name) and (not origins or action.letter.origin in origins)


def _found(core: Core, known: KnownGroup, owners: Mapping[str, str], call: ReadNext) -> list[_Found] | None:
    """For each partition with new changes, the new position and the actions before it; None if they must be read."""
    memory, recent = core.memory(GroupMemory), core.memory(ActionMemory).recent
    starts = starts_of(known, member_id_of(call.member_id), call.after)
    told = memory.told_in(call.group)
    room = min(call.limit or limits.FEW_ACTIONS_MAX, limits.FEW_ACTIONS_MAX)
    found: list[_Found] = []
    for each, start in zip(call.after, starts, strict=True) if not known.row.paused else ():
        counters = core.partitions[each.partition].counters
        if each.partition in told or start == counters.visible:
            continue
        came = recent.between(each.partition, start, counters.visible) if start >= counters.feed_gone else None
        if came is None or start > counters.visible or len(came) > room:
            return None
        own = [action for action in came if _is_for(known, owners, action)]
        room -= len(own)
        looked = msgspec.structs.replace(each, position=counters.visible)
        if not own and start <= known.passed(each.partition):
            known.skimmed[each.partition] = (each.generation, counters.visible)
        found.append((looked, own))
    return found


def _page(core: Core, group: str, owners: Mapping[str, str], each: ReadAfter, actions: list[RecentAction]) -> FewPage:
    memory, now = core.memory(ActionMemory), core.clock()
    memory.hand_out(
        each.partition,
        [
            HandedAction(
                own.number,
                own.recipient_hash,
                own.letter.recipient,
                own.letter.origin,
                own.name,
                now,
                group if own.name in owners else "",
                each.generation,
            )
            for own in actions
        ],
    )
    return FewPage(
        partition=each.partition,
        generation=each.generation,
        next=each.position,
        end=each.position,
        changes=tuple([_row(memory, each.partition, own, is_own=own.name in owners) for own in actions]),
    )


def _row(memory: ActionMemory, partition: int, own: RecentAction, *, is_own: bool) -> HandedRow:
    letter, key = own.letter, (partition, own.number)
    text, stored = unpacked(letter.properties)
    tried = memory.under_way.get(key)
    if is_own:
        properties = _properties_decoder.decode(stored) if stored else {}
        shown = shown_body(letter.data, letter.media_type)
    else:
        properties, shown = {ACTION_PROPERTY: own.name} if own.name else {}, ShownBody()
    return HandedRow(
        sequence_number=own.number,
        at=moment(own.at),
        message_sequence_number=own.number,
        id=text or uuid_text(own.id),
        recipient=letter.recipient,
        origin=letter.origin,
        kind=letter.kind,
        document_type=letter.document_type,
        weight=letter.weight,
        bundleable=bool(letter.flags & BUNDLEABLE),
        data=shown.data,
        text=shown.text,
        data_base64=shown.data_base64,
        media_type=letter.media_type,
        properties=properties or UNSET,
        expires_at=UNSET if letter.expires_at == NEVER else moment(letter.expires_at),
        owner="group" if is_own else "nobody",
        attempts=0 if tried is None else tried.attempts,
        deaths=memory.died.get(key, 0),
    )


def _begun(page: FewPage, *, names_doubtful: bool) -> list[Running]:
    """The actions that a member will probably begin at once, without naming them first."""
    return [
        Running(partition=page.partition, sequence_number=own.sequence_number)
        for own in page.changes
        if own.owner == "group" and own.origin != HEALTH_ORIGIN and not (names_doubtful and own.deaths)
    ]
