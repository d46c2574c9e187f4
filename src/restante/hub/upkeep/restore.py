"""Restore: reads a backup, verifies every byte of it, and puts its files into a new data folder.

The folder is unusable until everything is verified: until then the database lies among the blobs under another name, and
nothing opens a folder with blobs but without a database.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from restante.errors import DataDamaged, InvalidRequest, StorageFull, Unavailable
from restante.hub.upkeep.archive import (
    BLOCK,
    END,
    MANIFEST_NAME,
    SEAL_NAME,
    ArchiveEntry,
    Manifest,
    ManifestFile,
    decode_manifest,
    is_part_name,
    is_shard_name,
    padding,
    read_header,
    seal,
    shard_name,
)
from restante.limits import BACKUP_CHUNK_BYTES, MIB

MANIFEST_BYTES_MAX = 256 * MIB
"""Enough for a million files."""

Read = Callable[[int], bytes]
"""A function that returns at most the given number of bytes; none at the end."""
Write = Callable[[bytes], object]
OpenPart = Callable[[str], AbstractContextManager[Write]]

_DATABASE = "restante.db"
_BEGINNINGS = (_DATABASE.encode(), b"blobs/", b"shard-")
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
"""Only the owner may read a hub's data, whatever the umask."""
_UNVERIFIED = Path("blobs", f"{_DATABASE}.unverified")


def verify(read: Read) -> Manifest:
    """Verify a whole backup without storing it."""
    return _Reading(read, lambda _: nullcontext(len)).whole()


def restore(read: Read, folder: Path) -> Manifest:
    """Restore a backup into a new or empty folder. If anything is wrong with it, the folder is left as it was."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRequest(f"{folder} is not empty. A backup is restored into a new or an empty folder.")
    existed = folder.exists()
    try:
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        with suppress(PermissionError):  # The folder belongs to another user; opening the hub warns about that.
            folder.chmod(_FOLDER_MODE)
        manifest = _Reading(read, lambda name: _part_file(folder, name)).whole()
        for own in restored_folders(folder, manifest):
            os.rename(own / _UNVERIFIED, own / _DATABASE)  # noqa: PTH104  # an atomic step, and the name says so
            for path in (own / "blobs", own):
                _flush_names(path)
        for path in (folder, folder.resolve().parent):
            _flush_names(path)
    except BaseException as error:
        for path in (folder,) if not existed else tuple(folder.iterdir()):
            shutil.rmtree(path, ignore_errors=True)
        if isinstance(error, OSError):
            raise _translated(error, folder) from error
        raise
    return manifest


def restored_folders(folder: Path, manifest: Manifest) -> list[Path]:
    """The data folders that a backup is restored into: one, or one for each shard."""
    if not manifest.starts:
        return [folder]
    return [folder / Path(file.name).stem for file in manifest.files]


class _Reading:
    """One pass over a backup. A backup of several shards contains a backup of each."""

    def __init__(self, read: Read, open_part: OpenPart, inside: str = "") -> None:
        self._read = read
        self._open_part = open_part
        self._inside = inside
        self._found: list[ManifestFile] = []

    def whole(self) -> Manifest:
        entry = self._entry()
        while is_part_name(entry.name) or (is_shard_name(entry.name) and not self._inside):
            self._found.append(self._part(entry) if is_part_name(entry.name) else self._shard(entry))
            entry = self._entry()
        if entry.name != MANIFEST_NAME or not self._found:
            raise DataDamaged(f"The backup has an entry that does not belong there: {entry.name!r}. It is not used.")
        content = self._small(entry, MANIFEST_BYTES_MAX)
        if self._small(self._entry(), BLOCK) != seal(content):
            raise DataDamaged(f"The backup's manifest fails its checksum ({SEAL_NAME}).")
        manifest = decode_manifest(content)
        if self._exactly(len(END)) != END or self._read(1):
            raise DataDamaged("The backup goes on after its end.")
        self._compare(manifest)
        return manifest

    def _compare(self, manifest: Manifest) -> None:
        names = [file.name for file in self._found]
        shards = [shard_name(number) for number in range(len(manifest.starts))]
        whole = names == shards if shards else _DATABASE in names and not any(map(is_shard_name, names))
        if names != [file.name for file in manifest.files] or len(set(names)) != len(names) or not whole:
            raise DataDamaged("The backup does not hold the files that its manifest names.")
        for found, named in zip(self._found, manifest.files, strict=True):
            if found != named:
                raise DataDamaged(f"{found.name} in the backup fails its checksum.", file=found.name)

    def _entry(self) -> ArchiveEntry:
        block = self._up_to(BLOCK)
        if not self._found and not _begins_like_a_backup(block):
            raise _no_backup()
        entry = read_header(_whole(block, BLOCK))
        if entry is None and not self._found:
            raise _no_backup()
        if entry is None:
            raise DataDamaged(f"The backup is damaged after {self._found[-1].name}.")
        return entry

    def _shard(self, entry: ArchiveEntry) -> ManifestFile:
        """Read the contained backup of a shard."""
        checksum, left = hashlib.sha256(), entry.size

        def read(size: int) -> bytes:
            nonlocal left
            chunk = self._up_to(min(size, left))
            checksum.update(chunk)
            left -= len(chunk)
            return chunk

        _Reading(read, self._open_part, f"{Path(entry.name).stem}/").whole()
        self._padding(entry)
        return ManifestFile(name=entry.name, bytes=entry.size, sha256=checksum.hexdigest())

    def _part(self, entry: ArchiveEntry) -> ManifestFile:
        checksum, left = hashlib.sha256(), entry.size
        with self._open_part(self._inside + entry.name) as write:
            while left:
                chunk = self._exactly(min(left, BACKUP_CHUNK_BYTES))
                checksum.update(chunk)
                write(chunk)
                left -= len(chunk)
        self._padding(entry)
        return ManifestFile(name=entry.name, bytes=entry.size, sha256=checksum.hexdigest())

    def _small(self, entry: ArchiveEntry, size_max: int) -> bytes:
        if entry.size > size_max:
            raise DataDamaged(f"{entry.name} in the backup has {entry.size} bytes, too many.")
        content = self._exactly(entry.size)
        self._padding(entry)
        return content

    def _padding(self, entry: ArchiveEntry) -> None:
        expected = padding(entry.size)
        if self._exactly(len(expected)) != expected:
            raise DataDamaged(f"The backup is damaged after {entry.name}.")

    def _exactly(self, size: int) -> bytes:
        return _whole(self._up_to(size), size)

    def _up_to(self, size: int) -> bytes:
        """Read `size` bytes, or fewer at the end."""
        content = self._read(size) if size else b""
        if len(content) == size:
            return content
        parts = [content]
        left = size - len(content)
        while left and parts[-1]:
            parts.append(self._read(left))
            left -= len(parts[-1])
        return b"".join(parts)


def _whole(content: bytes, size: int) -> bytes:
    if len(content) < size:
        raise DataDamaged("The backup ends too early: it was cut short.")
    return content


def _begins_like_a_backup(block: bytes) -> bool:
    """Whether a stream begins like a backup, even one that was cut very short, to distinguish it from other files."""
    return any(block.startswith(name[: len(block)]) for name in _BEGINNINGS)


def _no_backup() -> InvalidRequest:
    return InvalidRequest("This is not a backup of Restante. Give a file that `restante backup` wrote.")


@contextmanager
def _part_file(folder: Path, name: str) -> Iterator[Write]:
    own = (folder / name).parent if name.endswith(_DATABASE) else (folder / name).parent.parent
    path = own / (_UNVERIFIED if name.endswith(_DATABASE) else f"blobs/{Path(name).name}")
    for made in (own, own / "blobs"):
        made.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
        with io.FileIO(descriptor, "wb") as file:
            yield lambda chunk: _write_all(file.write, chunk)
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise DataDamaged(f"The backup holds {name} twice.") from error


def _write_all(write: Callable[[bytes | memoryview], int | None], chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[write(rest) or 0 :]


def _flush_names(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _translated(error: OSError, folder: Path) -> StorageFull | Unavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFull(f"No space is left for {folder}; nothing was restored. Make room and try again.")
    return Unavailable(f"{folder} could not be written: {error}.")
