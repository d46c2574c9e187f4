"""Acknowledgements cut by the homes of their batches. A text that is no item id refuses all, before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain

import numpy as np

from restante.calls.batches import AcknowledgeEach, AcknowledgeItems
from restante.cluster.shard_lines import ShardLines
from restante.model.access.access import Grant
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch, ItemIndices, ItemRange
from restante.model.batches.items import IndexColumn, check_calls, named

_BATCH_CHARACTERS = 36


async def acknowledge_each(lines: ShardLines, call: AcknowledgeEach, caller: Grant) -> tuple[Acknowledged, ...]:
    check_calls(call.calls)
    for one in call.calls:
        named(one.items, one.ranges, one.indices)
    return tuple(await asyncio.gather(*(_acknowledge(lines, one, caller) for one in call.calls)))


async def acknowledge(lines: ShardLines, call: AcknowledgeItems, caller: Grant) -> Acknowledged:
    (answer,) = await acknowledge_each(lines, AcknowledgeEach((call,)), caller)
    return answer


async def _acknowledge(lines: ShardLines, call: AcknowledgeItems, caller: Grant) -> Acknowledged:
    parts = _parts(lines, call)
    answers = await asyncio.gather(*(lines.call(shard, part, caller) for shard, part in parts.items()))
    if len(answers) == 1:
        return answers[0]
    return Acknowledged(
        acknowledged=sum(answer.acknowledged for answer in answers),
        complete=_as_named(call, [batch for answer in answers for batch in answer.complete]),
        unknown=_as_sent(call, [one for answer in answers for one in answer.unknown]),
    )


def _parts(lines: ShardLines, call: AcknowledgeItems) -> dict[int, AcknowledgeItems]:
    """The part of a call for each shard. A call that names nothing goes to the first."""
    items: dict[int, list[str]] = {}
    ranges: dict[int, list[ItemRange]] = {}
    indices: dict[int, list[ItemIndices]] = {}
    homes: dict[str, int] = {}

    def home(text: str) -> int:
        batch = text[:_BATCH_CHARACTERS].lower()
        if batch not in homes:
            homes[batch] = lines.of_name(batch)
        return homes[batch]

    for item in call.items:
        items.setdefault(home(item), []).append(item)
    for one in call.ranges:
        ranges.setdefault(home(one.group), []).append(one)
    for each in call.indices:
        indices.setdefault(home(each.group), []).append(_plain(each))
    shards = sorted({*items, *ranges, *indices}) or [0]
    return {
        shard: AcknowledgeItems(items.get(shard, ()), ranges.get(shard, ()), indices.get(shard, ())) for shard in shards
    }


def _plain(one: ItemIndices | IndexColumn) -> ItemIndices:
    if isinstance(one, ItemIndices):
        return one
    return ItemIndices(group=one.group, indices=np.asarray(one.indices).tolist())


def _as_named(call: AcknowledgeItems, complete: Sequence[CompleteBatch]) -> tuple[CompleteBatch, ...]:
    """The complete batches in the order in which the call first names them."""
    if len(complete) < 2:
        return tuple(complete)
    groups = (one.group for one in (*call.indices, *call.ranges))
    batches = {text[:_BATCH_CHARACTERS].lower(): None for text in chain(call.items, groups)}
    places = {batch: place for place, batch in enumerate(batches)}
    return tuple(sorted(complete, key=lambda one: places[one.id]))


def _as_sent(call: AcknowledgeItems, unknown: Sequence[str | ItemRange]) -> tuple[str | ItemRange, ...]:
    """The unknown items in the order in which they were sent: items, indices, ranges."""
    items = {item: place for place, item in reversed([*enumerate(call.items)])}
    indices = {one.group: place for place, one in reversed([*enumerate(call.indices)])}
    ranges = {one.group: place for place, one in reversed([*enumerate(call.ranges)])}

    def place(one: str | ItemRange) -> tuple[int, int]:
        if isinstance(one, ItemRange):
            return 2, ranges[one.group]
        return (0, items[one]) if one in items else (1, indices[one.rpartition(":")[0]])

    return tuple(sorted(unknown, key=place)) if unknown else ()
