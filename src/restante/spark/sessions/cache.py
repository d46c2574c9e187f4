"""The folder where we keep what a start of Spark needs and need not be made twice: jars, a trust store, a class archive.

Several processes may start at once. So a file comes into being whole, by a rename, and is never changed afterwards: its
name says what it was made from. Whatever lies here can be removed at any time.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from restante.errors import InvalidOperation


def folder(*names: str) -> Path:
    """A folder of ours, made if it is not there."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(root, "restante", "spark", *names)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidOperation(
            f"Spark's start keeps files in {path}, which cannot be made ({error.strerror}). "
            "Set XDG_CACHE_HOME to a folder that can be written to."
        ) from error
    return path


def put(path: Path, content: bytes, *, mode: int = 0o644) -> Path:
    """Writes the file, unless it is there with this very content already."""
    if path.is_file() and path.read_bytes() == content:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    new = Path(name)
    new.chmod(mode)
    new.replace(path)
    return path
