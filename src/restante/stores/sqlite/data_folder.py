"""The data folder: checks that a folder may be one, locks it for one process, and restricts access to its owner.

A folder that holds something else is refused: a hub would put its files among the others, and lock out all other users.

Folders have mode 0700 and files 0600, whatever the umask. New ones are created so. Opening a folder corrects the modes of
files that an older version made or that were copied. SQLite gives its journal and index the mode of the database, so the
database file is created first.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from restante.errors import DataLocked, InvalidRequest

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_OF_OTHERS = 0o077
_NAMED_MAX = 3
_OWN = ("restante.db*", "log-*", "lock", "tokens.json*", "origins.secret*", "backup-*.db*", "blobs", "blobs/*")

_log = logging.getLogger(__name__)


_OURS = ("restante.db", "blobs", "log-0", "log-1")
"""The files that show that a folder has a hub's data."""
_BESIDE = frozenset(
    {
        *("lock", "tokens.json", "tokens.json.lock", "origins.secret", "origins.secret.lock"),
        *("calls.sock", "requests.sock", "not_started.txt"),
        *("lost+found", ".gitignore", ".gitkeep", ".keep", ".DS_Store"),
    }
)
"""Files that may be in a folder without a hub's data."""
SEVERAL = "shards.json"
"""The file of a folder whose data is in the folders of several shards."""
JOINED = "joined.new"
"""The folder in which shards are joined until the result is complete."""
_PID_CHARACTERS_MAX = 20


def make_folder(folder: Path) -> None:
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def make_database(path: Path) -> None:
    """Create the database as an empty file, which SQLite takes for an empty database."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def tighten(folder: Path) -> None:
    """Remove the access of other users to the folder and the hub's files in it. Logs a warning if there was any."""
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
    """The files and folders that other users may access, each with its mode."""
    for path in (folder, *(path for pattern in _OWN for path in folder.glob(pattern))):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            continue  # Removed meanwhile.
        if mode & _OF_OTHERS:
            yield path, mode


def require_own(folder: Path) -> None:
    """Refuse a folder that holds something else and no hub's data. Nothing is changed."""
    if (folder / SEVERAL).exists():
        raise InvalidRequest(
            f"{folder} is the data of several shards, which one process cannot open. Serve it: restante serve --data {folder}"
        )
    if not folder.is_dir() or any((folder / name).exists() for name in _OURS):
        return
    others = {path.name for path in folder.iterdir()} - _BESIDE
    if others:
        raise InvalidRequest(
            f"{folder} holds something else ({min(others)}) and no data of Restante. Name another folder, or a new one "
            "inside it."
        )


def require_whole(folder: Path) -> None:
    """Refuse the folder of one shard of several: a single hub would take messages that belong to other shards."""
    home = folder.absolute().parent
    if folder.name.startswith("shard-") and (home / SEVERAL).exists():
        raise InvalidRequest(
            f"{folder} is one shard of several, which cannot be opened alone. Serve all: restante serve --data {folder.parent}"
        )


class FolderLock:
    """An exclusive `flock` on a file in the folder, which the system releases however the process ends."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._descriptor, _PID_CHARACTERS_MAX, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise DataLocked(
                f"The data folder {folder} is open already (by process {owner or 'unknown'}). "
                "One process at a time may use it: close that one, or choose another folder.",
                folder=str(folder),
            ) from error
        # The content is only for the message above; the lock does not depend on it.
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode("ascii"), 0)

    @staticmethod
    def is_held(folder: Path) -> bool:
        """Whether a process has the folder open."""
        try:
            descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)  # Which also unlocks it.
        return False

    def release(self) -> None:
        # Unlock explicitly, because a forked child may hold the same open file.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
