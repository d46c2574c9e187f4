"""History: a recipient's messages by sequence number, in every state. Reading it has no side effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante import limits
from restante.calls.mailboxes import ReadHistory
from restante.errors import InvalidRequest, MessageErased, MessageUnknown
from restante.hub.engine.core import Core, MailboxAddress, is_text
from restante.hub.engine.identity_reads import find as find_numbers
from restante.hub.engine.row_places import Lost, Questions, locate
from restante.hub.mailboxes.mailbox import Chunk, Opened, chunks, look
from restante.hub.mailboxes.message_columns import STATES, WAITING, Fates, chunk_table
from restante.model.columns.arrays import Numbers
from restante.model.columns.arrow import column_of
from restante.model.columns.hashing import fingerprints
from restante.model.columns.text_ids import id_bytes, is_id
from restante.model.mailboxes.list_pages import page_size
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA, to_messages
from restante.model.publishing.message import NEVER, Message, State
from restante.model.removal.erasure import digests, second_hashes
from restante.model.storage.change import ChangeKind, ChangeRecord, decode_change
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.head import EMPTY_HEAD, Apart, Head, apart_of, in_ranges, stored_mask
from restante.model.storage.keys import Cabinet, after_prefix, cabinet_key, key_number, number_key

STATE_OF = {
    ChangeKind.COLLECTED: STATES.index(State.COLLECTED),
    ChangeKind.EXPIRED: STATES.index(State.EXPIRED),
    ChangeKind.WITHDRAWN: STATES.index(State.WITHDRAWN),
    ChangeKind.SET_ASIDE: STATES.index(State.SET_ASIDE),
    ChangeKind.RELEASED: WAITING,
}
_APART_STATES = {
    Apart.EXPIRED: STATES.index(State.EXPIRED),
    Apart.WITHDRAWN: STATES.index(State.WITHDRAWN),
    Apart.SET_ASIDE: STATES.index(State.SET_ASIDE),
}
_EXPIRED = STATES.index(State.EXPIRED)
_COLLECTED = STATES.index(State.COLLECTED)


def records_of(core: Core, address: MailboxAddress, cabinet: Cabinet) -> list[tuple[int, ChangeRecord]]:
    """The change records of a cabinet, in order, with their numbers."""
    prefix = cabinet_key(address.hash, cabinet)
    keys = core.store.scan(address.partition, Space.SETTLEMENT, start=prefix, end=after_prefix(prefix))
    numbers = [key_number(key[len(prefix) :]) for key, _ in keys if len(key) == len(prefix) + 8]
    places = [EntryKey(address.partition, Space.CHANGE, number_key(number)) for number in numbers]
    found = core.store.get_many(places)
    return [(key_number(place.key), decode_change(found[place])) for place in places if place in found]


def fates_of(
    head: Head, records: Sequence[tuple[int, ChangeRecord]], numbers: Numbers, expires_at: NDArray[np.int64], now: int
) -> tuple[Fates, NDArray[np.bool_]]:
    """The fates of a cabinet's neighbouring rows, and which of them history still shows."""
    fates = Fates.waiting(len(numbers))
    shown = stored_mask(head, numbers)
    fates.state[numbers <= head.head] = _COLLECTED
    for _, record in records:
        inside = in_ranges(record.ranges, numbers) & ~in_ranges(record.left_out, numbers)
        fates.state[inside] = STATE_OF.get(record.kind, WAITING)
        fates.collected_at[inside] = record.at if record.kind is ChangeKind.COLLECTED else NEVER
        if record.moved:
            shown &= ~inside
    apart = apart_of(head, numbers)
    for why, state in _APART_STATES.items():
        fates.state[apart == why] = state
        fates.collected_at[apart == why] = NEVER
    mark = head.open
    held = (numbers >= mark.first) & (numbers <= mark.last) if mark is not None else np.zeros(len(numbers), np.bool_)
    fates.state[(fates.state == WAITING) & (expires_at <= now) & ~held] = _EXPIRED
    return fates, shown


def history_table(core: Core, address: MailboxAddress, call: ReadHistory) -> tuple[pa.Table, int | None]:
    """A page of messages between `after` and `before` as columns, ascending, and the number from which the next page goes on."""
    size = page_size(call.limit)
    backwards = call.before is not None and call.after is None
    low, high = call.after or 0, call.before if call.before is not None else 2**63 - 1
    with core.pins.reading():
        found = _Rows(call.state, without_data=call.without_data)
        table = _page(core, look(core, address), (low, high), found, size + 1, backwards=backwards)
    kept = _within_bytes(table, size, backwards=backwards)
    if kept.num_rows == table.num_rows:
        return kept, None
    return kept, int(kept["sequence_number"][0 if backwards else -1].as_py())


def _within_bytes(table: pa.Table, size: int, *, backwards: bool) -> pa.Table:
    """The first `size` messages, or fewer if their data would exceed the bound, but at least one."""
    lengths = pc.fill_null(pc.binary_length(table["data"]), 0).to_numpy()
    total = np.cumsum(lengths[::-1] if backwards else lengths)
    fitting = min(size, max(1, int(np.searchsorted(total, limits.HISTORY_BYTES_MAX, side="right"))))
    return table.slice(max(0, table.num_rows - fitting)) if backwards else table.slice(0, fitting)


def _page(core: Core, opened: Opened, span: tuple[int, int], found: _Rows, size: int, *, backwards: bool) -> pa.Table:
    """The first (backwards: the last) `size` messages inside the span."""
    low, high = span
    places = [
        (cabinet, place)
        for cabinet, own in opened.places.items()
        for place in own
        if place.last > low and place.first < high
    ]
    places.sort(key=lambda entry: -entry[1].last if backwards else entry[1].first)
    now, records, index = core.clock(), _Records(core, opened), 0
    while index < len(places):
        cabinet, place = places[index]
        index += 1
        for chunk in chunks(core, [place]):
            fates, shown = fates_of(
                opened.head(cabinet), records.of(cabinet), chunk.numbers, chunk.records["expires_at"], now
            )
            found.add(cabinet, chunk, fates, shown & (chunk.numbers > low) & (chunk.numbers < high))
        border = places[index][1] if index < len(places) else None
        if border is not None and found.complete(border.last if backwards else border.first, backwards) >= size:
            break
    return found.table(core, size, backwards=backwards)


class _Records:
    """The change records of cabinets, read on first use."""

    def __init__(self, core: Core, opened: Opened) -> None:
        self._core = core
        self._address = opened.address
        self._known: dict[Cabinet, list[tuple[int, ChangeRecord]]] = {}

    def of(self, cabinet: Cabinet) -> list[tuple[int, ChangeRecord]]:
        if cabinet not in self._known:
            self._known[cabinet] = records_of(self._core, self._address, cabinet)
        return self._known[cabinet]


class _Rows:
    """The rows found for a page."""

    def __init__(self, state: State | None, *, without_data: bool) -> None:
        self._without_data = without_data
        self._state = None if state is None else STATES.index(state)
        self._parts: list[tuple[Cabinet, Chunk, Fates, NDArray[np.int64]]] = []

    def add(self, cabinet: Cabinet, chunk: Chunk, fates: Fates, wanted: NDArray[np.bool_]) -> None:
        if self._state is not None:
            wanted = wanted & (fates.state == self._state)
        rows = np.flatnonzero(wanted)
        if len(rows):
            self._parts.append((cabinet, chunk, fates, rows))

    def complete(self, border: int, backwards: bool) -> int:  # noqa: FBT001
        """How many rows come before everything that has not been read yet."""
        numbers = self._numbers()
        return int((numbers > border).sum() if backwards else (numbers < border).sum())

    def _numbers(self) -> Numbers:
        parts = [chunk.numbers[rows] for _, chunk, _, rows in self._parts]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def table(self, core: Core, size: int, *, backwards: bool) -> pa.Table:
        numbers = np.sort(self._numbers())
        kept = numbers[-size:] if backwards else numbers[:size]
        if not len(kept):
            return MESSAGE_SCHEMA.empty_table()
        tables = []
        for cabinet, chunk, fates, rows in self._parts:
            own = chunk.numbers[rows]
            chosen = rows[(own >= kept[0]) & (own <= kept[-1])]
            if len(chosen):
                tables.append(_rows_table(core, cabinet, chunk, fates, chosen, without_data=self._without_data))
        joined = pa.concat_tables(tables).unify_dictionaries()
        return joined.take(pc.sort_indices(joined, sort_keys=[("sequence_number", "ascending")]))


def _rows_table(
    core: Core, cabinet: Cabinet, chunk: Chunk, fates: Fates, rows: NDArray[np.int64], *, without_data: bool
) -> pa.Table:
    """Some rows of a chunk. The rows between the first and the last are read too."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    span = chunk.part(first, last)
    table = chunk_table(core, cabinet, span, fates.take(np.arange(first, last)), without_data=without_data)
    return table if len(rows) == last - first else table.take(column_of(rows - first))


@dataclass(frozen=True, slots=True)
class Located:
    """One stored message."""

    cabinet: Cabinet
    chunk: Chunk
    number: int
    fates: Fates
    head: Head
    erasures: int
    """The number of erasures in the partition at the time."""

    @property
    def state(self) -> State:
        return STATES[int(self.fates.state[0])]


def find(core: Core, address: MailboxAddress, message_id: str) -> Message:
    return to_messages(find_table(core, address, message_id))[0]


def find_table(core: Core, address: MailboxAddress, message_id: str) -> pa.Table:
    """One message as a table of one row."""
    with core.pins.reading():
        found = find_row(core, address, message_id)
        return chunk_table(core, found.cabinet, found.chunk, found.fates)


def find_row(core: Core, address: MailboxAddress, message_id: str) -> Located:
    """The stored message with this id, in any state; the latest if there are several. Call it inside `core.pins.reading()`."""
    words = np.frombuffer(_id_bytes(message_id), np.uint64).reshape(1, 2)
    hashes = np.array([address.hash], np.uint64)
    memory = core.partitions[address.partition]
    erasures = memory.counters.erasures
    heads = core.heads(address)
    _, numbers = find_numbers(core, memory, fingerprints(hashes, words))
    lost: Lost | None = None
    latest: Located | None = None
    for found in locate(core.store, memory.runs, Questions(hashes, np.zeros(len(numbers), np.int64), numbers)):
        if isinstance(found, Lost):
            lost = found
            continue
        for index in np.flatnonzero((found.records["id"] == words[0]).all(axis=1)).tolist():
            cabinet = Cabinet(*found.stored.segment.cabinet(int(found.drawer[index])))
            chunk = Chunk.of(found.stored, int(found.row[index]), found.records[index : index + 1])
            located = _located(core, address, cabinet, chunk, heads.get(cabinet, EMPTY_HEAD), erasures)
            if located is not None and cabinet.recipient == address.recipient:
                latest = located
    if latest is not None:
        return latest
    if lost is not None:
        raise lost.error
    if len(memory.erased) and memory.erased.contains(_digest(core, address, words))[0]:
        raise MessageErased(f"Message {message_id} of {address.recipient} was erased for good.")
    raise MessageUnknown(f"{address.recipient} has no message {message_id}.", id=message_id)


def _id_bytes(message_id: str) -> bytes:
    """The stored form of a message id, which is a UUID or a text of the sender's."""
    if not (is_text(message_id) and is_id(message_id)):
        raise InvalidRequest(
            f"A message id is text of 1 to {limits.ID_CHARACTERS_MAX} characters, not blank, not '.' or '..', without "
            f"control characters, not {message_id!r:.100}."
        )
    return id_bytes(message_id)


def _digest(core: Core, address: MailboxAddress, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    second = second_hashes([address.recipient], core.deed.key)
    return digests(np.array([address.hash], np.uint64), second, words)


def _located(
    core: Core, address: MailboxAddress, cabinet: Cabinet, chunk: Chunk, head: Head, erasures: int
) -> Located | None:
    records = records_of(core, address, cabinet)
    fates, shown = fates_of(head, records, chunk.numbers, chunk.records["expires_at"], core.clock())
    return Located(cabinet, chunk, int(chunk.numbers[0]), fates, head, erasures) if shown[0] else None
