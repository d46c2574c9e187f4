"""Groups over several shards: what home says put together with what each shard has, and reads cut by partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from restante.calls.groups import DefineGroup, ListGroups, ReadGroup, ReadNext, SendHeartbeat
from restante.calls.shards import NoteWork
from restante.cluster.shard_lines import ShardLines
from restante.errors import GenerationStale, GroupUnknown, Unavailable
from restante.model.access.access import Grant
from restante.model.groups.group import GROUPS_HOME
from restante.model.groups.group_answers import (
    FewPage,
    GroupPage,
    GroupStatus,
    HeartbeatAnswer,
    NextAnswer,
    NextPage,
)

_NOTE_SECONDS = 0.5


def home_of_groups(lines: ShardLines) -> int:
    return lines.of_partition(GROUPS_HOME)


async def define_group(lines: ShardLines, call: DefineGroup, caller: Grant) -> GroupStatus:
    await lines.call(home_of_groups(lines), call, caller)
    return await read_group(lines, ReadGroup(call.group), caller)


async def read_group(lines: ShardLines, call: ReadGroup, caller: Grant) -> GroupStatus:
    status = await lines.call(home_of_groups(lines), call, caller)
    try:
        return _whole(status, await _others(lines, call, caller))
    except GroupUnknown as error:
        raise _not_told(call.group) from error


async def _others(lines: ShardLines, call: ReadGroup, caller: Grant) -> list[GroupStatus]:
    home = home_of_groups(lines)
    asked = [lines.call(shard, call, caller) for shard in range(len(lines.lines)) if shard != home]
    return await asyncio.gather(*asked)


def _not_told(group: str) -> Unavailable:
    return Unavailable(f"The group {group!r} was made or deleted just now, and not all shards know. Ask again.")


async def list_groups(lines: ShardLines, call: ListGroups, caller: Grant) -> GroupPage:
    """The groups that home lists."""
    pages = await lines.all(call, caller)
    home = pages.pop(home_of_groups(lines))
    parts: dict[str, list[GroupStatus]] = {status.group: [] for status in home.groups}
    for page in pages:
        for status in page.groups:
            parts.setdefault(status.group, []).append(status)
    for status in home.groups:
        if len(parts[status.group]) < len(pages):
            raise _not_told(status.group)
    return GroupPage(groups=tuple(_whole(status, parts[status.group]) for status in home.groups), next=home.next)


def _whole(home: GroupStatus, others: Iterable[GroupStatus]) -> GroupStatus:
    """The whole of a group: its definition and its members from home, how far it is from each shard."""
    every = (home, *others)
    partitions = sorted([own for one in every for own in one.partitions], key=lambda own: own.partition)
    return msgspec.structs.replace(home, lag=sum(one.lag for one in every), partitions=tuple(partitions))


async def send_heartbeat(lines: ShardLines, call: SendHeartbeat, caller: Grant) -> HeartbeatAnswer:
    """Home hears that the member is there, and each shard what it does in its partitions: that does not expire meanwhile."""
    answer = await lines.call(home_of_groups(lines), call, caller)
    parts = {
        shard: tuple(own for own in call.running if own.partition in there) for shard, there in enumerate(lines.ranges)
    }
    # Numbered, it says of every shard what the member does there: nothing, perhaps, where it did something before.
    told = [(shard, own) for shard, own in parts.items() if own or call.revision]
    await asyncio.gather(*(_noted(lines, shard, NoteWork(call.member_id, own, call.revision)) for shard, own in told))
    return answer


async def _noted(lines: ShardLines, shard: int, call: NoteWork) -> None:
    """A shard that is silent hears of it with the next heartbeat; this one is not to wait for it."""
    with suppress(TimeoutError, Unavailable):
        async with asyncio.timeout(_NOTE_SECONDS):
            await lines.lines[shard].call(call)


# --- What a member reads ----------------------------------------------------------------------------------------------


async def read_next(lines: ShardLines, call: ReadNext, caller: Grant) -> NextAnswer:
    """All shards are looked at; if none has anything, the first that has something answers."""
    parts = _parts(lines, call)
    if len(parts) == 1:
        ((shard, part),) = parts.items()
        return await lines.call(shard, part, caller)
    looks = {shard: msgspec.structs.replace(part, wait=0) for shard, part in parts.items()}
    found = await _looked(lines, looks, caller)
    if call.wait > 0 and not any(_has_changes(answer) for answer in found.values()):
        found = await _first(lines, parts, found, caller)
    return _joined(call, await _alike(lines, looks, found, caller))


def _parts(lines: ShardLines, call: ReadNext) -> dict[int, ReadNext]:
    """The question to each shard. A member that has nothing asks home, whether it is one."""
    shards = [lines.of_partition(each.partition) for each in call.after]
    return {
        shard: msgspec.structs.replace(
            call,
            after=tuple(each for each, own in zip(call.after, shards, strict=True) if own == shard),
            running=None
            if call.running is None
            else tuple(own for own in call.running if own.partition in lines.ranges[shard]),
        )
        for shard in sorted(set(shards)) or [home_of_groups(lines)]
    }


def _has_changes(answer: NextAnswer) -> bool:
    return any(page.changes for page in answer.few) or any(page.table.num_rows for page in answer.pages)


async def _looked(lines: ShardLines, parts: Mapping[int, ReadNext], caller: Grant) -> dict[int, NextAnswer]:
    asked = (lines.call(shard, part, caller) for shard, part in parts.items())
    return _answers(dict(zip(parts, await asyncio.gather(*asked, return_exceptions=True), strict=True)))


def _answers(outcomes: Mapping[int, NextAnswer | BaseException]) -> dict[int, NextAnswer]:
    """The answers of shards; or what went wrong, and of what is stale all of it."""
    stale = [outcome for outcome in outcomes.values() if isinstance(outcome, GenerationStale)]
    for outcome in outcomes.values():
        if isinstance(outcome, BaseException) and not isinstance(outcome, GenerationStale):
            raise outcome
    if stale:
        raise _all_stale(stale)
    return {shard: outcome for shard, outcome in outcomes.items() if isinstance(outcome, NextAnswer)}


def _all_stale(errors: Sequence[GenerationStale]) -> GenerationStale:
    named: list[Any] = []
    for error in errors:
        named += cast("list[Any]", error.details.get("stale", []))
    numbers = ", ".join(str(own["partition"]) for own in named)
    return GenerationStale(
        f"Partitions were given to somebody since: {numbers}. Ask with a heartbeat what is yours.", stale=named
    )


async def _first(
    lines: ShardLines, parts: Mapping[int, ReadNext], looked: dict[int, NextAnswer], caller: Grant
) -> dict[int, NextAnswer]:
    """Wait until one shard has something, or none has in time; the others are asked no longer then."""
    waits = {asyncio.ensure_future(lines.call(shard, part, caller)): shard for shard, part in parts.items()}
    pending, found = set(waits), dict(looked)
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            found.update(_answers({waits[one]: one.exception() or one.result() for one in done}))
            if any(_has_changes(found[waits[one]]) for one in done):
                break
    finally:
        for one in pending:
            one.cancel()
    return found


async def _alike(
    lines: ShardLines, looks: Mapping[int, ReadNext], found: dict[int, NextAnswer], caller: Grant
) -> list[NextAnswer]:
    """All as values, or all as columns: those that told values beside others' columns are looked at once more."""
    if any(answer.pages for answer in found.values()):
        mixed = {
            shard: msgspec.structs.replace(looks[shard], few=False) for shard, answer in found.items() if answer.few
        }
        found = {**found, **await _looked(lines, mixed, caller)}
    return list(found.values())


def _joined(call: ReadNext, answers: Sequence[NextAnswer]) -> NextAnswer:
    """One answer from those of the shards: in the order in which partitions were asked for, and not more than was asked for."""
    place = {each.partition: index for index, each in enumerate(call.after)}
    pages = sorted([page for one in answers for page in one.pages], key=lambda page: place[page.partition])
    few = sorted([page for one in answers for page in one.few], key=lambda page: place[page.partition])
    return NextAnswer(
        pages=tuple(_pages_within(pages, call.limit)),
        few=tuple(_few_within(few, call.limit)),
        now=min(one.now for one in answers),
    )


def _pages_within(pages: Sequence[NextPage], limit: int | None) -> Iterable[NextPage]:
    for page in pages:
        if limit is None or page.table.num_rows <= limit:
            yield page
        elif limit > 0:
            table = page.table.slice(0, limit)
            yield msgspec.structs.replace(page, table=table, next=int(table["sequence_number"][-1].as_py()))
        limit = None if limit is None else max(0, limit - page.table.num_rows)
        if limit == 0:
            return


def _few_within(pages: Sequence[FewPage], limit: int | None) -> Iterable[FewPage]:
    for page in pages:
        if limit is None or len(page.changes) <= limit:
            yield page
        elif limit > 0:
            changes = page.changes[:limit]
            yield msgspec.structs.replace(page, changes=changes, next=changes[-1].sequence_number)
        limit = None if limit is None else max(0, limit - len(page.changes))
        if limit == 0:
            return
