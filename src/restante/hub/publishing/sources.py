"""The calls that list, show, reset and delete sources."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter

from restante.calls.producers import DeleteSource, ListSources, ReadSource, ResetSource
from restante.errors import SourceUnknown
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Functions
from restante.limits import SOURCE_CHARACTERS_MAX
from restante.model.access.access import Grant, may_see, spaces_of
from restante.model.mailboxes.list_pages import key_after, page_size, page_token
from restante.model.sources.source import (
    NO_POSITION,
    SourceRow,
    check_position,
    check_source,
    decode_source,
    encode_source,
    key_source,
    position_of,
    source_key,
)
from restante.model.sources.source_answers import SourcePage, SourceStatus
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix

_ROWS_AT_ONCE = 1_000
_TOKEN_CHARACTERS_MAX = 8 * SOURCE_CHARACTERS_MAX
_Entry = tuple[bytes, int, bytes]
"""A key, its partition, and its value."""


def read_source(core: Core, call: ReadSource, caller: Grant) -> SourceStatus:
    key = _found(core, check_source(call.source), caller)
    return _status(key, _entries_of(core, key))


def list_sources(core: Core, call: ListSources, caller: Grant) -> SourcePage:
    size = page_size(call.limit)
    start = b"" if call.after is None else key_after(call.after, characters_max=_TOKEN_CHARACTERS_MAX) + b"\0"
    found = list(islice(_sources(core, caller, start), size + 1))
    return SourcePage(
        sources=tuple(_status(key, entries) for key, entries in found[:size]),
        next=page_token(found[size - 1][0]) if len(found) > size else None,
    )


def reset_source(core: Core, call: ResetSource, caller: Grant) -> SourceStatus:
    position, partition = check_position(call.position), call.partition
    key = _found(core, check_source(call.source), caller)

    def plan(draft: RequestDraft) -> None:
        known = [
            (number, decode_source(value))
            for number in core.owned
            if partition in (None, number) and (value := draft.get(number, Space.SOURCE, key)) is not None
        ]
        if not known:
            raise _unknown(call.source, partition)
        for number, row in known:
            after = SourceRow(position, core.clock(), row.messages)
            draft.put(number, Space.SOURCE, key, encode_source(after))

    core.commit(plan)
    return _status(key, _entries_of(core, key))


def delete_source(core: Core, call: DeleteSource, caller: Grant) -> None:
    key = _found(core, check_source(call.source), caller)

    def plan(draft: RequestDraft) -> None:
        for number in core.owned:
            if draft.get(number, Space.SOURCE, key) is not None:
                draft.delete(number, Space.SOURCE, key)

    core.commit(plan)


def _found(core: Core, name: str, caller: Grant) -> bytes:
    """The key of the caller's own source of this name, or else of the first one that the caller may see."""
    prefix = source_key(name, b"")
    keys = {key for key, _, _ in _entries(core, prefix, after_prefix(prefix)) if may_see(caller, key_source(key)[1])}
    own = [source_key(name, owner) for owner in spaces_of(caller)]
    for key in (*own, *sorted(keys)):
        if key in keys:
            return key
    raise _unknown(name)


def _unknown(name: str, partition: int | None = None) -> SourceUnknown:
    where = "" if partition is None else f" in partition {partition}"
    return SourceUnknown(
        f"The source {name!r} is not known{where}: nothing of it was stored, or it was deleted. GET /v1/sources lists "
        "those that are."
    )


def _sources(core: Core, caller: Grant, start: bytes) -> Iterator[tuple[bytes, list[_Entry]]]:
    """The sources from key `start` on that the caller may see, each with its entries in all partitions."""
    for key, entries in groupby(_entries(core, start, None), key=itemgetter(0)):
        if may_see(caller, key_source(key)[1]):
            yield key, list(entries)


def _entries(core: Core, start: bytes, end: bytes | None) -> Iterator[_Entry]:
    """The entries of all partitions, ordered by key."""
    return heapq.merge(*(_scanned(core, partition, start, end) for partition in core.owned))


def _entries_of(core: Core, key: bytes) -> list[_Entry]:
    return list(_entries(core, key, key + b"\0"))


def _scanned(core: Core, partition: int, start: bytes, end: bytes | None) -> Iterator[_Entry]:
    while page := core.store.scan(partition, Space.SOURCE, start=start, end=end, limit=_ROWS_AT_ONCE):
        yield from ((key, partition, value) for key, value in page)
        start = page[-1][0] + b"\0"


def _status(key: bytes, entries: list[_Entry]) -> SourceStatus:
    name, owner = key_source(key)
    rows = [(partition, decode_source(value)) for _, partition, value in entries]
    last = max((row.position for _, row in rows), default=NO_POSITION)
    return SourceStatus(
        source=name,
        position=None if last == NO_POSITION else last,
        messages=sum(row.messages for _, row in rows),
        positions=tuple(position_of(row, partition) for partition, row in rows),
        owner=owner.hex() or None,
    )


FUNCTIONS: Functions = {
    ReadSource: read_source,
    ListSources: list_sources,
    ResetSource: reset_source,
    DeleteSource: delete_source,
}
