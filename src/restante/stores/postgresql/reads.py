"""`StoreReads`: the reads of a store, shared by its owner and by views of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from restante.errors import DataDamaged
from restante.model.storage.changes import BlobKey, EntryKey, Space
from restante.ports.store import FetchedRows
from restante.stores.postgresql.parts import PART_BYTES

_GET = "SELECT value FROM restante_entries WHERE partition = %b AND space = %b AND key = %b"
_GET_MANY = """
SELECT entry.partition, entry.space, entry.key, entry.value FROM restante_entries AS entry
JOIN unnest(%b::integer[], %b::smallint[], %b::bytea[]) AS asked (partition, space, key)
ON entry.partition = asked.partition AND entry.space = asked.space AND entry.key = asked.key
"""
_SCAN = "SELECT key, value FROM restante_entries WHERE partition = %b AND space = %b AND key >= %b"
_BLOB_SIZE = "SELECT size FROM restante_blobs WHERE partition = %b AND number = %b AND part = 0"
_BLOBS = "SELECT number FROM restante_blobs WHERE partition = %b AND part = 0 ORDER BY number"
_SLICE = f"""
SELECT size, CASE WHEN part * {PART_BYTES}::bigint >= %b AND (part + 1) * {PART_BYTES}::bigint <= %b THEN data
WHEN part >= %b THEN substring(
    data FROM greatest(%b::bigint - part * {PART_BYTES}::bigint, 0)::integer + 1
    FOR greatest(least(%b::bigint - part * {PART_BYTES}::bigint, {PART_BYTES})
        - greatest(%b::bigint - part * {PART_BYTES}::bigint, 0), 0)::integer) END
FROM restante_blobs WHERE partition = %b AND number = %b AND (part = 0 OR part BETWEEN %b AND %b) ORDER BY part
"""
_FETCH = """
SELECT asked.partition, asked.space, entry.key, entry.value
FROM unnest(%b::integer[], %b::smallint[]) AS asked (partition, space) CROSS JOIN LATERAL (
    SELECT key, value FROM restante_entries
    WHERE restante_entries.partition = asked.partition AND restante_entries.space = asked.space ORDER BY key
) AS entry
"""
"""The inner ORDER BY keeps the planner from reading all partitions, or all spaces, to pick these."""
_FETCH_BLOBS = """
SELECT DISTINCT partition, number FROM restante_blobs WHERE partition >= %b AND partition < %b ORDER BY partition, number
"""
"""All numbers, including those of blobs of which a crash has left some parts but not the first."""
_SIZE = """
SELECT pg_total_relation_size('restante_entries') + pg_total_relation_size('restante_blobs')
"""


class StoreReads:
    """Reads by queries, which `_rows` carries out."""

    def _rows(self, query: LiteralString, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        rows = self._rows(_GET, (partition, int(space), key))
        return rows[0][0] if rows else None

    def get_many(self, keys: Sequence[EntryKey]) -> dict[EntryKey, bytes]:
        if not keys:
            return {}
        partitions, spaces, names = (list(column) for column in zip(*keys, strict=True))
        rows = self._rows(_GET_MANY, (partitions, list(map(int, spaces)), names))
        return {EntryKey(partition, Space(space), key): value for partition, space, key, value in rows}

    def scan(
        self,
        partition: int,
        space: Space,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[bytes, bytes]]:
        query, values = _SCAN, [partition, int(space), start]
        if end is not None:
            query, values = query + " AND key < %b", [*values, end]
        query += " ORDER BY key DESC" if reverse else " ORDER BY key"
        if limit is not None:
            query, values = query + " LIMIT %b", [*values, limit]
        return self._rows(query, values)

    def fetch(self, partitions: range, spaces: Sequence[Space]) -> FetchedRows:
        asked = [(partition, int(space)) for partition in partitions for space in spaces]
        found = FetchedRows({}, {})
        for partition, space, key, value in self._rows(_FETCH, [list(column) for column in zip(*asked, strict=True)]):
            found.rows.setdefault((partition, Space(space)), []).append((key, value))
        for partition, number in self._rows(_FETCH_BLOBS, (partitions.start, partitions.stop)):
            found.blobs.setdefault(partition, []).append(BlobKey(partition, number))
        return found

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> bytes:
        first, end = offset // PART_BYTES, offset + length
        last = max(end - 1, 0) // PART_BYTES
        rows = self._rows(_SLICE, (offset, end, first, offset, end, offset, *blob, first, last))
        if not rows:
            raise DataDamaged(f"Blob {blob.number} of partition {blob.partition} is missing.")
        content = b"".join(data for _, data in rows if data is not None)
        if rows[0][0] < end or len(content) != length:
            raise DataDamaged(f"Blob {blob.number} of partition {blob.partition} ends before byte {end}.")
        return content

    def blob_size(self, blob: BlobKey) -> int:
        rows = self._rows(_BLOB_SIZE, blob)
        if not rows:
            raise DataDamaged(f"Blob {blob.number} of partition {blob.partition} is missing.")
        return int(rows[0][0])

    def blobs(self, partition: int) -> list[BlobKey]:
        return [BlobKey(partition, number) for (number,) in self._rows(_BLOBS, (partition,))]

    def _stored_bytes(self) -> int:
        ((stored,),) = self._rows(_SIZE)
        return int(stored)
