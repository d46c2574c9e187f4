"""Migrating messages of the kind `action` that an older version, without actions, published as mail.

They are no longer mail, so waiting ones no longer count as such, and they get the rows of actions.
"""

from __future__ import annotations

import msgspec
import numpy as np

from restante.errors import DataDamaged
from restante.hub.engine.fronts import Fronts
from restante.hub.engine.partitions import PARTITION_KEY, encode_counters, load_partition
from restante.hub.engine.row_reads import read_piece
from restante.model.actions.action_kind import ACTION_KIND, name_and_text
from restante.model.actions.action_row import ActionRow, action_id_key, action_key, encode_action
from restante.model.storage.changes import Changes, Space
from restante.model.storage.head import EMPTY_HEAD, Apart, apart_of, decode_head, waiting_mask
from restante.model.storage.keys import Cabinet, cabinet_key, number_key
from restante.model.storage.run import StoredSegment
from restante.ports.store import Store


def enter_older_actions(store: Store, partition: int, changes: Changes) -> int:
    """Add the changes that make such messages of a partition actions; return how many of them wait."""
    memory = load_partition(store, store, partition, Fronts())
    segments = [stored for run in memory.runs for stored in run.segments]
    count = sum(_enter(store, partition, stored, changes) for stored in segments)
    if count:
        counters = msgspec.structs.replace(memory.counters, waiting=memory.counters.waiting - count)
        changes.put(partition, Space.PARTITION, PARTITION_KEY, encode_counters(counters))
    return count


def _enter(store: Store, partition: int, stored: StoredSegment, changes: Changes) -> int:
    segment = stored.segment
    if ACTION_KIND not in segment.names.kinds:
        return 0
    code = segment.names.kinds.index(ACTION_KIND)
    return sum(
        _enter_drawer(store, partition, stored, drawer, changes)
        for drawer in np.flatnonzero(segment.drawers["kind"] == code).tolist()
    )


def _enter_drawer(store: Store, partition: int, stored: StoredSegment, drawer: int, changes: Changes) -> int:
    """Add the rows for messages of one drawer that wait or are set aside; return how many wait. Damaged drawers are skipped."""
    line, recipient_hash = stored.segment.drawers[drawer], int(stored.segment.recipient_hash[drawer])
    cabinet = Cabinet(*stored.segment.cabinet(drawer))
    value = store.get(partition, Space.HEAD, cabinet_key(recipient_hash, cabinet))
    head = EMPTY_HEAD if value is None else decode_head(value)
    try:
        piece = read_piece(store, stored, int(line["row"]), int(line["row"]) + int(line["count"]))
    except DataDamaged:
        return 0
    stored_properties, waits = piece.properties_column(), waiting_mask(head, piece.numbers)
    for row in np.flatnonzero(waits | (apart_of(head, piece.numbers) == Apart.SET_ASIDE)).tolist():
        record, number = piece.records[row], int(piece.numbers[row])
        name, text = name_and_text(bytes(stored_properties[row].as_py()))
        own_id = record["id"].tobytes()
        action = ActionRow(cabinet.recipient, cabinet.origin, own_id, text, name, int(record["published_at"]))
        changes.put(partition, Space.ACTION, action_key(recipient_hash, number), encode_action(action))
        changes.put(partition, Space.ACTION_ID, action_id_key(own_id, recipient_hash), number_key(number))
    return int(waits.sum())
