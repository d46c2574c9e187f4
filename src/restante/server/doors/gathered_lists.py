"""Lists and totals of all shards as one, in the order that each of them has.

Where the token of a page is the name of its last entry, every shard goes on after that name. A page of recipients goes on
at a place of each shard, so its token has all of them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import msgspec

from restante.calls.actions import GiveUpPoison, ListPoison, RepeatPoison
from restante.calls.backplane import ListRefusedRecords
from restante.calls.batches import ListBatches, ReadProgress, ReapBatches
from restante.calls.call import Call
from restante.calls.consignments import ListConsignments
from restante.calls.groups import DefineGroup, ListGroups, ReadGroup, ReadNext, SendHeartbeat
from restante.calls.mailboxes import ListPartitions, ListRecipients
from restante.calls.nodes import ListRounds
from restante.calls.producers import DeleteSource, ListSources, ReadSource, ResetSource
from restante.calls.removal import ExpireNow, FileNow, RetainNow
from restante.cluster.shard_lines import ShardLines
from restante.errors import InvalidRequest, RestanteError, SourceUnknown
from restante.model.access.access import Grant
from restante.model.backplane.backplane_answers import RefusedPage
from restante.model.batches.batch_answers import BatchPage, ProgressPage, Reaped, RecipientProgress
from restante.model.consignments.consignment_answers import ConsignmentPage
from restante.model.mailboxes.answers import PartitionStatus, RecipientPage, RecipientSummary
from restante.model.mailboxes.list_pages import check_order, page_size, page_token
from restante.model.shards.node_answers import RoundsInDoubt, all_in_doubt
from restante.model.sources.source import source_key
from restante.model.sources.source_answers import SourcePage, SourceStatus
from restante.server.doors.action_parts import change_poison, list_poison
from restante.server.doors.group_parts import define_group, list_groups, read_group, read_next, send_heartbeat

T = TypeVar("T")
_NO_MORE = "-"
_EARLY = datetime.min.replace(tzinfo=UTC)
GatherList: TypeAlias = Callable[[ShardLines, Any, Grant], Awaitable[Any]]


async def _recipients(lines: ShardLines, call: ListRecipients, caller: Grant) -> RecipientPage:
    check_order(call.order)
    places, size = _places(call.after, len(lines.lines)), page_size(call.limit)
    asked = [msgspec.structs.replace(call, after=str(place), limit=size) for place in places]
    pages = await asyncio.gather(*(lines.call(shard, one, caller) for shard, one in enumerate(asked)))
    keyed = [
        [(_place_of(own, call.order), own.recipient, shard, own) for own in page.recipients]
        for shard, page in enumerate(pages)
    ]
    chosen = list(islice(heapq.merge(*keyed), size))
    for *_, shard, _ in chosen:
        places[shard] += 1
    left = any(page.next is not None for page in pages) or len(chosen) < sum(map(len, keyed))
    return RecipientPage(
        recipients=tuple(own for *_, own in chosen),
        next=".".join(map(str, places)) if left else None,
        as_of=min(page.as_of for page in pages),
    )


def _place_of(own: RecipientSummary, order: str) -> float:
    return -own.waiting if order == "waiting" else own.oldest.timestamp()


def _places(token: str | None, count: int) -> list[int]:
    if token is None:
        return [0] * count
    parts = token.split(".")
    if len(parts) != count or not all(part.isascii() and part.isdecimal() and len(part) <= 18 for part in parts):
        raise _wrong(token)
    return [int(part) for part in parts]


async def _partitions(lines: ShardLines, call: ListPartitions, caller: Grant) -> tuple[PartitionStatus, ...]:
    found = [status for one in await lines.all(call, caller) for status in one]
    return tuple(sorted(found, key=lambda status: status.partition))


async def _batches(lines: ShardLines, call: ListBatches, caller: Grant) -> BatchPage:
    pages = await lines.all(call, caller)
    chosen, left = _first([page.batches for page in pages], call.limit, lambda own: own.id, newest=True)
    return BatchPage(batches=chosen, next=chosen[-1].id if left or _more(pages) else None)


async def _consignments(lines: ShardLines, call: ListConsignments, caller: Grant) -> ConsignmentPage:
    pages = await lines.all(call, caller)
    chosen, left = _first([page.consignments for page in pages], call.limit, lambda own: own.id, newest=True)
    return ConsignmentPage(consignments=chosen, next=chosen[-1].id if left or _more(pages) else None)


def _first(
    parts: Iterable[Iterable[T]], limit: int | None, key: Callable[[T], str], *, newest: bool = False
) -> tuple[tuple[T, ...], bool]:
    """The first page of all, and whether something is left over."""
    merged = sorted([own for part in parts for own in part], key=key, reverse=newest)
    size = page_size(limit)
    return tuple(merged[:size]), len(merged) > size


def _more(pages: Iterable[Any]) -> bool:
    return any(page.next is not None for page in pages)


async def _reaped(lines: ShardLines, call: ReapBatches, caller: Grant) -> Reaped:
    return Reaped(batches=tuple(own for one in await lines.all(call, caller) for own in one.batches))


async def _progress(lines: ShardLines, call: ReadProgress, caller: Grant) -> ProgressPage:
    """Shard by shard: the token says which, and how far. The slowest are those of all shards."""
    if call.slowest:
        return await _slowest(lines, call, caller)
    size, found = page_size(call.limit), list[RecipientProgress]()
    shard, rest = _shard_place("0:" if call.after is None else call.after, len(lines.lines))
    for number in range(shard, len(lines.lines)):
        left = size - len(found)  # None: one more is asked for, which shows whether there is a next page.
        page = await lines.call(number, msgspec.structs.replace(call, after=rest or None, limit=left or 1), caller)
        if not left and page.recipients:
            return ProgressPage(recipients=tuple(found), next=f"{number}:{rest}")
        found += page.recipients
        if page.next is not None:
            return ProgressPage(recipients=tuple(found), next=f"{number}:{page.next}")
        rest = ""
    return ProgressPage(recipients=tuple(found), next=None)


def _shard_place(token: str, count: int) -> tuple[int, str]:
    """The shard in which a page goes on, and how far it is there."""
    first, _, rest = token.partition(":")
    if not (first.isascii() and first.isdecimal() and len(first) < 6 and int(first) < count):
        raise _wrong(token)
    return int(first), rest


def _wrong(token: str) -> InvalidRequest:
    return InvalidRequest(f"after must be the `next` of the page before, not {token[:64]!r}.", parameter="after")


async def _refused(lines: ShardLines, call: ListRefusedRecords, caller: Grant) -> RefusedPage:
    """The refused records by partition and position, which is the order of the shards; every shard goes on after the place of a token."""
    pages = await lines.all(call, caller)
    found = [record for page in pages for record in page.records]
    size = page_size(call.limit)
    chosen = sorted(found, key=lambda own: (own.partition, own.position))[:size]
    left = len(found) > size or _more(pages)
    following = f"{chosen[-1].partition}:{chosen[-1].position}" if left else None
    return RefusedPage(records=tuple(chosen), next=following)


async def _slowest(lines: ShardLines, call: ReadProgress, caller: Grant) -> ProgressPage:
    """The slowest recipients of all shards. The token has the place of each shard in its own order, or says that it is done."""
    size, places = page_size(call.limit), _slow_places(call.after, len(lines.lines))

    async def asked(shard: int, limit: int) -> ProgressPage:
        if places[shard] == _NO_MORE:
            return ProgressPage(recipients=(), next=None)
        return await lines.call(shard, msgspec.structs.replace(call, after=places[shard] or None, limit=limit), caller)

    pages = await asyncio.gather(*(asked(shard, size) for shard in range(len(places))))
    entries = [[(own, shard) for own in page.recipients] for shard, page in enumerate(pages)]
    chosen = list(islice(heapq.merge(*entries, key=_slowness), size))
    taken = Counter(shard for _, shard in chosen)

    async def place_after(shard: int, page: ProgressPage) -> str:
        """The place after this one. A shard that has nothing left is passed over: so a shard is asked where the last one that was taken stands."""
        if not taken[shard]:
            return places[shard] if page.recipients else _NO_MORE
        upto = page if taken[shard] == len(page.recipients) else await asked(shard, taken[shard])
        return upto.next or _NO_MORE

    after = await asyncio.gather(*(place_after(shard, page) for shard, page in enumerate(pages)))
    following = None if set(after) == {_NO_MORE} else ".".join(after)
    return ProgressPage(recipients=tuple(own for own, _ in chosen), next=following)


def _slowness(entry: tuple[RecipientProgress, int]) -> tuple[datetime, str]:
    """The place of an entry among those of other shards: who has only duplicates waits for what was stored before the batch."""
    return entry[0].oldest_waiting or _EARLY, entry[0].recipient


def _slow_places(token: str | None, count: int) -> list[str]:
    places = [""] * count if token is None else token.split(".")
    if len(places) != count or not all(part in ("", _NO_MORE) or part.isdecimal() for part in places):
        raise _wrong(token or "")
    return places


async def _summed(lines: ShardLines, call: Call[int], caller: Grant) -> int:
    return sum(await lines.all(call, caller))


async def _sources(lines: ShardLines, call: ListSources, caller: Grant) -> SourcePage:
    """Each shard knows how far its own partitions are. Those of the same name and owner are one source.

    The first of all are among the first of each shard, so a page of each is enough for one of all.
    """
    pages, size = await lines.all(call, caller), page_size(call.limit)
    by_key: dict[bytes, list[SourceStatus]] = {}
    for page in pages:
        for own in page.sources:
            by_key.setdefault(source_key(own.source, bytes.fromhex(own.owner or "")), []).append(own)
    keys = sorted(by_key)
    is_more = len(keys) > size or _more(pages)
    return SourcePage(
        sources=tuple(_one_source(by_key[key]) for key in keys[:size]),
        next=page_token(keys[:size][-1]) if is_more else None,
    )


def _one_source(parts: list[SourceStatus]) -> SourceStatus:
    known = [part.position for part in parts if part.position is not None]
    return msgspec.structs.replace(
        parts[0],
        position=max(known) if known else None,
        messages=sum(part.messages for part in parts),
        positions=tuple(sorted([own for part in parts for own in part.positions], key=lambda own: own.partition)),
    )


async def _of_those_who_know(lines: ShardLines, call: Call[Any], caller: Grant) -> list[Any]:
    """The answers of the shards that know a source; its being unknown, if none does."""
    asked = (lines.call(shard, call, caller) for shard in range(len(lines.lines)))
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, SourceUnknown):
            raise outcome
    found = [outcome for outcome in outcomes if not isinstance(outcome, RestanteError)]
    if not found:
        raise next(outcome for outcome in outcomes if isinstance(outcome, RestanteError))
    return found


async def _source(lines: ShardLines, call: ReadSource, caller: Grant) -> SourceStatus:
    return _one_source(await _of_those_who_know(lines, call, caller))


async def _reset_source(lines: ShardLines, call: ResetSource, caller: Grant) -> SourceStatus:
    if call.partition is not None:
        await lines.call(lines.of_partition(call.partition), call, caller)
        return await _source(lines, ReadSource(call.source), caller)
    return _one_source(await _of_those_who_know(lines, call, caller))


async def _delete_source(lines: ShardLines, call: DeleteSource, caller: Grant) -> None:
    await _of_those_who_know(lines, call, caller)


async def _rounds(lines: ShardLines, call: ListRounds, caller: Grant) -> RoundsInDoubt:
    return all_in_doubt(await lines.all(call, caller))


GATHERED: Mapping[type[Call[Any]], GatherList] = {
    ListRecipients: _recipients,
    ListPartitions: _partitions,
    ListBatches: _batches,
    ListConsignments: _consignments,
    ListGroups: list_groups,
    ReadGroup: read_group,
    DefineGroup: define_group,
    ReadNext: read_next,
    SendHeartbeat: send_heartbeat,
    ListPoison: list_poison,
    RepeatPoison: change_poison,
    GiveUpPoison: change_poison,
    ListSources: _sources,
    ReadSource: _source,
    ResetSource: _reset_source,
    DeleteSource: _delete_source,
    ReapBatches: _reaped,
    ReadProgress: _progress,
    ListRefusedRecords: _refused,
    FileNow: _summed,
    ExpireNow: _summed,
    RetainNow: _summed,
    ListRounds: _rounds,
}
"""The functions by which all shards answer a call together, by the type of the call."""
