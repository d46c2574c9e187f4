"""Files that are complete under their final names, or not there at all."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from restante.errors import StorageFull, Unavailable

UNFINISHED = ".unfinished"
_HIDDEN = "."


@contextmanager
def new_file(path: Path, *, hidden: bool = False) -> Iterator[io.BufferedWriter]:
    """A file that gets its name when all of it is on the disk; if anything fails before, it is gone.

    Hidden, it begins with a dot until then: so those who read all files of a folder pass it over.
    """
    try:
        descriptor, name = tempfile.mkstemp(UNFINISHED, f"{_HIDDEN * hidden}{path.name}.", path.parent)
        _lock(descriptor)
        unfinished = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        _flush_names(path.parent)
    except OSError as error:
        kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else Unavailable
        raise kind(f"{path} could not be written: {error}.") from error


def remove_unfinished(folder: Path, names: str) -> None:
    """Remove hidden files that a crash left behind; `names` is a pattern. Files that a process still writes to stay."""
    for path in folder.glob(f"{_HIDDEN}{names}.*{UNFINISHED}"):
        with suppress(OSError), path.open("rb") as file:
            if _lock(file.fileno()):
                path.unlink()


def _lock(descriptor: int) -> bool:
    """The system lets go of it however the process ends. Where there are no locks, nothing is taken for left behind."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _flush_names(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
