"""Copying a store into another of any engine: everything unchanged, under the same numbers.

The source is read as of one moment. The target is a new store, whose fences are raised. Its deed first has no valid format, so
no hub opens it; the real deed is written last. So a copy that was cut short is never mistaken for a hub's data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from restante.decoders import packed_decoder
from restante.errors import InvalidRequest
from restante.hub.engine.partitions import DEED_KEY, FORMAT_VERSION, Deed, load_deed, put_deed
from restante.limits import MIB
from restante.model.storage.changes import Changes, EntryKey, Space
from restante.ports.store import Store, StoreReader

LEFT_OUT = frozenset({Space.GROUP_MEMBER})
"""The spaces that are not copied: members of groups must join the hub on the copy again."""
_NO_FORMAT = 0
_FOLDER_NUMBERS = 1 << 48
"""The number of blob numbers for which a folder has file names."""
_PAGE = 1_000
_COMMIT_BYTES = 4 * MIB

Progress = Callable[[int, int], object]
"""Called with the number of partitions copied so far, and of all partitions."""


class CopiedStore(NamedTuple):
    partitions: int
    entries: int
    blobs: int
    bytes: int


def copy(
    source: StoreReader,
    target: Store,
    *,
    owned: range | None = None,
    more: Mapping[EntryKey, bytes] = MappingProxyType({}),
    hidden: AbstractSet[EntryKey] = frozenset(),
    progress: Progress = lambda _done, _all: None,
) -> CopiedStore:
    """Copy all partitions, or those in `owned`, into a new store with the same number of partitions.

    Rows in `hidden` are not copied. Of the rows in `more`, those of the copied partitions are added.
    """
    deed = load_deed(source)
    if deed is None:
        raise InvalidRequest("There is nothing to copy: no hub has been opened on the source.")
    if deed.format != FORMAT_VERSION:
        raise InvalidRequest(
            f"The source has format {deed.format}. Bring it to {FORMAT_VERSION} with `restante migrate`."
        )
    _require_new(source, target, deed)
    fence = target.raise_fences(deed.partition_count)
    _found(target, msgspec.structs.replace(deed, format=_NO_FORMAT), fence)
    entries = blobs = size = 0
    for partition in range(deed.partition_count) if owned is None else owned:
        for changes in _commits(source, partition, more):
            for hidden_entry in changes.entries.keys() & hidden:
                del changes.entries[hidden_entry]
            entries += len(changes.entries)
            blobs += len(changes.blobs)
            size += _bytes_of(changes)
            changes.fences[partition] = fence
            target.commit(changes)
        progress(partition + 1, deed.partition_count)
    _found(target, deed, fence)
    return CopiedStore(deed.partition_count, entries, blobs, size)


def _require_new(source: StoreReader, target: Store, deed: Deed) -> None:
    partitions, made = range(deed.partition_count), _partitions_of(target)
    if made not in (None, deed.partition_count):
        raise InvalidRequest(
            f"The target was made with {made} partitions, and the source has {deed.partition_count}. A copy keeps "
            "the partitions: sequence numbers and positions count inside of them. Name a store that nobody has made yet.",
            partition_count=deed.partition_count,
        )
    if any(target.scan(partition, space, limit=1) for partition in partitions for space in Space):
        raise InvalidRequest("The target is not new: something is stored in it. Name a new folder, or a new schema.")
    last = max((blob.number for partition in partitions for blob in source.blobs(partition)[-1:]), default=0)
    if not target.shared and last >= _FOLDER_NUMBERS:
        raise InvalidRequest(
            "The source has changed hands too often: a folder cannot name its blobs. Use another database."
        )


def _partitions_of(target: Store) -> int | None:
    """The number of partitions in the store's deed, which a copy that was cut short may have left; None without a deed."""
    value = target.get(0, Space.META, DEED_KEY)
    return None if value is None else packed_decoder(Deed).decode(value).partition_count


def _found(target: Store, deed: Deed, fence: int) -> None:
    changes = Changes(fences={0: fence})
    put_deed(changes, deed)
    target.commit(changes)


def _commits(source: StoreReader, partition: int, more: Mapping[EntryKey, bytes]) -> Iterator[Changes]:
    """A partition as commits of bounded size: blobs first, then the rows that name them."""
    changes, size = Changes(), 0
    for blob in source.blobs(partition):
        content = source.read_blob(blob, 0, source.blob_size(blob))
        changes.blobs.append((blob, [content]))
        size += len(content)
        if size >= _COMMIT_BYTES:
            yield changes
            changes, size = Changes(), 0
    yield changes
    for space in sorted(set(Space) - LEFT_OUT):
        yield from _rows(source, partition, space)
    yield Changes(entries={entry: value for entry, value in more.items() if entry.partition == partition})


def _rows(source: StoreReader, partition: int, space: Space) -> Iterator[Changes]:
    start = b""
    while page := source.scan(partition, space, start=start, limit=_PAGE):
        start = page[-1][0] + b"\0"
        changes = Changes()
        for key, value in page:
            if (space, key) != (Space.META, DEED_KEY):
                changes.put(partition, space, key, value)
        yield changes


def _bytes_of(changes: Changes) -> int:
    return sum(len(key.key) + len(value or b"") for key, value in changes.entries.items()) + sum(
        len(part) for _, parts in changes.blobs for part in parts
    )
