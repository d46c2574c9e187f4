"""Data that an older version wrote, brought to the format of this one: all of it, or nothing of it.

The deed says which format the data has. A step changes what it must and rewrites the deed in one commit, so data is
always wholly of one format. Opening a hub does it by itself; `restante migrate` does it ahead.
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
    """The format before and after. Neither is there in a store that nobody has founded: its first hub does that."""

    before: int | None
    after: int | None


def format_of(store: StoreReader) -> int | None:
    """The format of the data, or None if there is none; `FormatUnsupported` if only a newer version knows it."""
    deed = load_deed(store)
    return None if deed is None else deed.format


def migrate(store: Store) -> Migrated:
    """Bring the data forward. It takes the store for it, as a hub does, if there is something to do."""
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


Step = Callable[[Store, Deed, Changes], None]
"""Adds to a commit what makes data of one format that of the next; the deed comes by itself."""


def _to_batches(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """Format 2 has batches: rows of their own, and a field in bundles that older ones do without.

    What is stored stays as it is. Versions that know nothing of batches would collect and not count, so they must not
    open the data any more.
    """


def _to_consignments(store: Store, deed: Deed, changes: Changes) -> None:
    """Format 3 has staged runs, which older versions would take for lost ones, and knows how far back the feed reaches.

    What retention took before is not known: the feed begins with what comes now. A snapshot has all that came before.
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
    """Format 4 has ids that are texts, before the properties of their messages.

    What is stored stays as it is. Older versions would take such a text for damaged properties.
    """


def _to_stored_identities(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """Format 5 stores the fingerprints of identities in levels, which older versions would drop as nobody's.

    What is stored stays as it is. The first opening reads all ids once more; filing then stores them.
    """


def _to_delayed(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """Format 6 has delayed messages, in rows of their own.

    What is stored stays as it is. Older versions would never publish what is kept aside.
    """


def _to_sources(_store: Store, _deed: Deed, _changes: Changes) -> None:
    """The next format has the positions of sources, in rows of their own.

    What is stored stays as it is. Older versions would not keep the positions, and store again what was stored.
    """


def _to_actions(store: Store, deed: Deed, changes: Changes) -> None:
    """Format 8 has actions: rows of their own, and messages that were collected before earlier ones.

    Messages of the kind `action` that wait become actions: they count as mail no longer. Older versions would hand them
    out as mail, and forget their rows.
    """
    for number in range(deed.partition_count):
        if enter_older_actions(store, number, changes):
            changes.fences[number] = changes.fences[0]


_STEPS: Mapping[int, Step] = {
    1: _to_batches,
    2: _to_consignments,
    3: _to_text_ids,
    4: _to_stored_identities,
    5: _to_delayed,
    6: _to_sources,
    7: _to_actions,
}

assert set(_STEPS) == set(range(1, FORMAT_VERSION)), "a step from every older format"
