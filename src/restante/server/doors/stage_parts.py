"""Parcels of consignments cut by shards: each stages its part, and when all have, the home of the consignment notes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from restante.calls.consignments import StageParcel
from restante.calls.shards import NoteParcel, StagedPart, StagePart
from restante.cluster.shard_lines import ShardLines
from restante.errors import FaultyMessages
from restante.model.access.access import Grant
from restante.model.consignments.consignment_answers import Staged
from restante.server.doors.publish_parts import ShardPart, StagedCut, in_the_body


async def stage(lines: ShardLines, call: StageParcel, cut: StagedCut, caller: Grant) -> Staged:
    """Stage a parcel. Nothing counts as staged before home has noted it. All of it may be done again."""
    sends = [lines.call(part.shard, _part_of(call, cut, part), caller) for part in cut.parts]
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    staged = _all_staged(cut.parts, outcomes)
    note = NoteParcel(
        consignment_id=call.consignment_id,
        writer=call.writer,
        attempt=call.attempt,
        parcel=call.parcel,
        digest=cut.digest,
        messages=sum(one.messages for one in staged),
        length=sum(one.length for one in staged),
        runs=tuple(run for one in staged for run in one.runs),
    )
    return await lines.call(lines.of_name(call.consignment_id.lower()), note, caller)


def _part_of(call: StageParcel, cut: StagedCut, part: ShardPart) -> StagePart:
    return StagePart(call.consignment_id, part.body, call.writer, call.attempt, call.parcel, cut.digest)


def _all_staged(parts: Sequence[ShardPart], outcomes: Sequence[StagedPart | BaseException]) -> Sequence[StagedPart]:
    refused = [(part, error) for part, error in zip(parts, outcomes, strict=True) if isinstance(error, FaultyMessages)]
    if refused:
        raise in_the_body((part.rows, error) for part, error in refused)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, StagedPart)]
