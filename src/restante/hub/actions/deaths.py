"""Workers that died: each action that ran then has one death more, and the third makes it poison."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from restante.hub.action_rows.action_memory import ActionMemory, ActionPlace
from restante.hub.action_rows.outcome_rows import action_so_far, put_action, put_ending
from restante.hub.action_rows.settle_action import ring_actions
from restante.hub.actions.outcomes import find_handed
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.groups.group_rows import position_so_far
from restante.hub.groups.memory import GroupMemory
from restante.model.actions.action_reports import Ending, after_death
from restante.model.actions.action_row import OutcomeTexts
from restante.model.groups.group_answers import Running
from restante.model.groups.membership import GroupMember
from restante.model.storage.change import ChangeKind


def count_deaths(core: Core, draft: RequestDraft, group: str, member: GroupMember, running: Sequence[Running]) -> None:
    """A member's lease has ended without leaving, in this commit; it did these."""
    for own in running:
        if not 0 <= own.partition < core.deed.partition_count:
            continue
        if position_so_far(core, draft, group, own.partition).holder == member.member_id:
            _count(core, draft, group, member, own)


def _count(core: Core, draft: RequestDraft, group: str, member: GroupMember, own: Running) -> None:
    key = (own.partition, own.sequence_number)
    handed = core.memory(ActionMemory).handed.get(key) or find_handed(core, *key)
    if handed is None:
        return
    place = ActionPlace(own.partition, handed.recipient_hash, handed.number)
    row = action_so_far(draft, place)
    if row is None or row.is_final:
        return
    after = after_death(row, now=core.clock(), group=group)
    if after.is_final:
        detail = f"{after.deaths} workers died, or lost their leases, while they did it; the last was {member.name}."
        put_ending(core, draft, place, Ending(after, ChangeKind.SET_ASIDE, OutcomeTexts(b"", detail)), member.name)
        ring_actions(draft, [row.id])
    else:
        put_action(draft, place, after)
        draft.applies.append(partial(core.memory(ActionMemory).note_death, *key, after.deaths))


def running_in(core: Core, partition: int) -> set[int]:
    """The actions of a partition that members say they do, by their numbers."""
    heard = core.memory(GroupMemory).at_work()
    return {own.sequence_number for one in heard for own in one.doing if own.partition == partition}
