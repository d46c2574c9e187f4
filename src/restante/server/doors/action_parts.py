"""Actions cut by the mailboxes of the things that they concern, and looked for where they may be."""

from __future__ import annotations

import asyncio

import msgspec

from restante.calls.actions import ReadAction, ReportEach, ReportOutcomes, SendAction, SendActions
from restante.cluster.shard_lines import ShardLines
from restante.errors import ActionUnknown, RestanteError
from restante.model.access.access import Grant
from restante.model.actions.action_answers import (
    AcceptedAction,
    AcceptedActions,
    ActionStatus,
    OutcomesReported,
    PartitionReported,
    reported,
)
from restante.model.actions.wanted_action import WantedAction


async def send_action(lines: ShardLines, call: SendAction, caller: Grant) -> ActionStatus:
    return await lines.call(lines.of_name(call.wanted.concerns), call, caller)


async def send_actions(lines: ShardLines, call: SendActions, caller: Grant) -> AcceptedActions:
    """Each shard accepts its own, all of them or none."""
    rows: dict[int, list[int]] = {}
    wanted: list[WantedAction] = list(call.wanted)
    for row, one in enumerate(wanted):
        rows.setdefault(lines.of_name(one.concerns), []).append(row)
    if len(rows) <= 1:
        return await lines.call(next(iter(rows), 0), call, caller)
    parts = {shard: msgspec.structs.replace(call, wanted=[wanted[row] for row in own]) for shard, own in rows.items()}
    answers = await asyncio.gather(*(lines.call(shard, part, caller) for shard, part in parts.items()))
    found: dict[int, AcceptedAction] = {}
    for own, answer in zip(rows.values(), answers, strict=True):
        found.update(zip(own, answer.actions, strict=True))
    return AcceptedActions(actions=tuple(found[row] for row in range(len(wanted))))


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
    if len(known) == 1 and call.wait > 0 and not known[0].is_final:
        return await read_action(lines, msgspec.structs.replace(call, concerns=known[0].concerns), caller)
    if not known:
        raise next(one for one in outcomes if isinstance(one, RestanteError))
    return known[0]


async def report_each(lines: ShardLines, call: ReportEach, caller: Grant) -> OutcomesReported:
    """Each shard takes those of its partitions. One that is silent harms no other; if all are, that is the answer."""
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
