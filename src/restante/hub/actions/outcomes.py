"""Reports of outcomes of actions: outcomes, settled messages, poison and the position are written in one commit.

A report with an outdated generation changes nothing. Repeating a report is harmless, because an action keeps its outcome.
`forget_texts` deletes results and texts of problems after a while.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa

from restante import limits
from restante.calls.actions import ReportOutcomes
from restante.calls.groups import WriteCheckpoint
from restante.errors import InvalidRequest, PositionAhead, PositionGone
from restante.hub.action_rows.action_memory import ActionMemory, ActionPlace, HandedAction, TriedAction
from restante.hub.action_rows.outcome_rows import put_ending
from restante.hub.action_rows.settle_action import ring_actions, view_action
from restante.hub.engine.commit_request import Planned
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.feed.feed import read_feed
from restante.hub.feed.feed_sources import feed_gone
from restante.hub.groups.action_pages import action_name
from restante.hub.groups.checkpoints import asks_home, check_number, plan_checkpoint, tell_home
from restante.hub.groups.group_rows import action_owner_so_far, group_so_far, membership_so_far, position_so_far
from restante.hub.groups.memory import GroupMemory, UntoldPosition
from restante.hub.publishing.publish import check_partition
from restante.model.access.access import Grant
from restante.model.actions.action_answers import OutcomesTaken
from restante.model.actions.action_kind import ACTION_KIND
from restante.model.actions.action_reports import UNKNOWN, checked_outcome, ending_of, says_unknown
from restante.model.columns.arrow import column_of, numbers_of
from restante.model.feed.feed_answers import FeedWish
from restante.model.groups.group import GroupRow
from restante.model.groups.group_names import check_group
from restante.model.groups.group_position import check_generation
from restante.model.publishing.few_or_many import are_few
from restante.model.storage.changes import Space
from restante.model.storage.keys import number_key
from restante.model.work.results import WorkOutcome

_log = logging.getLogger(__name__)
_ACTIONS_AT_ONCE = 1_000
_WHOSE = FeedWish(kinds=(ACTION_KIND,), columns=("sequence_number", "recipient", "origin", "properties"))


def report_outcomes(core: Core, call: ReportOutcomes, _: Grant) -> OutcomesTaken:
    taken = core.submit(report_request(core, call))
    tell_if_release(core, call)
    return taken


def tell_if_release(core: Core, call: ReportOutcomes) -> None:
    """Tell the home of groups, in another shard, of a report that may release its partition. Call it after the commit."""
    if asks_home(core, call.release):
        tell_home(core, call.group, call.partition, UntoldPosition(call.generation, call.release))


def report_request(core: Core, call: ReportOutcomes) -> Planned[OutcomesTaken]:
    """A report request, to be submitted. Actions that are not in memory are read here, before the commit."""
    name = check_group(call.group)
    check_partition(core, call.partition)
    check_number("generation", call.generation)
    check_number("position", call.position or 0)
    outcomes = _checked(core, call.outcomes)
    _check_not_stale(core, name, call)
    handed = _handed(core, call.partition, [outcome.sequence_number for outcome in outcomes])
    return Planned(partial(_plan, core, name, call, outcomes, handed))


def _check_not_stale(core: Core, name: str, call: ReportOutcomes) -> None:
    """Refuse a stale generation early, before anything is read. Generations ascend, so it stays stale in the commit."""
    known = core.memory(GroupMemory).groups.get(name)
    if known is not None and call.generation < known.positions[call.partition].generation:
        check_generation(known.positions[call.partition], call.generation)


def are_light(core: Core, reports: Sequence[ReportOutcomes]) -> bool:
    """Whether an event loop may submit reports: they have few outcomes, and need neither reads nor calls to other shards."""
    if not are_few(sum([len(own.outcomes) for own in reports])):
        return False
    if any(asks_home(core, own.release) for own in reports):
        return False
    handed = core.memory(ActionMemory).handed
    return all((own.partition, one.sequence_number) in handed for own in reports for one in own.outcomes)


def _checked(core: Core, outcomes: Sequence[WorkOutcome]) -> list[WorkOutcome]:
    if len(outcomes) > limits.OUTCOMES_AT_ONCE_MAX:
        raise InvalidRequest(f"A report has at most {limits.OUTCOMES_AT_ONCE_MAX:,} outcomes.", field="outcomes")
    poison = core.settings.actions.undeclared == "poison"
    return [checked_outcome(outcome, poison_undeclared=poison) for outcome in outcomes]


def _handed(core: Core, partition: int, numbers: Sequence[int]) -> Mapping[int, HandedAction]:
    handed = core.memory(ActionMemory).handed
    known = {number: handed.get((partition, number)) for number in numbers}
    found = _find_handed(core, partition, sorted(number for number, action in known.items() if action is None))
    return found | {number: action for number, action in known.items() if action is not None}


def _find_handed(core: Core, partition: int, numbers: Sequence[int]) -> dict[int, HandedAction]:
    """Actions that are no longer in memory, by these ascending numbers, read from the feed in pages."""
    found: dict[int, HandedAction] = {}
    while numbers:
        try:
            page = read_feed(core, partition, numbers[0] - 1, _WHOSE, _ACTIONS_AT_ONCE, only_messages=True)
        except PositionGone:
            numbers = numbers[bisect_right(numbers, feed_gone(core, core.partitions[partition])) :]
            continue
        except PositionAhead:
            break
        for action in _actions_of(core, page.table, numbers):
            found[action.number] = action
        numbers = numbers[bisect_right(numbers, page.next) :] if page.next < page.end else ()
    return found


def _actions_of(core: Core, table: pa.Table, numbers: Sequence[int]) -> Iterator[HandedAction]:
    """The actions of a page of the feed that have these numbers."""
    wanted = np.flatnonzero(np.isin(numbers_of(table["sequence_number"]), numbers))
    for row in table.take(column_of(wanted)).to_pylist():
        concerns = str(row["recipient"])
        name = action_name(row["properties"]) or ""
        yield HandedAction(row["sequence_number"], core.locate(concerns).hash, concerns, str(row["origin"]), name)


def _plan(
    core: Core,
    name: str,
    call: ReportOutcomes,
    outcomes: Sequence[WorkOutcome],
    handed: Mapping[int, HandedAction],
    draft: RequestDraft,
) -> OutcomesTaken:
    group = group_so_far(core, draft, name)
    check_generation(position_so_far(core, draft, name, call.partition), call.generation)
    member = _member_name(core, draft, name, call.partition)
    ended = [
        _take(core, draft, group, call, member, outcome, handed.get(outcome.sequence_number)) for outcome in outcomes
    ]
    ids = [own_id for own_id in ended if own_id]
    ring_actions(draft, ids)
    checkpoint = WriteCheckpoint(name, call.partition, call.position or 0, call.generation, call.release)
    written = plan_checkpoint(core, name, checkpoint, draft)
    return OutcomesTaken(
        partition=call.partition,
        generation=written.generation,
        position=written.position,
        taken=sum(own_id is not None for own_id in ended),
        known=sum(own_id is None for own_id in ended),
    )


def _member_name(core: Core, draft: RequestDraft, name: str, partition: int) -> str:
    holder = position_so_far(core, draft, name, partition).holder
    member = membership_so_far(core, draft, name).member(holder)
    return core.memory(GroupMemory).names.get(holder, "") if member is None else member.name


def _take(
    core: Core,
    draft: RequestDraft,
    group: GroupRow,
    call: ReportOutcomes,
    member: str,
    outcome: WorkOutcome,
    handed: HandedAction | None,
) -> bytes | None:
    """Take one outcome; return the action's id if it ends the action, empty bytes if not, and None if nothing changes."""
    if handed is None:
        return None
    place = ActionPlace(call.partition, handed.recipient_hash, handed.number)
    outcome = _with_beginning(core, outcome, place, handed)
    view = view_action(core, draft, place, handed.concerns, handed.origin)
    if view is None:
        return None
    was_handed = (handed.group, handed.generation) == (group.name, call.generation)
    if not was_handed and not _may_report(core, draft, group, view.row.name, outcome):
        return None
    if not outcome.is_final:
        if not view.row.is_final:
            draft.applies.append(partial(_note_tried, core, place, outcome))
        return None if view.row.is_final else b""
    ending = ending_of(view.row, outcome, group=group.name, now=core.clock())
    if ending is None:
        return None
    put_ending(core, draft, place, ending, member, view)
    if ending.row.code == UNKNOWN:
        draft.applies.append(partial(_tell_of_unknown, core, view.row.name))
    return view.row.id


def _may_report(core: Core, draft: RequestDraft, group: GroupRow, action: str, outcome: WorkOutcome) -> bool:
    """Whether a group may report this of an action that it was not handed in this generation as its own.

    That is anything of an action that it has declared, and of one that nobody has, only that.
    """
    if action in group.actions:
        return True
    return group.is_of_actions and says_unknown(outcome) and action_owner_so_far(core, draft, action) is None


def _with_beginning(core: Core, outcome: WorkOutcome, place: ActionPlace, handed: HandedAction) -> WorkOutcome:
    """The outcome with a beginning. If its worker gives none, it is the one given before, or else the time of handing out."""
    if outcome.begun_at is not None or not outcome.attempts:
        return outcome
    tried = core.memory(ActionMemory).under_way.get((place.partition, place.number))
    begun = (0 if tried is None else tried.begun_at) or handed.at or core.clock()
    return msgspec.structs.replace(outcome, begun_at=begun / 1_000_000)


def _tell_of_unknown(core: Core, name: str) -> None:
    """Log an action of an unknown name, once for each name and up to a bound, because any sender can choose names."""
    told = core.memory(ActionMemory).unknown_told
    if name not in told and len(told) < limits.ACTION_NAMES_COUNTED_MAX:
        told.add(name)
        _log.warning("An action of the name %r failed: no group has declared it.", name)


def _note_tried(core: Core, place: ActionPlace, outcome: WorkOutcome) -> None:
    problem = outcome.problem
    tried = TriedAction(
        outcome.attempts,
        _microseconds(outcome.begun_at),
        _microseconds(outcome.next_attempt_at),
        "" if problem is None else problem.code,
        "" if problem is None else problem.detail,
    )
    core.memory(ActionMemory).tried(place.partition, place.number, tried)


def _microseconds(seconds: float | None) -> int:
    return 0 if seconds is None else round(seconds * 1_000_000)


_ROWS_AT_ONCE = 1_000


def forget_texts(core: Core) -> int:
    """Delete results and texts past their retention; return how many. The outcomes themselves stay. A chore."""
    before = core.clock() - int(core.settings.outcome_retention_seconds * 1_000_000)
    return sum(_forget_in(core, partition, before) for partition in core.owned)


def _forget_in(core: Core, partition: int, before: int) -> int:
    forgotten = 0
    while before >= 0:
        end = number_key(before + 1)
        found = core.store.scan(partition, Space.ACTION_TEXTS, end=end, limit=_ROWS_AT_ONCE)
        if found:
            core.commit(partial(_delete, partition, [key for key, _ in found]))
        forgotten += len(found)
        if len(found) < _ROWS_AT_ONCE:
            break
    return forgotten


def _delete(partition: int, keys: Sequence[bytes], draft: RequestDraft) -> None:
    for key in keys:
        draft.delete(partition, Space.ACTION_TEXTS, key)
