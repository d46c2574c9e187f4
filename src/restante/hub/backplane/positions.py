"""How far the log of each partition is stored: a source position, moved in the commit that stores its messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from restante.hub.engine.core import Core, Stale
from restante.hub.engine.plan import RequestDraft
from restante.model.access.access import OWNER_BYTES
from restante.model.backplane.poison import RefusedRow, encode_poison, poison_key
from restante.model.sources.source import NO_POSITION, SourceRow, decode_source, encode_source, row_after, source_key
from restante.model.storage.changes import EntryKey, Space

_OWNER = b"the backplane".ljust(OWNER_BYTES, b".")
"""No caller's: nobody else publishes from the same source."""


def log_key(name: str) -> bytes:
    """Under which each partition keeps the position of its log."""
    return source_key(name, _OWNER)


def stored_positions(core: Core, key: bytes, partitions: Iterable[int]) -> dict[int, int]:
    """The last position of each partition's log that is stored."""
    entries = [EntryKey(partition, Space.SOURCE, key) for partition in partitions]
    found = core.store.get_many(entries)
    return {entry.partition: _position(found.get(entry)) for entry in entries}


def _position(value: bytes | None) -> int:
    return NO_POSITION if value is None else decode_source(value).position


@dataclass(slots=True)
class MovedPositions:
    """The part of a commit of some records: the new positions, and the records that were refused."""

    core: Core
    key: bytes
    before: Mapping[int, int]
    after: Mapping[int, int]
    poison: Mapping[tuple[int, int], RefusedRow]
    """The records that were refused, by partition and position."""
    accepted: dict[int, int] = field(default_factory=dict)
    """The number of messages that are stored, by partition."""

    def check(self, draft: RequestDraft) -> Exception | None:
        """Records are stored on the positions that they were compared with, or not at all."""
        now = {partition: _position(draft.get(partition, Space.SOURCE, self.key)) for partition in self.before}
        return None if now == self.before else Stale()

    def plan(self, draft: RequestDraft) -> None:
        for partition, position in self.after.items():
            value = draft.get(partition, Space.SOURCE, self.key)
            row: SourceRow | None = None if value is None else decode_source(value)
            moved = row_after(row, position, self.accepted.get(partition, 0), self.core.clock())
            draft.put(partition, Space.SOURCE, self.key, encode_source(moved))
        for (partition, position), refused in self.poison.items():
            draft.put(partition, Space.BACKPLANE_POISON, poison_key(position), encode_poison(refused))
