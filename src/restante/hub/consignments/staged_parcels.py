"""The memory of consignments, as stored: what is staged in each open one, and the unfinished rounds that have their home here.

Only the committer's thread changes it. Other threads read it, and their commits check that it has not changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from restante.errors import StorageFull
from restante.hub.engine.plan import Note, RequestDraft
from restante.model.consignments.consignment import (
    Attempt,
    ConsignmentRow,
    ParcelRow,
    StagedParcel,
    decode_consignment,
    decode_parcel,
    key_parcel,
)
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.model.shards.rounds import RoundPhase, RoundRow, decode_round
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix
from restante.ports.store import StoreReader
from restante.settings import Settings

_PAGE = 1_000


class StagedTotal(NamedTuple):
    """Counts of what an attempt, a consignment, or all consignments have staged."""

    parcels: int = 0
    messages: int = 0
    length: int = 0

    def plus(self, row: ParcelRow) -> StagedTotal:
        return StagedTotal(self.parcels + 1, self.messages + row.messages, self.length + row.length)


NOTHING_STAGED = StagedTotal()


@dataclass(slots=True)
class OpenConsignment:
    """One open consignment. A thread that commits it holds `committing`, so that only one prepares it at a time."""

    row: ConsignmentRow
    active_at: int
    attempts: dict[Attempt, StagedTotal] = field(default_factory=dict)
    staged: StagedTotal = NOTHING_STAGED
    reserved: int = 0
    """The bytes of parcels that are being stored."""
    committing: threading.Lock = field(default_factory=threading.Lock)

    def add(self, parcel: StagedParcel, row: ParcelRow) -> None:
        attempt = parcel.attempt
        self.attempts[attempt] = self.attempts.get(attempt, NOTHING_STAGED).plus(row)
        self.staged = self.staged.plus(row)
        self.active_at = max(self.active_at, row.staged_at)


@dataclass(slots=True)
class Reservation:
    """Room for a parcel that is being stored."""

    length: int


class StagingRoom:
    """All open consignments."""

    def __init__(self) -> None:
        self.open: dict[bytes, OpenConsignment] = {}
        self._lock = threading.Lock()
        self.due = 0
        """The time before which no consignment needs attention."""
        self.committed = 0
        self.accepted = 0
        self.duplicates = 0
        """Duplicates in consignments committed since the hub was opened; the two counts above are of the same time."""

    @property
    def length(self) -> int:
        return sum([consignment.staged.length for consignment in tuple(self.open.values())])

    def keeps_batch(self, batch_id: bytes) -> bool:
        """Whether a batch belongs to a consignment that may still be committed."""
        return any(consignment.row.batch == batch_id for consignment in tuple(self.open.values()))

    @contextmanager
    def reserved(self, settings: Settings, consignment: OpenConsignment, length: int) -> Iterator[Reservation]:
        """Reserve room for a parcel while it is being stored. Raises `StorageFull` if the settings do not allow it."""
        with self._lock:
            under_way = sum([other.reserved for other in tuple(self.open.values())])
            own = consignment.staged.length + consignment.reserved + length
            _check(settings, "consignment_bytes_max", own, "This consignment")
            _check(settings, "staged_bytes_max", self.length + under_way + length, "All open consignments together")
            consignment.reserved += length
        reservation = Reservation(length)
        try:
            yield reservation
        finally:
            with self._lock:
                consignment.reserved -= reservation.length
                reservation.length = 0  # `add` then subtracts nothing if an interrupted parcel is stored after all.

    def add(self, consignment: OpenConsignment, parcel: StagedParcel, row: ParcelRow, reservation: Reservation) -> None:
        """Note that a parcel was stored in its reserved room."""
        with self._lock:
            consignment.add(parcel, row)
            consignment.reserved -= reservation.length
            reservation.length = 0


class StagedSoFar(Note):
    """The consignments for which the current commit stages parcels."""

    def __init__(self) -> None:
        self.consignments: set[bytes] = set()

    def take_over(self, later: StagedSoFar) -> None:
        self.consignments |= later.consignments


def is_staged_before(draft: RequestDraft, consignment_id: bytes) -> bool:
    """Whether an earlier draft of this commit stages a parcel for the consignment, which memory does not know yet."""
    return any(consignment_id in note.consignments for note in draft.noted(StagedSoFar))


def _check(settings: Settings, setting: str, staged: int, who: str) -> None:
    limit: int = getattr(settings, setting)
    if staged > limit:
        raise StorageFull(
            f"{who} would stage {staged:,} bytes, more than {setting} allows ({limit:,}). The parcel was not staged. "
            "Commit or discard consignments, or raise the setting.",
            setting=setting,
            limit=limit,
            staged=staged,
        )


def load_room(store: StoreReader, owned: range) -> StagingRoom:
    """The open consignments of a store."""
    room = StagingRoom()
    for partition in owned:
        for consignment_id, value in store.scan(partition, Space.CONSIGNMENT):
            row = decode_consignment(value)
            if row.state is not ConsignmentState.OPEN:
                continue
            consignment = OpenConsignment(row, row.opened_at)
            for parcel, parcel_row in staged_parcels(store, partition, consignment_id):
                consignment.add(parcel, parcel_row)
            room.open[consignment_id] = consignment
    return room


def staged_parcels(store: StoreReader, partition: int, prefix: bytes) -> Iterator[tuple[StagedParcel, ParcelRow]]:
    """The parcels whose keys have this prefix, in order: those of a consignment or of an attempt."""
    start, end = prefix, after_prefix(prefix)
    while page := store.scan(partition, Space.CONSIGNMENT_PARCEL, start=start, end=end, limit=_PAGE):
        for key, value in page:
            yield key_parcel(key), decode_parcel(value)
        start = page[-1][0] + b"\0"


@dataclass(slots=True)
class OpenRounds:
    """The unfinished rounds that have their home here, as committed."""

    wanted: threading.Event = field(default_factory=threading.Event)
    rows: dict[bytes, RoundRow] = field(default_factory=dict)
    under_way: set[bytes] = field(default_factory=set)
    """The consignments whose rounds a thread of this hub is carrying out."""

    def enter(self, consignment: bytes, row: RoundRow) -> None:
        if row.phase is RoundPhase.PREPARING or row.missing:
            self.rows[consignment] = row
        else:
            self.rows.pop(consignment, None)


def load_rounds(store: StoreReader, owned: range) -> OpenRounds:
    rounds = OpenRounds()
    for partition in owned:
        for consignment, value in store.scan(partition, Space.CONSIGNMENT_ROUND):
            rounds.enter(consignment, decode_round(value))
    return rounds
