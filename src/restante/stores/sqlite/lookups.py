"""`Lookups`: reads of the overlay laid over those of the database.

For a single key or blob, the overlay is read first, then the database if the overlay does not know it. A list is of one moment
only if nothing was frozen between the two reads; otherwise it is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from restante.errors import DataDamaged
from restante.limits import PARTITIONS_MAX
from restante.model.storage.changes import BlobKey, Space
from restante.ports.store import BlobPlace
from restante.stores.sqlite.failures import translated
from restante.stores.sqlite.files import BlobFiles, ByteRange
from restante.stores.sqlite.overlay import Overlay
from restante.stores.sqlite.readers import ReadConnections

_NUMBERS = 1 << 48
"""The number of blob numbers in a partition. Partition and number together make a 63-bit row id."""
assert PARTITIONS_MAX * _NUMBERS < 1 << 63

_TRIES_MAX = 3
"""How often a list is read before commits are held for it."""

_GET = "SELECT value FROM entries WHERE partition = ? AND space = ? AND key = ?"
_READ_BLOB = "SELECT file, start, length, substr(data, ?, ?) FROM blobs WHERE id = ?"
_HAS_BLOB = "SELECT 1 FROM blobs WHERE id = ?"
_LIST_BLOBS = "SELECT id FROM blobs WHERE id >= ? AND id < ? ORDER BY id"
_LAST_BLOB = "SELECT max(id) FROM blobs WHERE id >= ? AND id < ?"

FILE_RANGES = "SELECT file, start, length FROM blobs WHERE file IS NOT NULL ORDER BY file, start"

_T = TypeVar("_T")


def row_id_of(blob: BlobKey) -> int:
    assert 0 <= blob.number < _NUMBERS
    return blob.partition * _NUMBERS + blob.number


def row_ids_of(blobs: Sequence[BlobKey]) -> list[int]:
    """The row ids of many blobs."""
    return [partition * _NUMBERS + number for partition, number in blobs]


class Lookups:
    """Reads for any thread, beside commits and transfers."""

    def __init__(self, readers: ReadConnections, files: BlobFiles, overlay: Overlay) -> None:
        self._readers = readers
        self._files = files
        self._overlay = overlay

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        found = self._overlay.entry(partition, space, key)
        if found is not None:
            return found.value
        rows = self._readers.rows(_GET, (partition, int(space), key))
        return rows[0][0] if rows else None

    def scan(
        self, partition: int, space: Space, *, start: bytes, end: bytes | None, limit: int | None, reverse: bool
    ) -> list[tuple[bytes, bytes]]:
        query = (
            "SELECT key, value FROM entries WHERE partition = ? AND space = ? AND key >= ?"
            f"{'' if end is None else ' AND key < ?'} ORDER BY key{' DESC' if reverse else ''} LIMIT ?"
        )
        bounds = (start,) if end is None else (start, end)

        def look() -> list[tuple[bytes, bytes]]:
            laid = self._overlay.entries(partition, space, start, end)
            # A negative limit means none in SQLite. Read as many more rows as the overlay may delete.
            most = -1 if limit is None else limit + sum(value is None for value in laid.values())
            rows = self._readers.rows(query, (partition, int(space), *bounds, most))
            return _laid_over(rows, laid, reverse=reverse)[:limit] if laid else rows

        return self._of_one_moment(look)

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> bytes:
        file, start, stored, inline = self._find_blob(blob, offset, length)
        if offset + length <= stored:
            data = inline if file is None else self._read_file(blob, file, start + offset, length)
            if len(data) == length:
                return data
        raise DataDamaged(f"{_name(blob)} ends before byte {offset + length}.")

    def blob_size(self, blob: BlobKey) -> int:
        _, _, stored, _ = self._find_blob(blob, 0, 0)
        return stored

    def blob_place(self, blob: BlobKey) -> BlobPlace | None:
        file, start, stored, _ = self._find_blob(blob, 0, 0)
        return None if file is None else BlobPlace(str(self._files.path(file)), start, stored)

    def blobs(self, partition: int) -> list[BlobKey]:
        first, end = partition * _NUMBERS, (partition + 1) * _NUMBERS

        def look() -> set[int]:
            came, gone = self._overlay.blob_ids(first, end)
            came.update(row_id for (row_id,) in self._readers.rows(_LIST_BLOBS, (first, end)))
            return came - gone

        return [BlobKey(partition, row_id - first) for row_id in sorted(self._of_one_moment(look))]

    def file_ranges(self) -> dict[int, list[ByteRange]]:
        """The ranges of blobs in each file that the database names, in order."""
        ranges: dict[int, list[ByteRange]] = {}
        for file, start, length in self._readers.rows(FILE_RANGES, ()):
            ranges.setdefault(file, []).append(ByteRange(start, length))
        return ranges

    def has_blob(self, row_id: int) -> bool:
        """Whether there is, or lately was, a blob with this row id."""
        return self._overlay.blob(row_id) is not None or bool(self._readers.rows(_HAS_BLOB, (row_id,)))

    def last_blob(self, partition: int) -> int:
        """The highest row id of a blob in a partition; one less than its first possible id if there is none."""
        first, end = partition * _NUMBERS, (partition + 1) * _NUMBERS
        came, _ = self._overlay.blob_ids(first, end)
        ((last,),) = self._readers.rows(_LAST_BLOB, (first, end))
        return max(first - 1, first - 1 if last is None else last, max(came, default=first - 1))

    def _of_one_moment(self, look: Callable[[], _T]) -> _T:
        for _ in range(_TRIES_MAX):
            epoch = self._overlay.epoch
            found = look()
            if self._overlay.epoch == epoch:
                return found
        with self._overlay.lock:
            return look()

    def _find_blob(self, blob: BlobKey, offset: int, length: int) -> tuple[int | None, int, int, bytes]:
        """The file, start and length of a blob, and the requested slice if the blob is in no file."""
        row_id = row_id_of(blob)
        known = self._overlay.blob(row_id)
        if known is not None and known.row is not None:
            _, file, start, stored, data = known.row
            return file, start, stored, (data or b"")[offset : offset + length]
        rows = self._readers.rows(_READ_BLOB, (offset + 1, length, row_id)) if known is None else []
        if not rows:
            raise DataDamaged(f"{_name(blob)} is missing.")
        file, start, stored, inline = rows[0]
        # SQLite returns NULL for an empty slice.
        return file, start, stored, inline or b""

    def _read_file(self, blob: BlobKey, file: int, start: int, length: int) -> bytes:
        try:
            return self._files.read(file, start, length)
        except FileNotFoundError as error:
            raise DataDamaged(f"The file of {_name(blob)} is missing.") from error
        except OSError as error:
            raise translated(error) from error


def _laid_over(
    rows: list[tuple[bytes, bytes]], laid: dict[bytes, bytes | None], *, reverse: bool
) -> list[tuple[bytes, bytes]]:
    values: dict[bytes, bytes | None] = dict(rows)
    values.update(laid)
    return [(key, value) for key, value in sorted(values.items(), reverse=reverse) if value is not None]


def _name(blob: BlobKey) -> str:
    return f"Blob {blob.number} of partition {blob.partition}"
