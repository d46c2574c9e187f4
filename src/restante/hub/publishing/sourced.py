"""Publishes with source positions: messages up to the position that a partition has stored of the source are skipped.

The messages to be stored are chosen, judged and laid out in the caller's thread, by the positions committed at that time.
If the positions have changed by the time of the commit, the commit does it again. A commit has at most one publish of a
source, because whether it is stored decides what the next one skips. The commit of the messages writes the new positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from restante.errors import FaultyMessages
from restante.hub.engine.commit_request import RequestLine
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.publishing.identities import judge
from restante.hub.publishing.make_mailbags import arrived, laid_out, taken
from restante.hub.publishing.publish_request import PublishRequest, SourcedRows, Unit, size_of
from restante.hub.publishing.refuse import whole_refusal
from restante.model.access.access import Grant, spaces_of
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.sources.source import (
    NO_POSITION,
    SourceRow,
    beyond,
    check_source,
    decode_source,
    encode_source,
    last_positions,
    positions_of,
    row_after,
    source_key,
)
from restante.model.storage.changes import Space

Get = Callable[[int, Space, bytes], bytes | None]
_NOWHERE = -1
"""The line of a source is in no partition: its messages go to many."""


@dataclass(slots=True)
class SourceTotals:
    """The number of messages that were skipped since the hub was opened."""

    skipped: int = 0


def sourced_publish(
    core: Core, columns: MessageColumns, source: str, partition: int | None, batch: bytes | None, caller: Grant
) -> PublishRequest:
    """A publish of valid messages, prepared by the positions that are committed now."""
    name, spaces, positions = check_source(source), spaces_of(caller), positions_of(columns)
    line: RequestLine = (_NOWHERE, source_key(name, spaces[0]))
    request = PublishRequest((), partition=partition, batch=batch, caller=caller, line=line, size=size_of(columns))
    arrivals = arrived(core, columns)
    if partition is not None and bool((arrivals.partition != partition).any()):
        raise whole_refusal(core, columns, (), partition)
    ends = last_positions(positions, arrivals.partition)
    rows = SourcedRows(name, spaces, arrivals, positions, ends)
    request.source = rows
    with core.pins.reading():
        _prepare(core, request, rows, _known(core.store.get, rows))
    return request


def admit_sources(core: Core, draft: RequestDraft, publishes: Sequence[PublishRequest]) -> list[PublishRequest]:
    """The publishes that have messages to store. The others are answered, or put off until their predecessor is committed."""
    found: list[PublishRequest] = []
    ahead: set[RequestLine | None] = set()
    for request in publishes:
        if request.source is None:
            found.append(request)
        elif request.line in ahead:
            request.put_off = True
        else:
            ahead.add(request.line)
            if _has_news(core, draft, request, request.source):
                found.append(request)
    return found


def conclude_sources(core: Core, draft: RequestDraft, stored: Sequence[PublishRequest]) -> None:
    """Write the new positions of the sources, and adapt receipts and errors to the messages as they were sent."""
    for request in stored:
        rows = request.source
        if rows is None:
            continue
        if request.error is not None:
            request.error = _as_sent(request.error, rows)
            continue
        assert request.result is not None, "what is not refused has a receipt"
        skipped = len(rows.positions) - len(rows.kept)
        request.result = msgspec.structs.replace(request.result, skipped=skipped)
        _put_positions(core, draft, rows, request.result)
        core.memory(SourceTotals).skipped += skipped


def _has_news(core: Core, draft: RequestDraft, request: PublishRequest, rows: SourcedRows) -> bool:
    last = _known(draft.get, rows)
    if last != rows.last:
        _prepare(core, request, rows, last)
    if len(rows.kept):
        return True
    skipped = len(rows.positions)
    request.result = Receipt(accepted=0, duplicates=0, partitions=(), skipped=skipped)
    core.memory(SourceTotals).skipped += skipped
    return False


def _prepare(core: Core, request: PublishRequest, rows: SourcedRows, last: dict[int, int]) -> None:
    """Judge the messages beyond these positions, and lay them out if all are new."""
    rows.last, rows.kept = last, beyond(rows.positions, rows.arrivals.partition, last)
    arrivals = rows.arrivals if len(rows.kept) == len(rows.positions) else taken(rows.arrivals, rows.kept)
    start = np.array([0, len(arrivals)])
    judged = judge(core, arrivals, start, np.ones(len(arrivals), np.bool_))
    request.unit = Unit([request], start, judged)
    if len(arrivals) and not judged.verdict.any():
        request.unit.parcel = laid_out(core, arrivals, judged.grouped)


def _known(get: Get, rows: SourcedRows) -> dict[int, int]:
    """The last position of the source in each partition."""
    found = {partition: _place(get, partition, rows)[1] for partition in rows.ends}
    return {partition: NO_POSITION if row is None else row.position for partition, row in found.items()}


def _place(get: Get, partition: int, rows: SourcedRows) -> tuple[bytes, SourceRow | None]:
    """The key and row of the source's position in a partition: the caller's own, or else one without an owner that it may use."""
    keys = [source_key(rows.name, owner) for owner in rows.spaces]
    for key in keys:
        value = get(partition, Space.SOURCE, key)
        if value is not None:
            return key, decode_source(value)
    return keys[0], None


def _put_positions(core: Core, draft: RequestDraft, rows: SourcedRows, receipt: Receipt) -> None:
    count = {own.partition: own.last_sequence_number - own.first_sequence_number + 1 for own in receipt.partitions}
    now = core.clock()
    for partition, position in rows.ends.items():
        key, row = _place(draft.get, partition, rows)
        if row is None or position > row.position:
            after = row_after(row, position, count.get(partition, 0), now)
            draft.put(partition, Space.SOURCE, key, encode_source(after))


def _as_sent(error: BaseException, rows: SourcedRows) -> BaseException:
    """The same refusal, with message indices as sent, before some were skipped."""
    if not isinstance(error, FaultyMessages) or len(rows.kept) == len(rows.positions):
        return error
    return refusal([msgspec.structs.replace(fault, index=int(rows.kept[fault.index])) for fault in error.faults])
