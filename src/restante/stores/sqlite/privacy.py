"""Privacy of a data folder: its owner alone may read it, whatever the umask. Folders are 0700, files 0600.

New files and folders are made so. Those that an older version made, or that were copied here, are tightened when the
folder is opened. SQLite gives its journal and index the mode of the database, so the database is made first.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_OF_OTHERS = 0o077
_NAMED_MAX = 3
_OWN = ("restante.db*", "log-*", "lock", "tokens.json*", "origins.secret*", "backup-*.db*", "blobs", "blobs/*")

_log = logging.getLogger(__name__)


def make_folder(folder: Path) -> None:
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def make_database(path: Path) -> None:
    """An empty file is an empty database."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def tighten(folder: Path) -> None:
    """Take from others what they may do with the folder and with the files of a hub in it; say so if there was any."""
    loose = list(_loose(folder))
    failures = [error for path, mode in loose if (error := _tightened(path, mode)) is not None]
    if failures:
        _log.warning(
            "The data folder %s can be reached by other users, and not all of that could be changed (%s). "
            "Make it 0700, and the files in it 0600, as their owner.",
            folder,
            failures[0].strerror,
        )
    elif loose:
        names = ", ".join(str(path.relative_to(folder.parent)) for path, _ in loose[:_NAMED_MAX])
        more = f" and {len(loose) - _NAMED_MAX} more" if len(loose) > _NAMED_MAX else ""
        _log.warning("The data folder %s could be reached by other users. Now it cannot: %s%s.", folder, names, more)


def _tightened(path: Path, mode: int) -> OSError | None:
    try:
        path.chmod(mode & ~_OF_OTHERS)
    except OSError as error:
        return error
    return None


def _loose(folder: Path) -> Iterator[tuple[Path, int]]:
    """Files that others may read, write or enter, each with its mode."""
    for path in (folder, *(path for pattern in _OWN for path in folder.glob(pattern))):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            continue  # removed meanwhile
        if mode & _OF_OTHERS:
            yield path, mode
