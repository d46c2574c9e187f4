"""Backup: the data of a hub as of one moment, as a stream of bytes, while the hub goes on working."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self

from restante import limits
from restante.calls.shards import CutShard, CutStep
from restante.errors import DataDamaged, InvalidRequest, Unavailable
from restante.hub.engine.core import Core
from restante.hub.engine.filing import drop_unreachable
from restante.hub.engine.partitions import Deed
from restante.hub.upkeep.archive import (
    ARCHIVE_FORMAT,
    END,
    NO_CHECKSUM,
    Manifest,
    ManifestFile,
    archive_size,
    ending,
    header,
    is_part_name,
    padding,
)
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import moment
from restante.model.storage.changes import Space
from restante.ports.backup import CutLapses, SnapshotPart, SnapshotStore, StoreCut, StoreSnapshot

_LAPSES = CutLapses(prepared=limits.SHARD_PATIENCE_SECONDS, held=limits.CUT_SECONDS_MAX, kept=2.0)
LEFT_OUT = (Space.GROUP_MEMBER,)
"""Spaces that a backup leaves out: members of groups must join a restored hub again."""


class BackupStream:
    """The bytes of a backup, in chunks of bounded size, to be read once. Always close it, because it holds a snapshot."""

    def __init__(self, deed: Deed, made_at: int, snapshot: StoreSnapshot) -> None:
        self._deed = deed
        self._snapshot = snapshot
        self._made_at = made_at
        files = [ManifestFile(name=part.name, bytes=part.size_bytes, sha256=NO_CHECKSUM) for part in snapshot.parts]
        self.size_bytes = archive_size(self._manifest(files))
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
            data_format=self._deed.format,
            made_at=moment(self._made_at),
            partition_count=self._deed.partition_count,
            files=tuple(files),
        )

    def _written(self) -> Iterator[bytes]:
        files: list[ManifestFile] = []
        for part in self._snapshot.parts:
            yield self._header(part.name, part.size_bytes)
            files.append((yield from _content(part)))
            yield padding(part.size_bytes)
        yield ending(self._manifest(files), seconds=self._made_at // 1_000_000)
        self.close()  # Before the last bytes are given out, so that their reader may request the next backup at once.
        yield END

    def _header(self, name: str, size: int) -> bytes:
        return header(name, size, seconds=self._made_at // 1_000_000)


def backup(core: Core, cut: str | None = None) -> BackupStream:
    """Begin a backup, which has everything acknowledged before the call, or before the moment of a cut."""
    snapshot = _store(core).snapshot(LEFT_OUT) if cut is None else core.memory(Cuts).taken(cut).snapshot(LEFT_OUT)
    assert all(is_part_name(part.name) for part in snapshot.parts)
    return BackupStream(core.deed, core.clock(), snapshot)


def _store(core: Core) -> SnapshotStore:
    if not isinstance(core.store, SnapshotStore):
        raise InvalidRequest(
            "This store has no backup of its own. `restante copy` copies a database into a folder while the hub runs."
        )
    # Drop erased blobs that no reader needs, so that the backup does not have them.
    drop_unreachable(core)
    return core.store


class Cuts:
    """The last cut in which this hub takes part."""

    def __init__(self) -> None:
        self._name = ""
        self._cut: StoreCut | None = None

    def enter(self, name: str, cut: StoreCut) -> None:
        self._name, self._cut = name, cut

    def of(self, name: str) -> StoreCut:
        if self._cut is None or name != self._name:
            raise Unavailable("This shard knows nothing of the backup. Ask for another one.")
        return self._cut

    def taken(self, name: str) -> StoreCut:
        """Take the cut of this name, which can be used only once."""
        cut, self._cut = self.of(name), None
        return cut


def cut_shard(core: Core, call: CutShard, _: Grant) -> float | None:
    """Carry out one step of a backup over several shards. If the next step does not come, the store resumes by itself."""
    cuts = core.memory(Cuts)
    if call.step is CutStep.PREPARE:
        cuts.enter(call.cut, _store(core).cut(_LAPSES))
    elif call.step is CutStep.HOLD:
        return 0.0 if cuts.of(call.cut).hold() else None
    elif call.step is CutStep.RELEASE:
        return cuts.of(call.cut).release()
    else:
        cuts.taken(call.cut).close()
    return None


def _content(part: SnapshotPart) -> Generator[bytes, None, ManifestFile]:
    """The bytes of a part; the generator returns its line of the manifest."""
    checksum, size = hashlib.sha256(), 0
    for chunk in part.chunks():
        checksum.update(chunk)
        size += len(chunk)
        yield chunk
    if size != part.size_bytes:
        raise DataDamaged(f"{part.name} has {size} bytes; {part.size_bytes} were expected. Run the doctor.")
    return ManifestFile(name=part.name, bytes=size, sha256=checksum.hexdigest())
