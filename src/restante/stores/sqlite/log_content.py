"""Reading the log when a folder is opened.

A file's records follow its head without gaps, and each names the checksum of the one before. So they are read from the
beginning, up to the first that is not whole or does not follow: a crash tore it, or it is left from an earlier life of the
file. The bytes of messages are never searched for records.

Each record is flushed before the next is begun, so a crash can damage only the last one, which was never answered. Whole
records beyond the end, or missing numbers, mean damage, and the folder is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from restante.errors import DataDamaged
from restante.stores.sqlite.record import MARK_BYTES, Life, Record, chain, decode_file_head, unchained


class LogContent(NamedTuple):
    missing: Sequence[Record]
    """The records that the database does not have yet, in order."""
    lives: Sequence[Life | None]
    """The life of each file's records; None if the database does not know it."""


class _File(NamedTuple):
    content: bytes
    life: Life | None
    records: Sequence[Record]
    end: int


def read_log(paths: Sequence[Path], *, mark: bytes, lives: Sequence[Life], transferred: int) -> LogContent:
    """Read the log. `lives` are those that the database knows; files of other lives were transferred before."""
    files = [_read(path, mark, lives) for path in paths]
    found = {record.sequence: record for file in files for record in file.records if record.sequence > transferred}
    last = max(found, default=transferred)
    # Number last + 1 may be that of the torn record.
    beyond = max((number for file in files for number in _numbers_beyond(file, lives)), default=0)
    if beyond > last + 1 or len(found) != last - transferred:
        raise lacks_commits(paths[0].parent, transferred, max(last, beyond))
    return LogContent([found[sequence] for sequence in sorted(found)], [file.life for file in files])


def require_own(path: Path, content: bytes, mark: bytes) -> None:
    """Refuse a log of another database. A file that was just begun may have only a part of the mark."""
    if not mark.startswith(content[:MARK_BYTES].rstrip(b"\0")):
        raise DataDamaged(f"{path} is damaged, or is the log of another database. Restore the folder's own.")


def lacks_commits(folder: Path, transferred: int, last: int) -> DataDamaged:
    return DataDamaged(
        f"The log in {folder} lacks commits between {transferred}, the database's last, and {last}, "
        f"its own last: one of the two is damaged or of another time. Restore the folder from a backup.",
        transferred=transferred,
        last=last,
    )


def _read(path: Path, mark: bytes, lives: Sequence[Life]) -> _File:
    content = path.read_bytes()
    require_own(path, content, mark)
    for life in lives:
        records, end = chain(content, life)
        if records:
            return _File(content, life, records, end)
    return _File(content, None, (), 0)


def _numbers_beyond(file: _File, lives: Sequence[Life]) -> list[int]:
    numbers = [number for life in lives for number in unchained(file.content, file.end, life)]
    return [*numbers, decode_file_head(file.content).first]
