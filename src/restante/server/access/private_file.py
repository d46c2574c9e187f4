"""A small file that only its owner may read, and that processes change in turns, as a whole; `origins.secret` is one.

A change is written beside the file, made durable, and renamed over it: a reader finds the old one or the new one.

The secret in `origins.secret` signs calls to origins which have none of their own. It is made when it is first needed, and stays.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from restante.errors import DataDamaged, StorageFull, Unavailable
from restante.model.batches.webhook_rules import new_secret, secret_text
from restante.settings.texts import secret_bytes

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

Stamp = tuple[int, int, int]
"""Which version of a file it is. Each version is a file of its own, so one within the same tick of the clock counts."""


def stamp_of(path: Path) -> Stamp | None:
    """The version that is there now; None when there is no file."""
    with _translated(path):
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def content_of(path: Path, *, bytes_max: int) -> bytes | None:
    """The content of the file; None when there is no file."""
    with _translated(path):
        try:
            with path.open("rb") as file:
                content = file.read(bytes_max + 1)
        except FileNotFoundError:
            return None
    if len(content) > bytes_max:
        raise Unavailable(f"{path.name} is larger than {bytes_max:,} bytes: it was not written here.")
    return content


def lock_of(path: Path) -> Path:
    """The file that is locked while another is changed; it stays beside it."""
    return path.with_name(f"{path.name}.lock")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file: no other process changes it inside this context. Its folder is made if need be."""
    with _translated(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(lock_of(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # Which also unlocks: nobody else has this open file.


def replace(path: Path, content: bytes) -> None:
    """The new content, durable. The caller has locked the file, so the name beside it is free."""
    beside = path.with_name(f"{path.name}.new")
    with _translated(path):
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _flush_names(path.parent)


def _flush_names(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = StorageFull if error.errno in _FULL else Unavailable
        raise kind(f"{path.name} cannot be read or written: {error.strerror or error}.") from error


FILE_NAME = "origins.secret"
_BYTES_MAX = 1_024


def origin_secret(folder: Path) -> bytes:
    """The secret of a data folder, made if there is none."""
    path = folder / FILE_NAME
    with locked(path):
        content = content_of(path, bytes_max=_BYTES_MAX)
        if content is None:
            content = secret_text(new_secret(os.urandom)).encode() + b"\n"
            replace(path, content)
    secret = secret_bytes(content.decode(errors="replace").strip())
    if secret is None:
        raise DataDamaged(
            f"{path.name} holds no secret. Remove the file; the hub then makes a new secret, which the origins need."
        )
    return secret
