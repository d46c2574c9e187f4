"""Migrating data that an older version wrote to the current format: all of it or nothing.

The deed says which format the data has. Each step changes the data and rewrites the deed in one commit, so data always has
exactly one format. Opening a hub migrates automatically; `restante migrate` does it in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from restante.decoders import packed_decoder
from restante.hub.engine.partitions import (
    FORMAT_VERSION,
    PARTITION_KEY,
    Deed,
    PartitionRow,
    encode_counters,
    load_deed,
    put_deed,
)
from restante.hub.upkeep.older_actions import enter_older_actions
from restante.model.storage.changes import Changes, Space
from restante.ports.store import Store, StoreReader


class Migrated(NamedTuple):
    """The format before and after; both None for a new store, which its first hub sets up."""

    before: int | None
    after: int | None


def format_of(store: StoreReader) -> int | None:
    """The format of the data; None if there is none. Raises `FormatUnsupported` if only a newer version knows it."""
    deed = load_deed(store)
    return None if deed is None else deed.format


def migrate(store: Store) -> Migrated:
    """Migrate the data. If there is anything to do, this takes over the store, as a hub does."""
    deed = load_deed(store)
    if deed is None:
        return Migrated(None, None)
    before = deed.format
    while deed.format < FORMAT_VERSION:
        deed = _stepped(store, deed)
    return Migrated(before, deed.format)


def _stepped(store: Store, deed: Deed) -> Deed:
    changes = Changes(fences={0: store.raise_fences(deed.partition_count)})
    _STEPS[deed.format](store, deed, changes)
    later = msgspec.structs.replace(deed, format=deed.format + 1)
    put_deed(changes, later)
    store.commit(changes)
    return later


MigrateStep = Callable[[Store, Deed, Changes], None]
"""A function that adds the changes from one format to the next to a commit. The caller adds the deed."""


def _to_batches(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """Format 2 has batches: their own rows, and a new field in bundles that older bundles may lack.

    Stored data stays unchanged. Older versions would collect messages without counting them, so they must not open it.
    """


def _to_consignments(store: Store, deed: Deed, changes: Changes) -> None:
    """Format 3 has staged runs, which older versions would take for lost ones, and records how far back the feed reaches.

    It is unknown what retention has removed before, so the feed begins now. Snapshots have everything that is stored.
    """
    fence = changes.fences[0]
    for number in range(deed.partition_count):
        value = store.get(number, Space.PARTITION, PARTITION_KEY)
        if value is not None:
            row = packed_decoder(PartitionRow).decode(value)
            row = msgspec.structs.replace(row, feed_gone=row.visible)
            changes.put(number, Space.PARTITION, PARTITION_KEY, encode_counters(row))
            changes.fences[number] = fence


def _to_text_ids(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """Format 4 has text ids, stored before the properties of their messages.

    Stored data stays unchanged. Older versions would take a text id for damaged properties.
    """


def _to_stored_identities(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """Format 5 stores fingerprints in levels, whose blobs older versions would drop as orphans.

    Stored data stays unchanged. The first opening reads all ids once more; filing then stores the fingerprints.
    """


def _to_delayed(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """Format 6 has delayed messages, in their own rows.

    Stored data stays unchanged. Older versions would never publish delayed messages.
    """


def _to_sources(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """Format 7 has the positions of sources, in their own rows.

    Stored data stays unchanged. Older versions would not update the positions, and so store messages again.
    """


def _to_actions(store: Store, deed: Deed, changes: Changes) -> None:
    """Format 8 has actions: their own rows, and messages that are collected out of turn.

    Waiting messages of the kind `action` become actions, and no longer count as mail. Older versions would deliver them as
    mail, and ignore their rows.
    """
    for number in range(deed.partition_count):
        if enter_older_actions(store, number, changes):
            changes.fences[number] = changes.fences[0]


_STEPS: Mapping[int, MigrateStep] = {
    1: _to_batches,
    2: _to_consignments,
    3: _to_text_ids,
    4: _to_stored_identities,
    5: _to_delayed,
    6: _to_sources,
    7: _to_actions,
}

assert set(_STEPS) == set(range(1, FORMAT_VERSION)), "a step from every older format"
