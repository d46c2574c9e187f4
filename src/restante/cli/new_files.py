"""Files that are complete under their final names, or not there at all."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from restante.errors import StorageFull, Unavailable

UNFINISHED = ".unfinished"


@contextmanager
def new_file(path: Path) -> Iterator[io.BufferedWriter]:
    """A file that gets its name when all of it is on the disk; if anything fails before, it is gone."""
    try:
        descriptor, name = tempfile.mkstemp(UNFINISHED, f"{path.name}.", path.parent)
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


def _flush_names(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
