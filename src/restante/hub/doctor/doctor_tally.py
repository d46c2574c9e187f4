"""Counting the rows that small rows speak of: heads, bundles and change records claim stretches of numbers.

A claim is a cabinet and a stretch of sequence numbers; it may belong to an expectation ("this bundle has 17 messages").
All claims of a partition are columns. Each segment is held against them once, with one bisection for all claims that
it may satisfy, so the cost is that of reading the segment, and nothing is kept of it but the counts.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.hub.doctor.doctor_findings import named
from restante.model.columns.arrays import Numbers
from restante.model.columns.arrow import column_of, numbers_of
from restante.model.columns.hashing import Hashes, text_hashes
from restante.model.columns.texts import Texts
from restante.model.publishing.message import ACTION_KIND
from restante.model.storage.head import NumberRange
from restante.model.storage.identity import expand
from restante.model.storage.keys import Cabinet
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.rows import cabinet_hashes
from restante.model.storage.run import StoredSegment

_PLACES = 2**32
_SETTLED = 0
"""The expectation that gathers what heads say is settled."""


class Register:
    """The cabinets that small rows name, and what they claim of them."""

    def __init__(self) -> None:
        self._index: dict[Cabinet, int] = {}
        self._owner, self._first, self._last = array("q"), array("q"), array("q")
        self._sign, self._expectation = array("b"), array("q")
        self._expected, self._exact, self._about = array("q", [0]), array("b", [0]), array("q", [0])
        self._subjects: list[str] = [""]

    def cabinet(self, cabinet: Cabinet) -> int:
        return self._index.setdefault(cabinet, len(self._index))

    def cabinets(self) -> list[Cabinet]:
        return list(self._index)

    def settled(self, owner: int, first: int, last: int) -> None:
        self._claim(owner, first, last, 1, _SETTLED)

    def expect(
        self,
        subject: str,
        owner: int,
        ranges: Sequence[NumberRange],
        left_out: Sequence[NumberRange],
        count: int,
        *,
        exact: bool,
    ) -> None:
        """Expect that these ranges, less those left out, have `count` rows; if not exact, no more than that."""
        number = len(self._expected)
        self._expected.append(count)
        self._exact.append(exact)
        self._about.append(len(self._owner))
        self._subjects.append(sys.intern(subject))
        for sign, entries in ((1, ranges), (-1, left_out)):
            for entry in entries:
                self._claim(owner, entry.first, entry.last, sign, number)

    def _claim(self, owner: int, first: int, last: int, sign: int, expectation: int) -> None:
        if first <= last:
            self._owner.append(owner)
            self._first.append(first)
            self._last.append(last)
            self._sign.append(sign)
            self._expectation.append(expectation)

    def tally(self, key: int) -> DoctorTally:
        claims = np.array([self._owner, self._first, self._last, self._expectation], np.int64).reshape(4, -1)
        return DoctorTally(CabinetTable(self.cabinets(), key), claims, np.array(self._sign, np.int64), self)

    def disappointed(self, found: Numbers) -> Iterator[tuple[str, int, int]]:
        """The counts that came out otherwise: what was counted, what was expected, what was found."""
        expected, exact = np.array(self._expected, np.int64), np.array(self._exact, np.bool_)
        wrong = np.where(exact, found != expected, found > expected)
        wrong[_SETTLED] = False
        cabinets = self.cabinets() if wrong.any() else []
        for index in np.flatnonzero(wrong).tolist():
            claim = self._about[index]
            name = named(cabinets[self._owner[claim]])
            yield (
                f"{self._subjects[index]} {name} from number {self._first[claim]}",
                int(expected[index]),
                int(found[index]),
            )

    def __len__(self) -> int:
        return len(self._expected)


class CabinetTable:
    """Cabinets as columns, in the order of their recipients' hashes; found from the drawers of a segment."""

    def __init__(self, cabinets: list[Cabinet], key: int) -> None:
        recipients = pa.array([cabinet.recipient for cabinet in cabinets], pa.string())
        origin = Texts.encode(pa.array([cabinet.origin for cabinet in cabinets], pa.string()))
        kind = Texts.encode(pa.array([cabinet.kind for cabinet in cabinets], pa.string()))
        hashes = text_hashes(recipients, key)
        self.order = np.argsort(hashes, kind="stable")
        self.hash: Hashes = hashes[self.order]
        self._cabinet_hash = cabinet_hashes(hashes, origin, kind, key)[self.order]
        self._recipients = recipients.take(column_of(self.order))
        self._origin = _Names(origin, self.order)
        self._kind = _Names(kind, self.order)

    def owners(self, stored: StoredSegment) -> Numbers:
        """The cabinet of each drawer, or -1 if the drawer has none here."""
        segment = stored.segment
        lines = segment.drawers
        low = np.searchsorted(self.hash, segment.recipient_hash, side="left")
        counts = np.searchsorted(self.hash, segment.recipient_hash, side="right") - low
        drawer, entry = np.repeat(np.arange(len(lines)), counts), expand(low, counts)
        same = lines["cabinet_hash"][drawer] == self._cabinet_hash[entry]
        same &= self._origin.same(lines["origin"][drawer], segment.names.origins, entry)
        same &= self._kind.same(lines["kind"][drawer], segment.names.kinds, entry)
        drawer, entry = drawer[same], entry[same]
        texts = segment.recipients.take(column_of(drawer)), self._recipients.take(column_of(entry))
        same = numbers_of(pc.equal(*texts))
        owner = np.full(len(lines), -1, np.int64)
        owner[drawer[same]] = self.order[entry[same]]
        return owner


class _Names:
    """A column of names, comparable with the names of any segment."""

    def __init__(self, texts: Texts, order: NDArray[np.intp]) -> None:
        self._code = {name: code for code, name in enumerate(texts.values.to_pylist())}
        self._codes = texts.codes[order]

    def same(self, codes: NDArray[np.uint32], names: list[str], entry: Numbers) -> NDArray[np.bool_]:
        known = np.array([self._code.get(name, -1) for name in names] or [-1], np.int64)
        same: NDArray[np.bool_] = known[codes] == self._codes[entry]
        return same


def _actions_in(stored: StoredSegment) -> int:
    """How many rows of a segment are actions."""
    segment = stored.segment
    actions = np.array([name == ACTION_KIND for name in segment.names.kinds] or [False], np.bool_)
    return int(segment.drawers["count"][actions[segment.drawers["kind"]]].sum())


class DoctorTally:
    """The counts so far."""

    def __init__(self, table: CabinetTable, claims: Numbers, sign: Numbers, register: Register) -> None:
        self._table = table
        self._owner, self._first, self._last, self._expectation = claims
        self._sign = sign
        self._register = register
        self._counted = np.zeros(len(sign), np.int64)
        self.rows = 0
        """How many rows are mail: actions do not wait."""
        self.complete = True
        """False: a segment could not be counted, so nothing can be said of the whole."""

    def add(self, stored: StoredSegment, records: RecordArray) -> None:
        """Count a segment, whose drawers lie in order and in each of which the places ascend."""
        self.rows += len(records) - _actions_in(stored)
        first = int(records["place"].min()) + stored.base
        last = int(records["place"].max()) + stored.base
        touched = np.flatnonzero((self._first <= last) & (self._last >= first))
        if not len(touched):
            return
        lines = stored.segment.drawers
        owner = self._table.owners(stored)
        owners, leader = np.unique(owner, return_index=True)
        of_drawer = np.where(owner >= 0, leader[np.searchsorted(owners, owner)], np.arange(len(owner)))
        keys = (np.repeat(of_drawer, lines["count"]) << 32) | records["place"]
        self._count(touched, owners, leader, keys, stored.base)

    def _count(self, claims: Numbers, owners: Numbers, leader: NDArray[np.intp], keys: Numbers, base: int) -> None:
        place = np.minimum(np.searchsorted(owners, self._owner[claims]), len(owners) - 1)
        here = owners[place] == self._owner[claims]
        claims, of_drawer = claims[here], leader[place[here]] << 32
        low = np.maximum(self._first[claims] - base, 0)
        high = np.minimum(self._last[claims] - base, _PLACES - 1)
        begin = np.searchsorted(keys, of_drawer | low, side="left")
        self._counted[claims] += np.searchsorted(keys, of_drawer | high, side="right") - begin

    @property
    def waiting(self) -> int:
        """Rows of mail that no head says are settled."""
        actions = [cabinet.kind == ACTION_KIND for cabinet in self._register.cabinets()]
        mail = ~np.array([*actions, False], np.bool_)[self._owner]
        return self.rows - int(self._counted[(self._expectation == _SETTLED) & mail].sum())

    def disappointed(self) -> Iterator[tuple[str, int, int]]:
        found = np.zeros(len(self._register), np.int64)
        np.add.at(found, self._expectation, self._counted * self._sign)
        return self._register.disappointed(found)
