"""The parts of batches in the partitions of a shard, and the records of them at a batch's home; on a draft.

A hub that has all partitions has no parts, because the row of the batch says everything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from restante.errors import BatchUnknown, Unavailable
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.model.access.access import Grant
from restante.model.batches.batch import Counts
from restante.model.shards.batch_parts import (
    BatchPart,
    EnlistedPart,
    PartState,
    check_takes,
    decode_enlisted,
    decode_part,
    encode_part,
    enlisted_key,
    is_final,
    key_partition,
)
from restante.model.shards.rounds import decode_prepared, is_held_for
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix
from restante.ports.store import StoreReader

Enlisted = dict[int, EnlistedPart]
"""The parts of a batch, by partition."""


class NotEnlisted(Unavailable):
    """The partition is not enlisted at the batch's home yet."""


@dataclass(slots=True)
class PartWork:
    """The pending work between shards about batches, as stored. Only commits change it."""

    wanted: threading.Event = field(default_factory=threading.Event)
    reports: set[tuple[int, bytes]] = field(default_factory=set)
    """Pairs of (partition, batch) whose final counts home has not taken yet."""
    closings: set[bytes] = field(default_factory=set)
    """Batches with their home here whose parts are not all closed yet."""

    def report(self, partition: int, batch_id: bytes) -> None:
        self.reports.add((partition, batch_id))
        self.wanted.set()

    def close(self, batch_id: bytes) -> None:
        self.closings.add(batch_id)
        self.wanted.set()


def load_part_work(store: StoreReader, owned: range) -> PartWork:
    work = PartWork()
    for partition in owned:
        work.reports.update((partition, key) for key, _ in store.scan(partition, Space.BATCH_REPORT))
        work.closings.update(key for key, _ in store.scan(partition, Space.BATCH_CLOSING))
    return work


def part_of(draft: RequestDraft, partition: int, batch_id: bytes) -> BatchPart | None:
    value = draft.get(partition, Space.BATCH_PART, batch_id)
    return None if value is None else decode_part(value)


def put_part(draft: RequestDraft, partition: int, batch_id: bytes, part: BatchPart) -> None:
    draft.put(partition, Space.BATCH_PART, batch_id, encode_part(part))


def is_part_there(draft: RequestDraft, partition: int, batch_id: bytes) -> bool:
    """Whether the outcomes of the batch's messages are still counted here."""
    part = part_of(draft, partition, batch_id)
    return part is not None and part.state is not PartState.DELETED


def check_parts(draft: RequestDraft, partitions: Iterable[int], batch_id: bytes, caller: Grant) -> None:
    """Raise `BatchUnknown`, `BatchSealed` or `NotEnlisted` if these partitions take no more of the batch from the caller."""
    for partition in partitions:
        part = part_of(draft, partition, batch_id)
        if part is None:
            raise NotEnlisted(f"Batch {uuid_text(batch_id)} is not known in partition {partition} yet. Try again.")
        check_takes(part, batch_id, caller)


def report_if_final(core: Core, draft: RequestDraft, partition: int, batch_id: bytes, counts: Counts) -> bool:
    """Have the final counts reported to home if this draft ends a part; return whether it does."""
    part = part_of(draft, partition, batch_id)
    if part is None or not is_final(part, counts) or _is_promised(draft, partition, batch_id):
        return False
    draft.put(partition, Space.BATCH_REPORT, batch_id, b"")
    draft.applies.append(partial(core.memory(PartWork).report, partition, batch_id))
    return True


def _is_promised(draft: RequestDraft, partition: int, batch_id: bytes) -> bool:
    """Whether a round has prepared messages of the batch that are not applied yet, and so are pending."""
    prepared = draft.scan_prefix(partition, Space.PREPARED, b"")
    return any(is_held_for(decode_prepared(value), batch_id) for _, value in prepared)


def plan_enlisted(partitions: Sequence[int], batch_id: bytes, owner: bytes, draft: RequestDraft) -> None:
    """Record that home has enlisted these partitions. A part that was closed meanwhile stays closed."""
    for partition in partitions:
        if part_of(draft, partition, batch_id) is None:
            put_part(draft, partition, batch_id, BatchPart(owner))


def enlisted_of(draft: RequestDraft, home: int, batch_id: bytes) -> Enlisted:
    """The parts of a batch that its home has enlisted."""
    entries = draft.scan_prefix(home, Space.BATCH_ENLISTED, batch_id)
    return {key_partition(key): decode_enlisted(value) for key, value in entries}


def stored_enlisted(core: Core, home: int, batch_id: bytes) -> Enlisted:
    entries = core.store.scan(home, Space.BATCH_ENLISTED, start=batch_id, end=after_prefix(batch_id))
    return {key_partition(key): decode_enlisted(value) for key, value in entries}


def put_enlisted(draft: RequestDraft, home: int, batch_id: bytes, partition: int, part: EnlistedPart) -> None:
    draft.put(home, Space.BATCH_ENLISTED, enlisted_key(batch_id, partition), encode_part(part))


def plan_enlist(draft: RequestDraft, home: int, batch_id: bytes, partitions: Iterable[int]) -> None:
    """At home: enlist these partitions, which may then get messages of the batch."""
    known = enlisted_of(draft, home, batch_id)
    for partition in partitions:
        if partition not in known:
            put_enlisted(draft, home, batch_id, partition, EnlistedPart())


def plan_final(draft: RequestDraft, home: int, batch_id: bytes, partition: int, counts: Counts) -> None:
    """At home: record the final counts of a part. Counts of an unknown part are ignored."""
    known = enlisted_of(draft, home, batch_id).get(partition)
    if known is not None and known.final is None:
        state = max(known.state, PartState.CLOSED)
        put_enlisted(draft, home, batch_id, partition, EnlistedPart(PartState(state), counts))


def plan_closed(draft: RequestDraft, home: int, batch_id: bytes, partitions: Iterable[int], state: PartState) -> None:
    """At home: record that these parts are closed."""
    known = enlisted_of(draft, home, batch_id)
    for partition in partitions:
        part = known.get(partition)
        if part is not None and part.state < state:
            put_enlisted(draft, home, batch_id, partition, msgspec.structs.replace(part, state=state))


def have_closed(core: Core, draft: RequestDraft, home: int, batch_id: bytes) -> None:
    """Note, in the commit that seals or deletes a batch, that its parts must be closed, however long that takes."""
    if core.shard is not None:
        draft.put(home, Space.BATCH_CLOSING, batch_id, b"")
        draft.applies.append(partial(core.memory(PartWork).close, batch_id))


def is_being_closed(core: Core, home: int, batch_id: bytes) -> bool:
    return core.shard is not None and core.store.get(home, Space.BATCH_CLOSING, batch_id) is not None


def unknown(batch_id: bytes) -> BatchUnknown:
    text = uuid_text(batch_id)
    return BatchUnknown(f"There is no batch {text}. It may have been deleted, or reaped.", batch=text)
