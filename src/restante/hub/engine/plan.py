"""Planning a commit: each request is planned on the state that includes the requests before it.

A `CommitPlan` gathers what the next commit will do. Each request works on a `RequestDraft`. If the request is refused, its
draft is thrown away and leaves no trace; otherwise `CommitPlan.accept` adds the draft to the plan. Memory changes only
after the store has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self, TypeVar, cast

import msgspec
import numpy as np

from restante.hub.engine.partitions import Partition, PartitionRow, encode_counters, run_key
from restante.model.columns.hashing import Hashes
from restante.model.storage.change import ChangeRecord, encode_change
from restante.model.storage.changes import BlobKey, Buffer, Changes, EntryKey, Space
from restante.model.storage.head import EMPTY_HEAD, Head, decode_head, encode_head
from restante.model.storage.keys import Cabinet, after_prefix, cabinet_key, number_key, settlement_key
from restante.model.storage.run import RunRow, encode_run
from restante.ports.store import Store

Apply = Callable[[], object]
N = TypeVar("N", bound="Note")


class Note:
    """The notes of one subject about a commit while it is planned. Each draft has its own, which the plan takes over."""

    def take_over(self, later: Self) -> None:
        """Add the note of a later draft of the same commit."""
        raise NotImplementedError

    def apply(self) -> None:
        """Update memory after the commit, before the functions in `applies` do."""


class CommitPlan:
    """The next commit."""

    def __init__(self, store: Store, partitions: Sequence[Partition], fence: int) -> None:
        self.store = store
        self.partitions = partitions
        self.changes = Changes()
        self.counters: dict[int, PartitionRow] = {}
        self.notes: dict[type[Note], Note] = {}
        self.applies: list[Apply] = []
        self.concerns: list[Hashes] = []
        """Hashes of the recipients whose mailboxes the commit changes."""
        self.arrived: list[Hashes | Sequence[int]] = []
        """Fingerprints of the messages that the commit stores."""
        self._fence = fence
        self._fetched: dict[EntryKey, bytes | None] = {}

    def fetch(self, entries: Sequence[EntryKey]) -> None:
        """Read at once the rows that the requests of this commit are known to need: each alone may cost a round trip."""
        if entries:
            found = self.store.get_many(entries)
            self._fetched = {entry: found.get(entry) for entry in entries}

    def stored(self, entry: EntryKey) -> bytes | None:
        """The value in the store, as of the last commit."""
        return self._fetched[entry] if entry in self._fetched else self.store.get(*entry)

    def draft(self) -> RequestDraft:
        return RequestDraft(self)

    def accept(self, draft: RequestDraft) -> None:
        self.changes.entries.update(draft.entries)
        self.changes.blobs.extend(draft.blobs)
        self.changes.dropped.extend(draft.dropped)
        self.counters.update(draft.counters)
        for kind, note in draft.notes.items():
            if kind in self.notes:
                self.notes[kind].take_over(note)
            else:
                self.notes[kind] = note
        self.applies.extend(draft.applies)
        self.concerns.extend(draft.concerns)
        self.arrived.extend(draft.arrived)

    def noted(self, kind: type[N]) -> N | None:
        """The joint note of a kind, if a request has one."""
        return cast("N | None", self.notes.get(kind))

    def finish(self) -> Changes:
        """Complete the changes with the counters and fences of every partition that they touch."""
        for number, counters in self.counters.items():
            partition = self.partitions[number]
            if counters.next_blob != partition.next_blob:
                counters = msgspec.structs.replace(counters, next_blob=partition.next_blob)  # noqa: PLW2901 - the same, later
            self.changes.entries[partition.row_key] = encode_counters(counters)
        changes = self.changes
        touched = [key[0] for key in changes.entries]
        touched += [blob[0] for blob, _ in changes.blobs]
        touched += [blob[0] for blob in changes.dropped]
        changes.fences = dict.fromkeys(touched, self._fence)
        return changes

    def apply(self) -> None:
        """Update memory after the commit.

        Readers read the counters before the runs. So `feed_gone` must rise before feed runs disappear, and new runs must
        appear before `visible` counts their messages.
        """
        for number, counters in self.counters.items():
            known = self.partitions[number].counters
            if counters.feed_gone != known.feed_gone:
                self.partitions[number].counters = msgspec.structs.replace(known, feed_gone=counters.feed_gone)
        for note in self.notes.values():
            note.apply()
        for apply in self.applies:
            apply()
        for number, counters in self.counters.items():
            self.partitions[number].counters = counters


class RequestDraft:
    """The changes that one request would make. Its reads see the store, the plan so far, and its own puts."""

    def __init__(self, plan: CommitPlan) -> None:
        self._plan = plan
        self.entries: dict[EntryKey, bytes | None] = {}
        self.blobs: list[tuple[BlobKey, Sequence[Buffer]]] = []
        self.dropped: list[BlobKey] = []
        self.counters: dict[int, PartitionRow] = {}
        self.notes: dict[type[Note], Note] = {}
        self.applies: list[Apply] = []
        self.concerns: list[Hashes] = []
        self.arrived: list[Hashes | Sequence[int]] = []

    def note(self, kind: type[N]) -> N:
        """This draft's own note of a kind, created on first use."""
        found = self.notes.get(kind)
        if found is None:
            found = self.notes[kind] = kind()
        return cast("N", found)

    def noted(self, kind: type[N]) -> tuple[N, ...]:
        """The notes of a kind in this commit so far: this draft's, then the joint note of the drafts before it."""
        found = (self.notes.get(kind), self._plan.notes.get(kind))
        return tuple(cast("N", note) for note in found if note is not None)

    def partition(self, number: int) -> Partition:
        """The memory of a partition as of the last commit."""
        return self._plan.partitions[number]

    def arrived_before(self) -> Sequence[Hashes | Sequence[int]]:
        """Fingerprints of the messages that earlier drafts of this commit store."""
        return self._plan.arrived

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        entry = EntryKey(partition, space, key)
        for entries in (self.entries, self._plan.changes.entries):
            if entry in entries:
                return entries[entry]
        return self._plan.stored(entry)

    def is_pending(self, entry: EntryKey) -> bool:
        """Whether this commit, so far, puts or deletes the entry."""
        return entry in self.entries or entry in self._plan.changes.entries

    def pending_value(self, entry: EntryKey) -> bytes | None:
        """The value that this commit, so far, puts for the entry; None if it leaves the entry alone or deletes it."""
        for entries in (self.entries, self._plan.changes.entries):
            if entry in entries:
                return entries[entry]
        return None

    def scan_prefix(self, partition: int, space: Space, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """All entries whose key begins with `prefix`."""
        found = dict(self._plan.store.scan(partition, space, start=prefix, end=after_prefix(prefix)))
        for entries in (self._plan.changes.entries, self.entries):
            _overlay(found, entries, (partition, space, prefix))
        return sorted(found.items())

    def put(self, partition: int, space: Space, key: bytes, value: bytes) -> None:
        self.entries[EntryKey(partition, space, key)] = value

    def delete(self, partition: int, space: Space, key: bytes) -> None:
        self.entries[EntryKey(partition, space, key)] = None

    def head(self, partition: int, recipient_hash: int, cabinet: Cabinet) -> Head:
        value = self.get(partition, Space.HEAD, cabinet_key(recipient_hash, cabinet))
        return EMPTY_HEAD if value is None else decode_head(value)

    def put_head(self, partition: int, recipient_hash: int, cabinet: Cabinet, head: Head) -> None:
        self.concerns.append(np.array([recipient_hash], np.uint64))
        self.put(partition, Space.HEAD, cabinet_key(recipient_hash, cabinet), encode_head(head))

    def count(self, partition: int) -> PartitionRow:
        """The counters of a partition as this draft leaves them so far."""
        for counters in (self.counters, self._plan.counters):
            if partition in counters:
                return counters[partition]
        return self._plan.partitions[partition].counters

    def add_waiting(self, partition: int, messages: int) -> None:
        row = self.count(partition)
        self.counters[partition] = msgspec.structs.replace(row, waiting=row.waiting + messages)

    def add_messages(self, partition: int, count: int) -> int:
        """Take sequence numbers for `count` new waiting messages; return the first."""
        row = self.count(partition)
        self.counters[partition] = PartitionRow(
            row.visible + count, row.waiting + count, row.next_blob, row.forgotten, row.erasures, row.feed_gone
        )
        return row.visible + 1

    def add_mailbag(self, partition: int, count: int) -> tuple[int, BlobKey]:
        """Take sequence numbers for `count` new waiting messages, and a blob; return the first number and the blob."""
        row, blob = self.count(partition), self._plan.partitions[partition].take_blob()
        self.counters[partition] = PartitionRow(
            row.visible + count, row.waiting + count, blob.number + 1, row.forgotten, row.erasures, row.feed_gone
        )
        return row.visible + 1, blob

    def add_forgotten(self, partition: int, number: int) -> None:
        row = self.count(partition)
        self.counters[partition] = msgspec.structs.replace(row, forgotten=max(row.forgotten, number))

    def add_feed_gone(self, partition: int, number: int) -> None:
        row = self.count(partition)
        self.counters[partition] = msgspec.structs.replace(row, feed_gone=max(row.feed_gone, number))

    def add_erasure(self, partition: int) -> None:
        row = self.count(partition)
        self.counters[partition] = msgspec.structs.replace(row, erasures=row.erasures + 1)

    def take_numbers(self, partition: int, count: int) -> int:
        """Take `count` new sequence numbers; return the first."""
        row = self.count(partition)
        self.counters[partition] = msgspec.structs.replace(row, visible=row.visible + count)
        return row.visible + 1

    def take_blob(self, partition: int) -> BlobKey:
        self.counters[partition] = self.count(partition)
        return self._plan.partitions[partition].take_blob()

    def record(self, partition: int, recipient_hash: int, record: ChangeRecord) -> int:
        """Write a change record under the next number."""
        number = self.take_numbers(partition, 1)
        self.put_record(partition, recipient_hash, number, record)
        return number

    def put_record(self, partition: int, recipient_hash: int, number: int, record: ChangeRecord) -> None:
        cabinet = Cabinet(record.recipient, record.origin, record.message_kind)
        self.put(partition, Space.CHANGE, number_key(number), encode_change(record))
        self.put(partition, Space.SETTLEMENT, settlement_key(recipient_hash, cabinet, number), b"")

    def put_run(self, partition: int, row: RunRow) -> None:
        self.put(partition, Space.RUN, run_key(row), encode_run(row))


def _overlay(
    found: dict[bytes, bytes], entries: Mapping[EntryKey, bytes | None], where: tuple[int, Space, bytes]
) -> None:
    partition, space, prefix = where
    for entry, value in entries.items():
        if entry.partition == partition and entry.space == space and entry.key.startswith(prefix):
            if value is None:
                found.pop(entry.key, None)
            else:
                found[entry.key] = value
