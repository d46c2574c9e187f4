"""The rules of batches, as plainly as they can be written: sets of items, counters, and what a hub must answer.

Nothing here is taken from the hub but the values that it answers with. A set of items is a list of spans, for a group
may hold a thousand million of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import UUID

from restante.model.batches.batch_answers import (
    Acknowledged,
    BatchState,
    BatchStatus,
    CompleteBatch,
    Counting,
    ItemRange,
    ReapedBatch,
)
from tests.batches.spans import Span, gaps, merged, size

ITEMS_MAX = 10**10
NOTED_EVERY = 60 * 1_000_000
"""An acknowledgement that brings nothing new is activity too; that is noted this often, in microseconds."""
_UUID = "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_GROUP = re.compile(rf"({_UUID}):(0|[1-9][0-9]*)", re.ASCII)
_ITEM = re.compile(rf"({_UUID}):(0|[1-9][0-9]*):(0|[1-9][0-9]*)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Refused(Exception):
    """The call is refused with this code, and nothing has changed."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Group:
    upto: int
    done: list[Span] = field(default_factory=list)

    @property
    def pending(self) -> int:
        return self.upto - size(self.done)


@dataclass
class Batch:
    id: str
    key: str | None
    unique: bool
    counting: Counting
    opened_at: int
    active_at: int = 0
    groups: dict[str, Group] = field(default_factory=dict)
    requests: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By the id of a request to add: the group it gave, and how many."""
    counted: int = 0
    """Of an estimated batch: the acknowledgements, however often they came."""
    sealed_at: int | None = None
    completed_at: int | None = None

    @property
    def items(self) -> int:
        return sum(group.upto for group in self.groups.values())

    @property
    def pending(self) -> int:
        if self.counting is Counting.ESTIMATED:
            return max(0, self.items - self.counted)
        return sum(group.pending for group in self.groups.values())

    @property
    def state(self) -> BatchState:
        if self.completed_at is not None:
            return BatchState.COMPLETE
        return BatchState.OPEN if self.sealed_at is None else BatchState.SEALED

    @property
    def named(self) -> CompleteBatch:
        return CompleteBatch(id=self.id, key=self.key)

    def pending_items(self) -> Iterator[str]:
        for name, group in self.groups.items():
            for start, end in gaps(group.done, group.upto):
                yield from (f"{self.id}:{name}:{index}" for index in range(start, end))

    def status(self) -> BatchStatus:
        """Once it is complete, nothing is pending, whatever became of an estimated one's counter since."""
        pending = 0 if self.completed_at is not None else self.pending
        counted = self.counting is Counting.ESTIMATED and self.completed_at is None
        return BatchStatus(
            id=self.id,
            key=self.key,
            counting=self.counting,
            state=self.state,
            items=self.items,
            pending=pending,
            acknowledged=self.counted if counted else self.items - pending,
            collected=0,
            expired=0,
            withdrawn=0,
            duplicates=0,
            duplicates_waiting=0,
            opened_at=moment(self.opened_at),
            sealed_at=None if self.sealed_at is None else moment(self.sealed_at),
            completed_at=None if self.completed_at is None else moment(self.completed_at),
            deliveries=(),
        )


@dataclass
class Model:
    open_for: int
    sealed_for: int
    """After how many microseconds without activity a batch is reaped."""
    now: int = 0
    batches: dict[str, Batch] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    """When batches were deleted, by their ids, which are not given again for a while."""

    def check_open(self, *, key: str | None, unique: bool, counting: Counting, batch_id: str | None) -> Batch | None:
        """Whether a batch may be opened; gives the one that the same call has opened before."""
        if unique and key is None:
            raise Refused("invalid_request")
        if batch_id in self.gone:
            raise Refused("invalid_request")
        known = None if batch_id is None else self.batches.get(batch_id)
        if known is not None:
            same = (known.key, known.unique, known.counting) == (key, unique, counting)
            if not same or known.sealed_at is not None:
                raise Refused("invalid_request")
            return known
        if unique and any(each.key == key and each.sealed_at is None for each in self.batches.values()):
            raise Refused("batch_key_used")
        return None

    def opened(self, batch_id: str, *, key: str | None, unique: bool, counting: Counting) -> Batch:
        batch = Batch(batch_id, key, unique, counting, self.now)
        self.batches[batch_id] = batch
        return batch

    def batch(self, batch_id: str) -> Batch:
        if batch_id not in self.batches:
            raise Refused("batch_unknown")
        return self.batches[batch_id]

    def check_add(self, batch_id: str, count: int, request_id: str | None) -> str | None:
        """Whether items may be added; gives the group that the same request has added before."""
        batch = self.batch(batch_id)
        if request_id is not None and request_id in batch.requests:
            group, before = batch.requests[request_id]
            if before != count:
                raise Refused("invalid_request")
            return group
        if batch.sealed_at is not None:
            raise Refused("batch_sealed")
        if count < 1 or batch.items + count > ITEMS_MAX:
            raise Refused("invalid_request")
        return None

    def added(self, batch_id: str, group: str, count: int, request_id: str | None) -> None:
        batch = self.batches[batch_id]
        batch.groups[group] = Group(count)
        batch.active_at = self.now
        if request_id is not None:
            batch.requests[request_id] = (group, count)

    def seal(self, batch_id: str) -> bool:
        batch = self.batch(batch_id)
        if batch.sealed_at is None:
            batch.sealed_at = self.now
            self._conclude(batch)
        return batch.completed_at is not None

    def acknowledge(self, items: Sequence[str], ranges: Sequence[ItemRange]) -> Acknowledged:
        if not items and not ranges:
            raise Refused("invalid_request")
        parsed: list[tuple[str | ItemRange, str, str, Span]] = [(item, *parsed_item(item)) for item in items]
        parsed += [(each, *parsed_range(each)) for each in ranges]
        newly, unknown, named = 0, list[str | ItemRange](), dict[str, Batch]()
        for sent, batch_id, name, span in parsed:
            batch = self.batches.get(batch_id)
            if batch is not None:
                named[batch_id] = batch
            group = None if batch is None else batch.groups.get(name)
            if batch is None or group is None:
                unknown.append(sent)
                continue
            inside = (span[0], min(span[1], group.upto))
            if inside != span:
                unknown.append(sent)
            if inside[0] < inside[1]:
                newly += self._count(batch, group, inside)
        for batch in named.values():
            if self.now - batch.active_at > NOTED_EVERY:
                batch.active_at = self.now
            self._conclude(batch)
        complete = tuple(batch.named for batch in named.values() if batch.completed_at is not None)
        return Acknowledged(acknowledged=newly, complete=complete, unknown=tuple(unknown))

    def _count(self, batch: Batch, group: Group, span: Span) -> int:
        if batch.counting is Counting.ESTIMATED:
            counts = 0 if batch.completed_at is not None else span[1] - span[0]
            batch.counted += counts
            return counts
        before = group.pending
        group.done = merged([*group.done, span])
        newly = before - group.pending
        if newly:
            batch.active_at = self.now
        return newly

    def _conclude(self, batch: Batch) -> None:
        if batch.sealed_at is not None and batch.completed_at is None and batch.pending == 0:
            batch.completed_at = self.now

    def listed(self, *, state: BatchState | None, key: str | None) -> list[BatchStatus]:
        """Newest first: the ids ascend with time."""
        chosen = [
            batch.status()
            for batch in self.batches.values()
            if (state is None or batch.state is state) and (key is None or batch.key == key)
        ]
        return sorted(chosen, key=lambda status: UUID(status.id).int, reverse=True)

    def pending_items(self, batch_id: str, most: int) -> list[str]:
        batch = self.batch(batch_id)
        if batch.counting is Counting.ESTIMATED:
            raise Refused("invalid_request")
        return list(islice(batch.pending_items(), most))

    def delete(self, batch_id: str) -> None:
        del self.batches[self.batch(batch_id).id]
        self.gone[batch_id] = self.now

    def reap(self, *, dry_run: bool) -> list[ReapedBatch]:
        found = []
        if not dry_run:
            self.gone = {batch: at for batch, at in self.gone.items() if at + self.sealed_for > self.now}
        for batch in list(self.batches.values()):
            since = max(batch.opened_at, batch.sealed_at or 0, batch.completed_at or 0, batch.active_at)
            if since + (self.open_for if batch.sealed_at is None else self.sealed_for) <= self.now:
                found.append(ReapedBatch(id=batch.id, key=batch.key, state=batch.state, idle_since=moment(since)))
                if not dry_run:
                    self.delete(batch.id)
        return found

    def lose_counters(self) -> None:
        """What estimated batches have counted is gone: all is pending again, of those that were not complete."""
        for batch in self.batches.values():
            batch.counted = 0


def moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def parsed_item(text: str) -> tuple[str, str, Span]:
    found = _ITEM.fullmatch(text)
    if found is None:
        raise Refused("invalid_item")
    index = int(found[3])
    return found[1].lower(), found[2], (index, index + 1)


def parsed_range(sent: ItemRange) -> tuple[str, str, Span]:
    found = _GROUP.fullmatch(sent.group)
    if found is None or not 0 <= sent.start < sent.upto:
        raise Refused("invalid_item")
    return found[1].lower(), found[2], (sent.start, sent.upto)
