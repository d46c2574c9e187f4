"""The format of a backup: a tar of the snapshot's files, then their manifest, then the manifest's checksum.

The manifest comes last because it is made while the files are read, once. So a backup that was cut short has no manifest,
and is not mistaken for a whole one. All lengths are known before anything is read: names and sizes come from the snapshot,
and checksums have a fixed length. So the size of the whole backup is known in advance.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from datetime import datetime
from typing import NamedTuple

import msgspec

from restante.decoders import json_decoder
from restante.errors import DataDamaged, FormatUnsupported

ARCHIVE_FORMAT = 1
JOINT_FORMAT = 2
"""The format of a backup of several shards: a tar of the shards' backups, all of one moment."""
MANIFEST_NAME = "manifest.json"
SEAL_NAME = "manifest.sha256"
BLOCK = 512
END = bytes(2 * BLOCK)
NO_CHECKSUM = "0" * 64

_SHARD_NAME = re.compile(r"shard-[0-9]{1,5}\.tar")
_PART_NAME = re.compile(r"restante\.db|blobs/[0-9]{12}")
"""The only names that a backup may have, so that a restore never writes elsewhere."""


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The contents of a backup. `format` is the format of the backup, `data_format` that of its data."""

    format: int
    data_format: int
    made_at: datetime
    partition_count: int
    files: tuple[ManifestFile, ...]
    starts: tuple[int, ...] = ()
    """With several shards, the first partition of each."""
    key: int = 0
    """With several shards, the key of all hashes."""
    held_ms: float = 0.0
    """With several shards, the longest time for which one held its commits."""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


class ArchiveEntry(NamedTuple):
    name: str
    size: int


def is_part_name(name: str) -> bool:
    return _PART_NAME.fullmatch(name) is not None


def shard_name(number: int) -> str:
    return f"shard-{number}.tar"


def is_shard_name(name: str) -> bool:
    return _SHARD_NAME.fullmatch(name) is not None


def archive_size(manifest: Manifest) -> int:
    """The size of a whole backup, which does not depend on its checksums."""
    sizes = [*(file.bytes for file in manifest.files), len(encode_manifest(manifest)), len(seal(b""))]
    return sum(BLOCK + size + len(padding(size)) for size in sizes) + len(END)


def ending(manifest: Manifest, *, seconds: int) -> bytes:
    """The bytes after the files: the manifest and its checksum, without `END`."""
    content = encode_manifest(manifest)
    small = ((MANIFEST_NAME, content), (SEAL_NAME, seal(content)))
    return b"".join(header(name, len(one), seconds=seconds) + one + padding(len(one)) for name, one in small)


def header(name: str, size: int, *, seconds: int) -> bytes:
    """The tar header of a file that only its owner may read."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, seconds, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def read_header(block: bytes) -> ArchiveEntry | None:
    """The name and size in a header; None unless `header` could have made it."""
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        made = header(info.name, info.size, seconds=int(info.mtime))
    except (tarfile.HeaderError, ValueError):
        return None
    return ArchiveEntry(info.name, info.size) if made == block and info.size >= 0 else None


def padding(size: int) -> bytes:
    return bytes(-size % BLOCK)


def seal(manifest: bytes) -> bytes:
    """The checksum file of a manifest, in the format of `sha256sum`."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST_NAME}\n".encode()


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode_manifest(content: bytes) -> Manifest:
    """Decode a manifest whose checksum was verified. One of a newer format need only have a `format`."""
    try:
        version = json_decoder(_Version).decode(content).format
        if version > JOINT_FORMAT:
            raise FormatUnsupported(
                f"The backup has format {version}; this version of Restante knows formats up to {JOINT_FORMAT}. "
                "Use the version that made it.",
                found=version,
                known=JOINT_FORMAT,
            )
        return json_decoder(Manifest).decode(content)
    except msgspec.MsgspecError as error:
        raise DataDamaged(f"The backup's manifest makes no sense: {error}.") from error


class _Version(msgspec.Struct):
    format: int
