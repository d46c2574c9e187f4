"""The doctor on batches bound to messages: stretches that can be, and counts that agree with the mailboxes.

The number of messages that were ever bound to a batch is unknown once some are past their retention. The number of pending
ones is known: the messages in its stretches that wait or are set aside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import entries, examine_entries
from restante.hub.doctor.doctor_shards import is_part_deleted
from restante.hub.engine.core import uuid_text
from restante.model.batches.batch import Counts, decode_batch, decode_counts
from restante.model.batches.bound_stretches import NOTHING_BOUND, BindingRole, BoundStretch, load_bindings
from restante.model.mailboxes.bundle import decode_bundle
from restante.model.storage.changes import Space
from restante.model.storage.head import EMPTY_HEAD, Apart, apart_of, decode_head, waiting_mask
from restante.model.storage.keys import Cabinet, bundle_key, cabinet_key, key_number
from restante.model.storage.partition import partition_of
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.run import StoredSegment, drawer_of_rows

_KEY_BYTES = 25
_SHOWN_MAX = 20


class BoundBatches:
    """The batches of a partition: read from its rows, then counted segment by segment, then compared."""

    def __init__(self) -> None:
        self._known = NOTHING_BOUND
        self._counts: dict[bytes, Counts] = {}
        self._pending: dict[bytes, int] = {}
        self._duplicates: dict[bytes, int] = {}
        self._there: dict[bytes, bool] = {}
        self._held: dict[bytes, dict[bytes, tuple[int, int]]] = {}
        """The shares of batches in the messages of each open bundle, by the key of the bundle."""

    def read(self, case: Case) -> None:
        sound: list[tuple[bytes, bytes]] = []

        def binding(key: bytes, value: bytes) -> None:
            _check_row(case, key, value)
            if not self._is_there(case, key[9:]) and not is_part_deleted(case, key[9:]):
                case.problem(f"binding from number {key_number(key)}", f"There is no batch {uuid_text(key[9:])}.")
            sound.append((key, value))

        examine_entries(case, Space.BATCH_BINDING, "binding", binding)
        for key, value in entries(case, Space.BATCH_COUNT):
            # `examine_batches` reports counts that cannot be read.
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                self._counts[key] = decode_counts(value)
        _check_apart(case, sound)
        self._known = load_bindings(sound)

    def _is_there(self, case: Case, batch: bytes) -> bool:
        """Whether a batch has a row. One that was deleted keeps it until all else of it is gone."""
        if batch not in self._there:
            home = partition_of(uuid_text(batch), case.deed.partition_count)
            place = (home, Space.BATCH) if case.knows(home) else (case.partition, Space.BATCH_PART)
            self._there[batch] = case.store.get(*place, batch) is not None
        return self._there[batch]

    def add(self, case: Case, stored: StoredSegment, records: RecordArray) -> None:
        """Count the rows of a segment that wait, or are set aside."""
        if not self._known:
            return
        numbers = records["place"].astype(np.int64) + stored.base
        ascending = np.sort(numbers)
        if not self._known.shares(ascending):
            return
        mask = np.zeros(len(numbers), np.bool_)
        for drawer in _drawers(case, stored, numbers):
            mask[drawer.rows] = drawer.pending
            if drawer.bundle:
                self._hold(drawer.bundle, numbers[drawer.rows][drawer.held])
        for batch, items, duplicates in self._known.shares(np.sort(numbers[mask])):
            self._pending[batch] = self._pending.get(batch, 0) + items
            self._duplicates[batch] = self._duplicates.get(batch, 0) + duplicates

    def _hold(self, bundle: bytes, numbers: NDArray[np.int64]) -> None:
        held = self._held.setdefault(bundle, {})
        for batch, items, duplicates in self._known.shares(numbers):
            before = held.get(batch, (0, 0))
            held[batch] = before[0] + items, before[1] + duplicates

    def compare(self, case: Case) -> None:
        """Hold what was counted against the rows of counts."""
        for batch in sorted(self._counts.keys() | self._pending.keys()):
            if self._is_deleted(case, batch):
                continue
            said = self._counts.get(batch, Counts())
            found = self._pending.get(batch, 0), self._duplicates.get(batch, 0)
            for detail in _differences(said, *found):
                case.problem(f"counts of batch {uuid_text(batch)}", detail)
        for bundle, held in self._held.items():
            self._compare_bundle(case, bundle, held)

    def _compare_bundle(self, case: Case, bundle: bytes, held: dict[bytes, tuple[int, int]]) -> None:
        """Compare what an open bundle says of batches with what its dequeue will count."""
        value = case.store.get(case.partition, Space.BUNDLE, bundle)
        if value is None:
            return  # told of where heads and bundles are examined
        said = {batch: (items, duplicates) for batch, items, duplicates in decode_bundle(value).batches}
        for batch in sorted(said.keys() | held.keys()):
            own, found = said.get(batch, (0, 0)), held.get(batch, (0, 0))
            if own != found and not self._is_deleted(case, batch):
                detail = (
                    f"Of batch {uuid_text(batch)} it has {found[0]} items and {found[1]} duplicates, but says {own}."
                )
                case.problem(f"open bundle {uuid_text(bundle[8:24])}", detail)

    def _is_deleted(self, case: Case, batch: bytes) -> bool:
        """Whether a batch is being deleted: then nothing of it is counted any more."""
        home = partition_of(uuid_text(batch), case.deed.partition_count)
        if not case.knows(home):
            return is_part_deleted(case, batch)
        value = case.store.get(home, Space.BATCH, batch)
        return value is None or bool(decode_batch(value).deleted_at)


def _differences(said: Counts, pending: int, duplicates: int) -> Iterator[str]:
    if min(said.added, said.collected, said.expired, said.withdrawn, said.duplicates) < 0:
        yield f"They cannot be: {said}."
    if said.bound_pending != pending:
        yield f"{pending} messages bound to it wait or are set aside; the counts say {said.bound_pending}."
    if said.duplicates_waiting != duplicates:
        yield f"It has duplicates of {duplicates} messages that wait; the counts say {said.duplicates_waiting}."


def _check_row(case: Case, key: bytes, value: bytes) -> None:
    if len(key) != _KEY_BYTES or len(value) != 8 or key[8] not in tuple(BindingRole):
        raise DataDamaged("It binds nothing to a batch: its key or its value has another form.")
    first, last = key_number(key), key_number(value)
    if not 1 <= first <= last <= case.counters.visible:
        raise DataDamaged(f"Its numbers {first} to {last} are not within 1 to {case.counters.visible}.")


def _check_apart(case: Case, rows: Sequence[tuple[bytes, bytes]]) -> None:
    """Check that no message is an item of two batches, and none is twice among the duplicates of one."""
    stretches = [(key[8], BoundStretch(key_number(key), key_number(value), key[9:])) for key, value in rows]
    items = sorted(stretch for role, stretch in stretches if role == BindingRole.ITEM)
    duplicates = sorted((s for role, s in stretches if role == BindingRole.DUPLICATE), key=lambda s: (s.batch, s.first))
    overlaps = [pair for pair in itertools.pairwise(items) if pair[0].last >= pair[1].first]
    twice = [pair for pair in itertools.pairwise(duplicates) if pair[0].batch == pair[1].batch]
    overlaps += [pair for pair in twice if pair[0].last >= pair[1].first]
    for one, other in overlaps[:_SHOWN_MAX]:
        detail = f"Numbers {one.first} to {one.last} and {other.first} to {other.last} overlap."
        case.problem(f"bindings to batches {uuid_text(one.batch)} and {uuid_text(other.batch)}", detail)


@dataclass(frozen=True, slots=True)
class _Drawer:
    """Rows of one cabinet: which of them wait or are set aside, and which lie in its open bundle, if it has one."""

    rows: slice
    pending: NDArray[np.bool_]
    bundle: bytes
    """The key of the open bundle, or nothing."""
    held: NDArray[np.bool_]


def _drawers(case: Case, stored: StoredSegment, numbers: NDArray[np.int64]) -> Iterator[_Drawer]:
    """The drawers of a segment, by the heads of their cabinets."""
    drawer = drawer_of_rows(stored)
    borders = np.flatnonzero(np.diff(drawer, prepend=-2)).tolist()
    for start, stop in itertools.pairwise([*borders, len(drawer)]):
        owner = int(drawer[start])
        recipient_hash, cabinet = int(stored.segment.recipient_hash[owner]), Cabinet(*stored.segment.cabinet(owner))
        value = case.store.get(case.partition, Space.HEAD, cabinet_key(recipient_hash, cabinet))
        head = EMPTY_HEAD if value is None else decode_head(value)
        own, mark = numbers[start:stop], head.open
        waits = waiting_mask(head, own)
        pending = waits | (apart_of(head, own) == Apart.SET_ASIDE)
        if mark is None:
            yield _Drawer(slice(start, stop), pending, b"", waits)
        else:
            bundle = bundle_key(recipient_hash, cabinet.recipient, mark.bundle_id)
            yield _Drawer(slice(start, stop), pending, bundle, waits & (own >= mark.first) & (own <= mark.last))
