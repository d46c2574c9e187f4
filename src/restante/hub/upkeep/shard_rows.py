"""The rows that only data in several shards has: they are made when data is split, and left out when it is joined.

All other rows are kept by partition in both. Work under way between shards must be finished before they are joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from restante.errors import InvalidRequest, Unavailable
from restante.hub.engine.core import uuid_text
from restante.hub.engine.partitions import load_deed
from restante.model.batches.batch import BatchRow, Counts, decode_batch, decode_counts
from restante.model.consignments.consignment import (
    StagedRun,
    decode_consignment,
    decode_parcel,
    key_parcel,
)
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.model.shards.batch_parts import (
    BatchPart,
    EnlistedPart,
    PartState,
    bound_only,
    decode_part,
    encode_part,
    enlisted_key,
)
from restante.model.shards.ranges import Ranges, shard_of
from restante.model.shards.rounds import StagedPartRow, encode_round, staged_part_key
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.keys import number_key
from restante.model.storage.partition import partition_of
from restante.model.storage.run import RunState, decode_run
from restante.ports.store import StoreReader

_ID_BYTES = 16
_OF_SEVERAL = (
    *(Space.BATCH_PART, Space.BATCH_ENLISTED, Space.BATCH_REPORT, Space.BATCH_CLOSING),
    *(Space.CONSIGNMENT_ROUND, Space.STAGED_PART, Space.PREPARED),
)
"""The spaces that only several shards have."""
_UNDER_WAY = (Space.BATCH_REPORT, Space.BATCH_CLOSING, Space.PREPARED)

EntryRows = Mapping[EntryKey, bytes]
HiddenRows = frozenset[EntryKey]


def rows_of_several(source: StoreReader, partition_count: int) -> EntryRows:
    """The additional rows for splitting data into several shards: parts of batches and of staged parcels."""
    rows: dict[EntryKey, bytes] = {}
    for home in range(partition_count):
        for batch_id, value in source.scan(home, Space.BATCH):
            rows.update(_batch_rows(source, partition_count, home, batch_id, decode_batch(value)))
        for key, value in source.scan(home, Space.CONSIGNMENT_PARCEL):
            for run in decode_parcel(value).runs:
                rows.update(_staged_rows(source, run, key, decode_parcel(value).digest))
    return rows


def _batch_rows(
    source: StoreReader, partition_count: int, home: int, batch_id: bytes, row: BatchRow
) -> Iterator[tuple[EntryKey, bytes]]:
    state = PartState.DELETED if row.deleted_at else PartState.CLOSED if row.sealed_at else PartState.OPEN
    for partition in range(partition_count):
        counts = _counted(source, partition, batch_id)
        if counts is None or (partition == home and not (counts.added or counts.duplicates)):
            continue
        part = BatchPart(row.owner, state, row.deleted_at or row.sealed_at)
        yield EntryKey(partition, Space.BATCH_PART, batch_id), encode_part(part)
        final = counts if state is PartState.CLOSED and not counts.bound_pending else None
        enlisted = EnlistedPart(state, final)
        yield EntryKey(home, Space.BATCH_ENLISTED, enlisted_key(batch_id, partition)), encode_part(enlisted)


def _counted(source: StoreReader, partition: int, batch_id: bytes) -> Counts | None:
    value = source.get(partition, Space.BATCH_COUNT, batch_id)
    return None if value is None else bound_only(decode_counts(value))


def _staged_rows(source: StoreReader, run: StagedRun, parcel: bytes, digest: bytes) -> Iterator[tuple[EntryKey, bytes]]:
    value = source.get(run.partition, Space.RUN, number_key(run.identity))
    row = None if value is None else decode_run(value)
    if row is not None and row.state is RunState.STAGED:
        part = StagedPartRow(row.rows, row.length, run.identity)
        key = staged_part_key(parcel[:_ID_BYTES], key_parcel(parcel), digest)
        yield EntryKey(run.partition, Space.STAGED_PART, key), encode_round(part)


def rows_hidden_apart(source: StoreReader, ranges: Ranges) -> HiddenRows:
    """The rows of keys that would be in another shard than their batch. Keys that need not be unique are then not kept.

    Raises for unique keys, and for consignments in another shard than their key, which versions before shards could make.
    """
    hidden: set[EntryKey] = set()
    for partition in range(ranges[-1].stop):
        for _, consignment in source.scan(partition, Space.CONSIGNMENT_KEY):
            if _are_apart(ranges, partition, consignment):
                raise InvalidRequest(
                    f"The consignment {uuid_text(consignment)} would lie in another shard than its key: an older version made "
                    "it. Wait until it is forgotten (consignment_retention_seconds after it was closed)."
                )
        for key, _ in source.scan(partition, Space.BATCH_KEY):
            if _are_apart(ranges, partition, key[-_ID_BYTES:]):
                _require_any_key(source, ranges[-1].stop, key[-_ID_BYTES:])
                hidden.add(EntryKey(partition, Space.BATCH_KEY, key))
    return frozenset(hidden)


def _are_apart(ranges: Ranges, partition: int, own: bytes) -> bool:
    return shard_of(ranges, partition_of(uuid_text(own), ranges[-1].stop)) != shard_of(ranges, partition)


def _require_any_key(source: StoreReader, partition_count: int, batch_id: bytes) -> None:
    text = uuid_text(batch_id)
    value = source.get(partition_of(text, partition_count), Space.BATCH, batch_id)
    if value is not None and decode_batch(value).unique:
        raise InvalidRequest(
            f"The open batch {text} has a unique key that would lie in another shard. Seal or delete it first."
        )


def rows_hidden_alone(source: StoreReader, partition_count: int) -> HiddenRows:
    """The rows that data joined into one shard must not have. Raises `Unavailable` while work between shards is under way."""
    hidden: set[EntryKey] = set()
    named = _named_runs(source, partition_count)
    for partition in range(partition_count):
        if any(source.scan(partition, space, limit=1) for space in _UNDER_WAY):
            raise Unavailable(
                "A consignment or a batch over several shards is not finished yet. Try again in a moment."
            )
        for space in _OF_SEVERAL:
            hidden.update(EntryKey(partition, space, key) for key, _ in source.scan(partition, space))
        hidden.update(_untidied(source, partition))
        hidden.update(_nameless(source, partition, named))
    return frozenset(hidden)


def rows_hidden_in_one(source: StoreReader) -> HiddenRows:
    """The rows of a store, with one shard or several, that data in one shard must not have."""
    deed = load_deed(source)
    return frozenset() if deed is None else rows_hidden_alone(source, deed.partition_count)


def _untidied(source: StoreReader, partition: int) -> Iterator[EntryKey]:
    """The remaining rows in a partition of batches whose parts are deleted."""
    parts = source.scan(partition, Space.BATCH_PART)
    deleted = {batch_id for batch_id, value in parts if decode_part(value).state is PartState.DELETED}
    for batch_id in deleted:
        yield EntryKey(partition, Space.BATCH_COUNT, batch_id)
    for key, _ in source.scan(partition, Space.BATCH_BINDING) if deleted else ():
        if key[-_ID_BYTES:] in deleted:
            yield EntryKey(partition, Space.BATCH_BINDING, key)


def _nameless(source: StoreReader, partition: int, named: frozenset[StagedRun]) -> Iterator[EntryKey]:
    """Staged runs that no parcel of an open consignment names, because not all parts of their parcel were staged."""
    for key, value in source.scan(partition, Space.RUN):
        run = decode_run(value)
        if run.state is RunState.STAGED and StagedRun(partition, run.identity) not in named:
            yield EntryKey(partition, Space.RUN, key)


def _named_runs(source: StoreReader, partition_count: int) -> frozenset[StagedRun]:
    named: list[StagedRun] = []
    for home in range(partition_count):
        rows = source.scan(home, Space.CONSIGNMENT)
        opened = {key for key, value in rows if decode_consignment(value).state is ConsignmentState.OPEN}
        for key, value in source.scan(home, Space.CONSIGNMENT_PARCEL):
            named += decode_parcel(value).runs if key[:_ID_BYTES] in opened else ()
    return frozenset(named)
