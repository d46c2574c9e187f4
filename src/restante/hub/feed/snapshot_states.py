"""The states of messages at one position of the log, derived from the change records up to it.

Heads show the present states; change records say when each state began. A message has the state of its last record up to
the position, and waits if it has no record. Heads are used only where retention has removed the records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restante.hub.engine.core import Core
from restante.hub.mailboxes.history import STATE_OF
from restante.hub.mailboxes.message_columns import STATES, WAITING, Fates
from restante.model.columns.arrays import Numbers
from restante.model.feed.feed import NumberedRecord
from restante.model.publishing.message import NEVER, State
from restante.model.storage.change import ChangeKind, decode_change
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.head import Apart, Head, apart_of, decode_head, in_ranges, stored_mask
from restante.model.storage.keys import Cabinet, key_cabinet, key_number, number_key

HashRange = tuple[int, int]
"""The first and last hash, inclusive."""

_SET_ASIDE = STATES.index(State.SET_ASIDE)


def records_and_heads(
    core: Core, partition: int, hashes: Sequence[HashRange]
) -> tuple[dict[Cabinet, list[NumberedRecord]], dict[Cabinet, Head]]:
    """The change records of all cabinets with these hashes, each cabinet's in order, and their heads.

    A head may show a message as set aside or moved by a change that came after the records were read. So the records are
    then read again, because only they say when it happened.
    """
    records, heads = records_in(core, partition, hashes), heads_in(core, partition, hashes)
    if any(entry.why in (Apart.SET_ASIDE, Apart.MOVED) for head in heads.values() for entry in head.apart):
        for cabinet, found in records_in(core, partition, hashes).items():
            records[cabinet] = sorted({**dict(found), **dict(records.get(cabinet, ()))}.items())
    return records, heads


def records_in(core: Core, partition: int, hashes: Sequence[HashRange]) -> dict[Cabinet, list[NumberedRecord]]:
    """The change records of all cabinets with these hashes, each cabinet's in order."""
    found: dict[Cabinet, list[NumberedRecord]] = {}
    keys = [key for key, _ in _scan(core, partition, Space.SETTLEMENT, hashes)]
    places = [EntryKey(partition, Space.CHANGE, key[-8:]) for key in keys]
    values = core.store.get_many(places)
    for key, place in zip(keys, places, strict=True):
        if place in values:
            found.setdefault(key_cabinet(key[:-8]), []).append((key_number(place.key), decode_change(values[place])))
    return found


def heads_in(core: Core, partition: int, hashes: Sequence[HashRange]) -> dict[Cabinet, Head]:
    return {key_cabinet(key): decode_head(value) for key, value in _scan(core, partition, Space.HEAD, hashes)}


def _scan(core: Core, partition: int, space: Space, hashes: Sequence[HashRange]) -> list[tuple[bytes, bytes]]:
    found = []
    for first, last in hashes:
        end = number_key(last + 1) if last + 1 < 2**64 else None
        found += core.store.scan(partition, space, start=number_key(first), end=end)
    return found


def states_at(
    position: int, head: Head, records: Sequence[NumberedRecord], numbers: Numbers
) -> tuple[Fates, NDArray[np.bool_]]:
    """The states of a cabinet's ascending numbers, and which of them were visible then and are still stored."""
    fates = Fates.waiting(len(numbers))
    shown, apart = stored_mask(head, numbers), apart_of(head, numbers)
    told = np.zeros(len(numbers), np.bool_)
    for number, record in records:
        inside = in_ranges(record.ranges, numbers) & ~in_ranges(record.left_out, numbers)
        if number <= position:
            fates.state[inside] = STATE_OF.get(record.kind, WAITING)
            fates.collected_at[inside] = record.at if record.kind is ChangeKind.COLLECTED else NEVER
            if record.moved:
                shown &= ~inside
        else:
            # A message that was released later, or is in `record.aside`, was set aside at the position, even if retention has
            # removed the record that set it aside.
            aside = inside if record.kind is ChangeKind.RELEASED else in_ranges(record.aside, numbers)
            fates.state[aside & ~told] = _SET_ASIDE
            if record.moved:
                shown |= inside
        told |= inside
    fates.state[(apart == Apart.SET_ASIDE) & ~told] = _SET_ASIDE
    return fates, shown
