"""A send that a door refuses: each shard says which of its messages are in conflict, so that one answer names all faults."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from restante.calls.publishing import Publish
from restante.calls.shards import JudgeMessages
from restante.cluster.shard_lines import ShardLines
from restante.errors import Fault, FaultyMessages
from restante.model.access.access import Grant
from restante.model.publishing.delay import are_delayed, refuse_combined, size_faults
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.publishing.validation import misplaced
from restante.model.sources.source import positions_of, refuse_positions


@dataclass(slots=True, eq=False)
class FlawedSend(Exception):
    """Messages that will not be stored."""

    columns: MessageColumns
    faults: Sequence[Fault]
    partition: int | None = None
    """The one that all were sent to."""


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """The part that one shard is asked about, and where it stands in the body."""

    shard: int
    call: JudgeMessages
    rows: Sequence[int]


def check_together(call: Publish, columns: MessageColumns, now: int) -> None:
    """Raise what is wrong with a send as a whole. A shard would refuse its own part, and the others store theirs."""
    delayed = are_delayed(columns, now)
    if call.source is not None:
        if delayed:
            raise refuse_combined("a source")
        positions_of(columns)
        return
    refuse_positions(columns)
    if delayed and call.batch is not None:
        raise refuse_combined("a batch")
    faults = size_faults(columns) if delayed else []
    if faults:
        raise FlawedSend(columns, faults)


async def whole_refusal(
    lines: ShardLines, flawed: FlawedSend, parts: Sequence[JudgedPart], caller: Grant
) -> FaultyMessages:
    """The refusal with all faults of a send. The conflicts in a shard that does not answer are left out."""
    asked = [lines.call(part.shard, part.call, caller) for part in parts]
    found = list(flawed.faults)
    for part, outcome in zip(parts, await asyncio.gather(*asked, return_exceptions=True), strict=True):
        if not isinstance(outcome, BaseException):
            found += [msgspec.structs.replace(fault, index=part.rows[fault.index]) for fault in outcome]
    found += misplaced(flawed.columns, flawed.faults, flawed.partition, lines.partition_count)
    return refusal(sorted(found, key=lambda fault: fault.index))
