"""The content of a log when a folder is opened.

A file's records follow its head without anything in between, and each names the checksum of the one before it. So they
are read from the beginning, and the first that is not whole, or does not follow, ends them: a crash tore it, or it is a
rest of the file's earlier life. Nothing is looked for inside of what messages brought.

One record is flushed before the next is begun, so a crash can spoil the last one only, which was never answered. Whole
records beyond the end, or numbers that are missing, are damage, and the folder is refused.
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
    """The life that the records of each file belong to."""


class _File(NamedTuple):
    content: bytes
    life: Life | None
    records: Sequence[Record]
    end: int


def read_log(paths: Sequence[Path], *, mark: bytes, lives: Sequence[Life], transferred: int) -> LogContent:
    """The lives are those that the database knows: files of others are from before its last transfer."""
    files = [_read(path, mark, lives) for path in paths]
    found = {record.sequence: record for file in files for record in file.records if record.sequence > transferred}
    last = max(found, default=transferred)
    # The number after the last may be that of the torn record.
    beyond = max((number for file in files for number in _numbers_beyond(file, lives)), default=0)
    if beyond > last + 1 or len(found) != last - transferred:
        raise lacks_commits(paths[0].parent, transferred, max(last, beyond))
    return LogContent([found[sequence] for sequence in sorted(found)], [file.life for file in files])


def require_own(path: Path, content: bytes, mark: bytes) -> None:
    """A file that was only just begun may hold less than the mark."""
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
