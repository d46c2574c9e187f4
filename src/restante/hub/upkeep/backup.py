"""Backup: the hub as of one moment, as a stream of bytes, while it goes on working."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self

from restante.errors import DataDamaged, InvalidRequest
from restante.hub.engine.core import Core
from restante.hub.engine.filing import drop_unreachable
from restante.hub.upkeep.archive import (
    ARCHIVE_FORMAT,
    BLOCK,
    END,
    MANIFEST_NAME,
    NO_CHECKSUM,
    SEAL_NAME,
    Manifest,
    ManifestFile,
    encode_manifest,
    header,
    is_part_name,
    padding,
    seal,
)
from restante.model.mailboxes.answers import moment
from restante.model.storage.changes import Space
from restante.ports.backup import SnapshotPart, SnapshotStore, StoreSnapshot

LEFT_OUT = (Space.GROUP_MEMBER,)
"""Who was a member of a group when a backup was made is none of a hub that is made of it: all join again."""


class BackupStream:
    """The bytes of a backup, in chunks of bounded size, once. Close it in any case: it keeps what it has not read."""

    def __init__(self, core: Core, snapshot: StoreSnapshot) -> None:
        self._core = core
        self._snapshot = snapshot
        self._made_at = core.clock()
        files = [ManifestFile(name=part.name, bytes=part.size_bytes, sha256=NO_CHECKSUM) for part in snapshot.parts]
        ends = [encode_manifest(self._manifest(files)), seal(b"")]
        sizes = [part.size_bytes for part in snapshot.parts] + [len(end) for end in ends]
        self.size_bytes = sum(BLOCK + size + len(padding(size)) for size in sizes) + len(END)
        """The size of the whole stream."""
        self._chunks = self._written()

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _manifest(self, files: list[ManifestFile]) -> Manifest:
        return Manifest(
            format=ARCHIVE_FORMAT,
            data_format=self._core.deed.format,
            made_at=moment(self._made_at),
            partition_count=self._core.deed.partition_count,
            files=tuple(files),
        )

    def _written(self) -> Iterator[bytes]:
        files: list[ManifestFile] = []
        for part in self._snapshot.parts:
            yield self._header(part.name, part.size_bytes)
            files.append((yield from _content(part)))
            yield padding(part.size_bytes)
        manifest = encode_manifest(self._manifest(files))
        for name, content in ((MANIFEST_NAME, manifest), (SEAL_NAME, seal(manifest))):
            yield self._header(name, len(content)) + content + padding(len(content))
        self.close()  # before the last bytes go, so that whoever has them may ask for the next backup at once
        yield END

    def _header(self, name: str, size: int) -> bytes:
        return header(name, size, seconds=self._made_at // 1_000_000)


def backup(core: Core) -> BackupStream:
    """Everything that was acknowledged before is in it."""
    if not isinstance(core.store, SnapshotStore):
        raise InvalidRequest(
            "This store has no backup of its own. `restante copy` copies a database into a folder while the hub runs."
        )
    # What was erased, and nobody reads any more, is not in it.
    drop_unreachable(core)
    snapshot = core.store.snapshot(LEFT_OUT)
    assert all(is_part_name(part.name) for part in snapshot.parts)
    return BackupStream(core, snapshot)


def _content(part: SnapshotPart) -> Generator[bytes, None, ManifestFile]:
    """Gives the bytes of a part, and at the end its line of the manifest."""
    checksum, size = hashlib.sha256(), 0
    for chunk in part.chunks():
        checksum.update(chunk)
        size += len(chunk)
        yield chunk
    if size != part.size_bytes:
        raise DataDamaged(f"{part.name} has {size} bytes; {part.size_bytes} were expected. Run the doctor.")
    return ManifestFile(name=part.name, bytes=size, sha256=checksum.hexdigest())
