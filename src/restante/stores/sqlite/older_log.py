"""Bringing a log of format 2 into the database, once, before the folder is migrated.

Its records had one permanent mark and a checksum without a key, and were searched for anywhere in the file.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from xxhash import xxh3_64_digest

from restante.stores.sqlite.log import log_files
from restante.stores.sqlite.log_content import lacks_commits, require_own
from restante.stores.sqlite.overlay import Generation
from restante.stores.sqlite.record import Record, decode
from restante.stores.sqlite.writer import Writer

_HEAD = struct.Struct("<8sQI")
_CHECKSUM_BYTES = 8


def bring_in_older_log(connection: sqlite3.Connection, folder: Path) -> None:
    """Bring the records into the database, then remove the files. After a crash in between, this is repeated."""
    columns = [row[1] for row in connection.execute("PRAGMA table_info(log)")]
    if "transferred" not in columns or "lives" in columns:
        return
    ((mark, transferred),) = connection.execute("SELECT mark, transferred FROM log")
    paths = log_files(folder)
    missing = Generation()
    for record in missing_records(paths, mark=mark, transferred=transferred):
        missing.apply(decode(record), sequence=record.sequence, record_bytes=len(record.payload))
    if missing.last:
        Writer(connection, folder).write(missing.transaction())
    for path in paths:
        path.unlink()


def missing_records(paths: Sequence[Path], *, mark: bytes, transferred: int) -> list[Record]:
    """The records that the database does not have yet, in order."""
    found: dict[int, Record] = {}
    for path in paths:
        content = path.read_bytes()
        require_own(path, content, mark)
        found.update((record.sequence, record) for record in _whole_records(content, mark))
    missing = sorted(sequence for sequence in found if sequence > transferred)
    if missing and missing[-1] != transferred + len(missing):
        raise lacks_commits(paths[0].parent, transferred, missing[-1])
    return [found[sequence] for sequence in missing]


def _whole_records(content: bytes, mark: bytes) -> Iterator[Record]:
    """All whole records, anywhere in the file."""
    at = content.find(mark)
    while at >= 0:
        record = _record_at(content, at)
        if record is not None:
            yield record
            at += _HEAD.size + len(record.payload) + _CHECKSUM_BYTES
        else:
            at += 1
        at = content.find(mark, at)


def _record_at(content: bytes, at: int) -> Record | None:
    start = at + _HEAD.size
    if start > len(content):
        return None
    _, sequence, length = _HEAD.unpack_from(content, at)
    end = start + length
    if content[end : end + _CHECKSUM_BYTES] != xxh3_64_digest(memoryview(content)[at:end]):
        return None
    return Record(sequence, content[start:end])
