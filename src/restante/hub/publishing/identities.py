"""`judge` gives each arriving message its verdict: new, a duplicate, a conflict, erased, or damaged.

A message is identified by recipient and id. Judging has two steps, in this order:

1. `_judge_stored` compares arrivals with the messages that their partition stores. `find` gives the numbers of messages
   with the same fingerprint, `locate` their rows, and `_compare` decides. Fingerprints only narrow the search, because
   they collide: recipient, id and content decide.
2. `_judge_twins` compares the arrivals that are still new with each other, request by request in the order of the commit.
   The messages of a refused request are not stored, so later requests must not become duplicates of them.

What must stay true: a publish never stores an identity that is recognised as stored, and a verdict is right for the state at
the commit. A large send is judged ahead of its commit, in its caller's thread; so `Judged` remembers the counters it saw
(`Seen`), and the commit uses the verdict only if `holds` finds nothing that could change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.hub.engine.core import Core
from restante.hub.engine.damage import sound_data
from restante.hub.engine.identity_reads import find, has_newer
from restante.hub.engine.partitions import Partition, PartitionRow
from restante.hub.engine.row_places import FoundRows, Lost, Questions, locate
from restante.hub.engine.row_reads import read_piece
from restante.model.actions.action_columns import action_rows_of
from restante.model.actions.action_kind import name_and_text
from restante.model.columns.arrays import Mask
from restante.model.columns.arrow import Column, column_of, numbers_of, strings_of
from restante.model.columns.texts import Texts
from restante.model.publishing.arrival import Arrivals, Grouped, group
from restante.model.publishing.message import MessageColumns
from restante.model.removal.erasure import digests, second_hashes
from restante.model.storage.changes import Space
from restante.model.storage.head import EMPTY_HEAD, decode_head, stored_mask
from restante.model.storage.keys import Cabinet, cabinet_key
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.rows import BUNDLEABLE, INLINE

RowNumbers = NDArray[np.int64]


class Verdict(IntEnum):
    NEW = 0
    DUPLICATE = 1
    CONFLICT = 2
    ERASED = 3
    DAMAGED = 4
    """The stored message with the same fingerprint cannot be read, so the two cannot be compared."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The counters of a partition when arrivals were judged against it."""

    counters: PartitionRow

    @staticmethod
    def of(partition: Partition) -> Seen:
        """Call this before reading `fingerprints`: then every message that they lack has a number above `visible`."""
        return Seen(partition.counters)

    @property
    def visible(self) -> int:
        return self.counters.visible

    def has_lost(self, counters: PartitionRow) -> bool:
        """Whether the partition has forgotten or erased messages since."""
        return (self.counters.forgotten, self.counters.erasures) != (counters.forgotten, counters.erasures)


@dataclass(frozen=True, slots=True)
class Judged:
    """Arrivals with the verdict on each, and the state that they were judged on."""

    arrivals: Arrivals
    grouped: Grouped
    verdict: NDArray[np.int8]
    original: RowNumbers
    """For each duplicate, the number of the stored message that it repeats; if it repeats an arrival, -1 - row of that one."""
    seen: dict[int, Seen]


def judge(core: Core, arrivals: Arrivals, start: RowNumbers, accepted: Mask, grouped: Grouped | None = None) -> Judged:
    """Judge each arrival. Request i has rows start[i] to start[i + 1]; requests are judged in order.

    A request with a conflict, an erased or a damaged message is refused whole, so later requests are not compared with its
    messages. `accepted` is False for all rows of a request that was refused before. Pass `grouped` if it is known already.
    """
    verdict, original = np.zeros(len(arrivals), np.int8), np.zeros(len(arrivals), np.int64)
    grouped = grouped or group(arrivals)
    seen = {partition: Seen.of(core.partitions[partition]) for partition in grouped.partitions}
    for partition, rows in grouped.parts():
        _judge_stored(core, arrivals, partition, rows, verdict, original)
    _judge_twins(arrivals, grouped, start, accepted, verdict, original)
    return Judged(arrivals, grouped, verdict, original, seen)


def holds(core: Core, judged: Judged) -> bool:
    """Whether the verdicts still hold: no message with one of these fingerprints was stored since, and none was removed."""
    for partition, rows in judged.grouped.parts():
        memory, seen = core.partitions[partition], judged.seen[partition]
        if seen.has_lost(memory.counters):
            return False
        if has_newer(core, memory, judged.arrivals.fingerprint[rows], beyond=seen.visible):
            return False
    return True


def disjoint(judged: Sequence[Judged]) -> bool:
    """Whether no fingerprint occurs in two of these, so that they need not be compared with each other."""
    prints = [np.unique(one.arrivals.fingerprint) for one in judged]
    together = np.sort(np.concatenate(prints))
    return not bool((together[1:] == together[:-1]).any())


def _judge_stored(
    core: Core,
    arrivals: Arrivals,
    partition: int,
    rows: RowNumbers,
    verdict: NDArray[np.int8],
    original: RowNumbers,
) -> None:
    """Judge the rows of one partition against what it stores."""
    memory = core.partitions[partition]
    if len(memory.erased):
        verdict[_erased(core, arrivals, memory, rows)] = Verdict.ERASED
    index, number = find(core, memory, arrivals.fingerprint[rows])
    if not len(index):
        return
    asked = rows[index]
    code = arrivals.columns.recipient.codes[asked].astype(np.int64)
    for found in locate(core.store, memory.runs, Questions(arrivals.recipient_hash, code, number)):
        if isinstance(found, Lost):
            lost = asked[found.asked]
            verdict[lost[verdict[lost] == Verdict.NEW]] = Verdict.DAMAGED
        else:
            _compare(core, arrivals.columns, partition, asked[found.asked], found, verdict, original)


def _erased(core: Core, arrivals: Arrivals, memory: Partition, rows: RowNumbers) -> RowNumbers:
    """The rows whose identity was erased."""
    rows = rows[memory.erased.may_contain(arrivals.fingerprint[rows])]
    recipient = arrivals.columns.recipient
    code, own = np.unique(recipient.codes[rows], return_inverse=True)
    second = second_hashes(strings_of(recipient.values.take(column_of(code))), core.deed.key)
    asked = digests(arrivals.recipient_hash[code][own], second[own], arrivals.columns.id[rows])
    return rows[memory.erased.contains(asked)]


def _compare(
    core: Core,
    columns: MessageColumns,
    partition: int,
    asked: RowNumbers,
    found: FoundRows,
    verdict: NDArray[np.int8],
    original: RowNumbers,
) -> None:
    """Compare arrivals in full with the stored rows that have the same fingerprints.

    Most hits are duplicates; a few are fingerprint collisions. Recipients are compared as codes of the arrivals'
    dictionary, so that each distinct name is compared only once.
    """
    recipient = _codes_in(columns.recipient, found.stored.segment.recipients)[found.drawer]
    same = recipient == columns.recipient.codes[asked]
    same &= (found.records["id"] == columns.id[asked]).all(axis=1)
    same &= _recognised(core, columns, asked, found)
    same &= _kept(core, partition, found, same)
    if not same.any():
        return
    found, asked = found.only(same), asked[same]
    verdict[asked] = _content_verdicts(core, columns, asked, found)
    # A message that was released to the end of its mailbox is stored twice. Its higher number is the one that counts.
    np.maximum.at(original, asked, found.numbers)


def _recognised(core: Core, columns: MessageColumns, asked: RowNumbers, found: FoundRows) -> Mask:
    """Which stored rows are within `identity_retention_seconds`. Actions are recognised for as long as they are kept."""
    seconds = core.settings.identity_retention_seconds
    if seconds is None:
        return np.ones(len(asked), np.bool_)
    published = found.records["published_at"] if not found.stored.published_at else found.stored.published_at
    since = core.clock() - int(seconds * 1_000_000)
    return (published >= since) | np.isin(asked, action_rows_of(columns))


def _codes_in(texts: Texts, names: pa.StringArray) -> NDArray[np.int64]:
    """The code of each name in a column of texts, or -1. Comparing codes is as good as comparing texts, and quicker."""
    codes = pc.index_in(names, texts.values).fill_null(-1)
    return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)


def _equal(one: Column, other: Column) -> Mask:
    return numbers_of(pc.equal(one, other))


def _kept(core: Core, partition: int, found: FoundRows, candidates: Mask) -> Mask:
    """Which stored rows are within their retention. An identity lives exactly as long as its message."""
    kept = np.ones(len(found.numbers), np.bool_)
    segment = found.stored.segment
    for row in np.flatnonzero(candidates & (found.numbers <= core.partitions[partition].counters.forgotten)).tolist():
        drawer = int(found.drawer[row])
        key = cabinet_key(int(segment.recipient_hash[drawer]), Cabinet(*segment.cabinet(drawer)))
        value = core.store.get(partition, Space.HEAD, key)
        head = EMPTY_HEAD if value is None else decode_head(value)
        kept[row] = bool(stored_mask(head, found.numbers[row : row + 1])[0])
    return kept


def _content_verdicts(core: Core, columns: MessageColumns, asked: RowNumbers, found: FoundRows) -> NDArray[np.int64]:
    """DUPLICATE where origin, kind, bundleable, inline, weight and data are equal, else CONFLICT; DAMAGED if data is unreadable.

    Actions must have the same name too.
    """
    segment, records = found.stored.segment, found.records
    flags = columns.bundleable[asked] * np.uint8(BUNDLEABLE) + columns.inline[asked] * np.uint8(INLINE)
    same: Mask = records["weight"] == columns.weight[asked]
    same &= (records["flags"] & (BUNDLEABLE | INLINE)) == flags
    for texts, names, field in (
        (columns.origin, segment.names.origins, "origin"),
        (columns.kind, segment.names.kinds, "kind"),
    ):
        # `code` has the origin, or the kind, of each drawer as a code of the arrivals.
        code = _codes_in(texts, pa.array(names, pa.string()))[segment.drawers[field]]
        same &= code[found.drawer] == texts.codes[asked]
    verdicts = np.full(len(asked), int(Verdict.DAMAGED))
    for piece in _data_of(core, found):
        inside = slice(*np.searchsorted(found.row, [piece.row, piece.row + len(piece.records)]).tolist())
        equal = same[inside] & _same_data(columns, asked[inside], piece, found.row[inside] - piece.row)
        equal &= _same_names(core, columns, asked[inside], found, inside)
        verdicts[inside] = np.where(equal, Verdict.DUPLICATE, Verdict.CONFLICT)
    verdicts[~same] = Verdict.CONFLICT
    return verdicts


def _data_of(core: Core, found: FoundRows) -> Iterable[SegmentPiece]:
    """The data of the found rows and of the rows between them, in pieces; damaged pieces are left out."""
    first, last = int(found.row[0]), int(found.row[-1]) + 1
    records = found.span[first - found.span_row : last - found.span_row]
    return sound_data(core.store, found.stored, first, records)


def _same_data(columns: MessageColumns, asked: RowNumbers, piece: SegmentPiece, row: RowNumbers) -> Mask:
    """Whether each arrival has the same data as its row of the piece."""
    stored = piece.data_column()
    if not np.array_equal(row, np.arange(len(stored))):
        stored = stored.take(column_of(row))
    return _equal(stored, columns.data.take(column_of(asked)))


def _same_names(core: Core, columns: MessageColumns, asked: RowNumbers, found: FoundRows, inside: slice) -> Mask:
    """Whether each action has the same name as its stored row; True for messages that are no actions."""
    same = np.ones(len(asked), np.bool_)
    for index in np.flatnonzero(np.isin(asked, action_rows_of(columns))).tolist():
        row = int(found.row[inside][index])
        stored = read_piece(core.store, found.stored, row, row + 1).properties
        name, _ = name_and_text(bytes(stored))
        same[index] = name == _name_of(columns, int(asked[index]))
    return same


def _name_of(columns: MessageColumns, row: int) -> str:
    stored: bytes = columns.properties[row].as_py()
    return name_and_text(stored)[0]


def _judge_twins(
    arrivals: Arrivals,
    grouped: Grouped,
    start: RowNumbers,
    accepted: Mask,
    verdict: NDArray[np.int8],
    original: RowNumbers,
) -> None:
    """Judge arrivals of one commit that share an identity against each other.

    `leader[identity]` is the row that later rows of an identity are compared with: its first row in an accepted request.
    """
    rows, identity = _twins(arrivals, grouped)
    if not len(rows):
        return
    refused = _bad_requests(start, verdict)
    leader = np.full(int(identity.max()) + 1, -1, np.int64)
    request = np.searchsorted(start, rows, side="right") - 1
    for index in np.unique(request[accepted[rows]]).tolist():
        own = request == index
        leads = _judge_request(arrivals.columns, rows[own], identity[own], leader, verdict, original)
        if leads is not None and not refused[index]:
            leader = leads


def _bad_requests(start: RowNumbers, verdict: NDArray[np.int8]) -> Mask:
    bad = np.zeros(len(start) - 1, np.bool_)
    bad[np.searchsorted(start, np.flatnonzero(verdict >= Verdict.CONFLICT), side="right") - 1] = True
    return bad


def _twins(arrivals: Arrivals, grouped: Grouped) -> tuple[RowNumbers, RowNumbers]:
    """The rows that share their identity with another row, in order, and the identity of each as an index."""
    rows = grouped.near
    if not len(rows):
        return rows, rows
    columns = arrivals.columns
    keys = np.column_stack([columns.recipient.codes[rows].astype(np.uint64), columns.id[rows]])
    _, identity, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    identity = identity.reshape(-1)
    shared = counts[identity] > 1
    return rows[shared], identity[shared]


def _judge_request(
    columns: MessageColumns,
    rows: RowNumbers,
    identity: RowNumbers,
    leader: RowNumbers,
    verdict: NDArray[np.int8],
    original: RowNumbers,
) -> RowNumbers | None:
    """Compare each row of one request with the leader of its identity or, without one, with the request's own first row.

    Returns the leaders including those of this request; None if one of its rows is a conflict, because that refuses it.
    """
    fresh = verdict[rows] == Verdict.NEW
    rows, identity = rows[fresh], identity[fresh]
    first_own = np.full(len(leader), -1, np.int64)
    first_own[identity[::-1]] = rows[::-1]  # Backwards, so that the first row of each identity is assigned last.
    leads = np.where(leader >= 0, leader, first_own)
    against = leads[identity]
    follows = against != rows
    same = _twin_content(columns, rows[follows], against[follows])
    verdict[rows[follows]] = np.where(same, Verdict.DUPLICATE, Verdict.CONFLICT)
    original[rows[follows]] = -1 - against[follows]
    return np.where(first_own >= 0, leads, leader) if same.all() else None


def _twin_content(columns: MessageColumns, one: RowNumbers, other: RowNumbers) -> Mask:
    same: Mask = (columns.weight[one] == columns.weight[other]) & (columns.bundleable[one] == columns.bundleable[other])
    same &= columns.inline[one] == columns.inline[other]
    for texts in (columns.origin, columns.kind):
        same &= texts.codes[one] == texts.codes[other]
    for index in np.flatnonzero(same & np.isin(one, action_rows_of(columns))).tolist():
        same[index] = _name_of(columns, int(one[index])) == _name_of(columns, int(other[index]))
    return same & _equal(columns.data.take(column_of(one)), columns.data.take(column_of(other)))
