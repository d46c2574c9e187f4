"""Actions cut by the mailboxes of the things that they concern, and looked for where they may be; poison of all shards."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

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
from restante.cluster.shard_lines import ShardLines, is_silent
from restante.errors import (
    ActionUnknown,
    FaultyMessages,
    GroupUnknown,
    InvalidRequest,
    PartlyAnswered,
    PartlyStored,
    RestanteError,
)
from restante.limits import ACTIONS_AT_ONCE_MAX
from restante.model.access.access import EVERYTHING, Grant
from restante.model.actions.action_answers import (
    AcceptedAction,
    AcceptedActions,
    ActionStatus,
    OutcomesReported,
    PartitionReported,
    PoisonedAction,
    PoisonPage,
    reported,
)
from restante.model.actions.action_reports import check_reports
from restante.model.actions.wanted_action import WantedAction, message_of
from restante.model.groups.group import GROUPS_HOME
from restante.model.mailboxes.list_pages import page_size
from restante.model.publishing.message import Message
from restante.model.uuid_text import made_ids
from restante.server.doors.publish_parts import in_the_body, of_their_shards
from restante.settings import Settings


async def send_action(lines: ShardLines, call: SendAction, caller: Grant) -> ActionStatus:
    return await lines.call(lines.of_name(call.wanted.concerns), call, caller)


def with_ids(wanted: Sequence[WantedAction]) -> list[WantedAction]:
    """Ids are made here, so that the call may be carried again."""
    made = iter(made_ids(sum(one.id is None for one in wanted), os.urandom, time.time_ns() // 1_000_000))
    return [one if one.id is not None else msgspec.structs.replace(one, id=next(made)) for one in wanted]


def messages_of(call: SendActions, settings: Settings) -> list[Message]:
    """The messages that actions become, to be checked before anything is sent. An action that none can be made of is refused."""
    now, held = datetime.now(UTC), settings.groups.hold_seconds
    if not 0 < len(call.wanted) <= ACTIONS_AT_ONCE_MAX:
        count = len(call.wanted)
        raise InvalidRequest(f"actions has 1 to {ACTIONS_AT_ONCE_MAX:,} actions, not {count:,}.", field="actions")
    return [
        message_of(
            one,
            message_id=one.id or "",
            now=now,
            expires_seconds=min(settings.actions.expires_seconds, held),
            expires_seconds_max=held,
            carried=call.carried,
        )
        for one in call.wanted
    ]


async def send_actions(
    lines: ShardLines, call: SendActions, wanted: Sequence[WantedAction], caller: Grant
) -> AcceptedActions:
    """Each shard accepts its own actions, all of them or none. `wanted` are those of the call, with ids and checked."""
    rows: dict[int, list[int]] = {}
    for row, one in enumerate(wanted):
        rows.setdefault(lines.of_name(one.concerns), []).append(row)
    parts = {shard: msgspec.structs.replace(call, wanted=[wanted[row] for row in own]) for shard, own in rows.items()}
    sends = (lines.call(shard, part, caller) for shard, part in parts.items())
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    found: dict[int, AcceptedAction] = {}
    for own, answer in zip(rows.values(), outcomes, strict=True):
        if isinstance(answer, AcceptedActions):
            found.update(zip(own, answer.actions, strict=True))
    failed = {
        shard: outcome for shard, outcome in zip(rows, outcomes, strict=True) if isinstance(outcome, BaseException)
    }
    if failed:
        faulty = [(rows[shard], error) for shard, error in failed.items() if isinstance(error, FaultyMessages)]
        others = [error for error in failed.values() if not isinstance(error, FaultyMessages)]
        refused = [in_the_body(faulty)] if faulty else []
        if refused and len(rows) > 1:
            of_their_shards(refused[0])
        raise _failure([*refused, *others], call, [found[row] for row in sorted(found)])
    return AcceptedActions(actions=tuple(found[row] for row in range(len(wanted))))


def _failure(failed: Sequence[BaseException], call: SendActions, accepted: Sequence[AcceptedAction]) -> BaseException:
    """The failure to tell: a refusal goes before a missing answer; either with what is accepted all the same."""
    known = [error for error in failed if isinstance(error, RestanteError)]
    if len(known) < len(failed):
        return next(error for error in failed if not isinstance(error, RestanteError))
    refused = sorted([error for error in known if not is_silent(error)], key=lambda error: type(error).retriable)
    if refused or not accepted:
        gravest = (refused or known)[0]
        if accepted:
            gravest.details["accepted"] = [one.id for one in accepted]
        return gravest
    kind = PartlyAnswered if all(one.id is not None for one in call.wanted) else PartlyStored
    return kind(
        f"{len(failed)} of the shards did not answer in time, the others have accepted theirs.",
        accepted=[one.id for one in accepted],
    )


async def read_action(lines: ShardLines, call: ReadAction, caller: Grant) -> ActionStatus:
    """Where its thing is; if that is not said, wherever it is known. It is waited for only there."""
    if call.concerns is not None:
        return await lines.call(lines.of_name(call.concerns), call, caller)
    now = msgspec.structs.replace(call, wait=0)
    asked = (lines.call(shard, now, caller) for shard in range(len(lines.lines)))
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    others = [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, ActionUnknown)]
    known = [one for one in outcomes if isinstance(one, ActionStatus)]
    if others:
        raise others[0]
    if len(known) > 1:
        text = f"Several actions have the id {call.action_id!r}: say which thing it concerns, with concerns=…"
        raise InvalidRequest(text, parameter="concerns")
    if len(known) == 1 and call.wait > 0 and not known[0].is_final:
        return await read_action(lines, msgspec.structs.replace(call, concerns=known[0].concerns), caller)
    if not known:
        raise next(one for one in outcomes if isinstance(one, RestanteError))
    return known[0]


async def list_poison(lines: ShardLines, call: ListPoison, caller: Grant) -> PoisonPage:
    """A page of poison by partition: shard by shard, from where the last page ended."""
    size, found = page_size(call.limit), list[PoisonedAction]()
    first = _first_shard(lines, call.after)
    unknown: GroupUnknown | None = None
    for shard in range(first, len(lines.lines)):
        room = size - len(found)
        part = msgspec.structs.replace(call, limit=max(1, room), after=call.after if shard == first else None)
        try:
            page = await lines.call(shard, part, caller)
        except GroupUnknown as error:  # of a group that was deleted, some shards may still have poison
            unknown = error
            continue
        found += page.poison[:room]
        if page.next is not None or (not room and page.poison):
            return PoisonPage(poison=tuple(found), next=f"{found[-1].partition}-{found[-1].sequence_number}")
    if unknown is not None and not found and call.after is None:
        raise unknown
    return PoisonPage(poison=tuple(found), next=None)


def _first_shard(lines: ShardLines, after: str | None) -> int:
    """The shard of the partition that the token names. The first refuses what is no token."""
    partition = (after or "0").partition("-")[0]
    is_number = partition.isascii() and partition.isdecimal() and len(partition) < 10
    return lines.of_partition(int(partition)) if is_number and int(partition) < lines.partition_count else 0


async def change_poison(lines: ShardLines, call: RepeatPoison | GiveUpPoison, caller: Grant) -> ActionStatus | None:
    """Where its thing is; if it is nowhere, the home of groups says what is wrong."""
    shard = lines.of_partition(GROUPS_HOME)
    if call.concerns is not None:
        shard = lines.of_name(call.concerns)
    else:
        try:
            found = await read_action(lines, ReadAction(call.action_id), EVERYTHING)
            shard = lines.of_name(found.concerns)
        except (ActionUnknown, InvalidRequest) as error:
            if isinstance(error, InvalidRequest) and error.details.get("parameter") == "concerns":
                raise
    answer: ActionStatus | None = await lines.call(shard, call, caller)
    return answer


async def report_each(lines: ShardLines, call: ReportEach, caller: Grant) -> OutcomesReported:
    """Each shard takes those of its partitions. One that is silent harms no other; if all are, that is the answer."""
    check_reports([(own.partition, own.outcomes) for own in call.reports])
    if not call.reports:
        return OutcomesReported(partitions=())
    parts: dict[int, list[ReportOutcomes]] = {}
    for own in call.reports:
        there = own.partition < lines.partition_count
        parts.setdefault(lines.of_partition(own.partition) if there else 0, []).append(own)
    asked = (lines.call(shard, ReportEach(own), caller) for shard, own in parts.items())
    answers = await asyncio.gather(*asked, return_exceptions=True)
    errors = [one for one in answers if isinstance(one, BaseException)]
    others = [one for one in errors if not isinstance(one, RestanteError)]
    if others or len(errors) == len(answers):
        raise [*others, *errors][0]
    found: dict[int, PartitionReported] = {}
    for reports, answer in zip(parts.values(), answers, strict=True):
        if isinstance(answer, OutcomesReported):
            found.update((one.partition, one) for one in answer.partitions)
        elif isinstance(answer, RestanteError):
            found.update((own.partition, reported(own.partition, answer)) for own in reports)
    return OutcomesReported(partitions=tuple(found[own.partition] for own in call.reports))
