"""Identities: that the stored levels are what was written, and that they have every message that they cover."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case, TakeStep
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.hub.doctor.doctor_segments import read_whole
from restante.hub.engine.identity_reads import all_entries, load_level
from restante.model.columns.hashing import fingerprints
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.identity_level import LevelRow, StoredLevel, candidates, decode_level, rank_bounds
from restante.model.storage.keys import number_key
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.rows import ids_of
from restante.model.storage.run import StoredSegment


@dataclass(slots=True)
class IdentitiesCheck:
    """The levels of a partition, and how many of its messages they lack."""

    levels: list[StoredLevel] = field(default_factory=list)
    blobs: list[int] = field(default_factory=list)
    missing: int = 0

    def read(self, case: Case, step: TakeStep) -> None:
        """Examine all levels of a partition."""

        def examine(key: bytes, value: bytes) -> None:
            row = decode_level(value)
            self.blobs += [part.blob for part in row.parts]
            if key != number_key(row.identity):
                case.problem(f"identities {row.identity}", f"Their row is kept under another name, {key.hex()}.")
            self._examine_level(case, row, step)

        examine_entries(case, Space.IDENTITIES, "identities", examine)
        self.levels.sort(key=lambda level: level.first)
        for earlier, later in zip(self.levels, self.levels[1:], strict=False):
            if earlier.last >= later.first:
                case.problem(f"identities {later.row.identity}", f"They overlap identities {earlier.row.identity}.")

    def _examine_level(self, case: Case, row: LevelRow, step: TakeStep) -> None:
        for part in row.parts:
            case.checked.blobs += 1
            read_whole(case, f"identities {row.identity}", BlobKey(case.partition, part.blob), part.length)
            step()
        level = load_level(case.store, case.partition, row)
        if row.last > case.counters.visible:
            raise DataDamaged(f"They reach to number {row.last}, beyond the last, {case.counters.visible}.")
        last = 0
        for ranks in rank_bounds(level):
            prints, _ = all_entries(case.store, case.partition, level, ranks)
            if len(prints) and (int(prints[0]) < last or (prints[1:] < prints[:-1]).any()):
                raise DataDamaged("Their fingerprints do not ascend.")
            last = int(prints[-1]) if len(prints) else last
            found, low, high = candidates(level, prints)
            rank = np.arange(ranks[0], ranks[0] + len(prints))
            if len(found) < len(prints) or ((rank < low) | (rank >= high)).any():
                raise DataDamaged("Their filter denies some of them.")
        self.levels.append(level)

    def add(self, stored: StoredSegment, records: RecordArray) -> None:
        """The messages of a visible run: those that a level covers must be in it."""
        segment = stored.segment
        hashes = np.repeat(segment.recipient_hash, segment.drawers["count"].astype(np.int64))
        number = records["place"].astype(np.int64) + stored.base
        prints = fingerprints(hashes, ids_of(records))
        for level in self.levels:
            own = (number >= level.first) & (number <= level.last)
            if own.any():
                self.missing += int(own.sum()) - len(candidates(level, prints[own])[0])

    def compare(self, case: Case) -> None:
        if self.missing:
            case.problem("identities", f"They lack {self.missing} messages: if sent again, those are stored again.")
