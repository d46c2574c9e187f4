"""Staging a parcel: it is checked, routed, judged and laid out like a publish, and then stored invisibly.

Its mailbags have no numbers yet. They are written here, and the commit of the consignment only gives numbers to their runs.
Duplicates stay in them until then, because which messages are duplicates depends on which parcels win.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NoReturn

import msgspec
import numpy as np

from restante import limits
from restante.errors import InvalidClientState, InvalidRequest
from restante.hub.batches.batch_counts import home_of
from restante.hub.consignments.staged_parcels import OpenConsignment, Reservation, StagedSoFar, StagingRoom
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.publishing.identities import Verdict, judge
from restante.hub.publishing.make_mailbags import arrived, laid_out
from restante.hub.publishing.publish import maybe_stored
from restante.hub.publishing.refuse import verdict_faults
from restante.model.access.access import EVERYTHING, Grant
from restante.model.consignments.consignment import (
    ParcelRow,
    StagedParcel,
    StagedRun,
    check_known,
    check_usable,
    closed,
    decode_consignment,
    decode_parcel,
    encode_parcel,
    parcel_key,
)
from restante.model.consignments.consignment_answers import ConsignmentState, Staged
from restante.model.producers.parcel_digest import digests_of_columns
from restante.model.publishing.message import MessageColumns
from restante.model.publishing.refusals import refusal
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.run import RunRow, RunState, SegmentRow
from restante.model.storage.segment_frame import EncodedSegment


def stage(core: Core, consignment_id: bytes, columns: MessageColumns, parcel: StagedParcel, caller: Grant) -> Staged:
    """Stage a parcel. A repeated parcel gets the same answer, and nothing is done."""
    consignment = open_consignment(core, consignment_id, stored_row(core, consignment_id), caller)
    digest = digests_of_columns(columns, core.deed.key).whole
    before = core.store.get(home_of(core, consignment_id), Space.CONSIGNMENT_PARCEL, parcel_key(consignment_id, parcel))
    if before is not None:
        consignment.active_at = max(consignment.active_at, core.clock())
        return repeated(before, digest, parcel)
    segments = laid_out_parcel(core, columns) if len(columns) else []
    length = sum([segment.length for segment in segments])
    with core.memory(StagingRoom).reserved(core.settings, consignment, length) as reservation:
        row = ParcelRow(len(columns), digest, core.clock(), length, ())
        return core.submit(_Stage(core, consignment_id, consignment, parcel, row, segments, reservation))


def laid_out_parcel(core: Core, columns: MessageColumns) -> list[EncodedSegment]:
    """The mailbags of a parcel. Raises if one of its messages could not be published."""
    arrivals = arrived(core, columns)
    with core.pins.reading():
        judged = judge(core, arrivals, np.array([0, len(columns)]), np.ones(len(columns), np.bool_))
    damaged = np.flatnonzero(judged.verdict == Verdict.DAMAGED)
    if len(damaged):
        raise maybe_stored(f"Message number {int(damaged[0])}", int(arrivals.partition[damaged[0]]))
    faults = verdict_faults(judged, np.flatnonzero(judged.verdict >= Verdict.CONFLICT))
    if faults:
        raise refusal(faults)
    return laid_out(core, arrivals, judged.grouped).segments


class _Stage(CommitRequest[Staged]):
    """A request to store a parcel."""

    __slots__ = ("_consignment", "_core", "_id", "_parcel", "_reservation", "_row", "_segments")

    def __init__(
        self,
        core: Core,
        consignment_id: bytes,
        consignment: OpenConsignment,
        parcel: StagedParcel,
        row: ParcelRow,
        segments: Sequence[EncodedSegment],
        reservation: Reservation,
    ) -> None:
        super().__init__(row.length)
        self._core, self._id, self._consignment = core, consignment_id, consignment
        self._parcel, self._row, self._segments = parcel, row, segments
        self._reservation = reservation

    def plan(self, draft: RequestDraft) -> Staged:
        core, parcel, consignment = self._core, self._parcel, self._consignment
        home, key = home_of(core, self._id), parcel_key(self._id, parcel)
        open_consignment(core, self._id, draft.get(home, Space.CONSIGNMENT, self._id))
        before = draft.get(home, Space.CONSIGNMENT_PARCEL, key)
        if before is not None:
            return repeated(before, self._row.digest, parcel)
        check_room(consignment, parcel)
        runs = tuple(put_staged_run(core, draft, own) for own in by_partition(self._segments))
        row = msgspec.structs.replace(self._row, runs=runs)
        draft.put(home, Space.CONSIGNMENT_PARCEL, key, encode_parcel(row))
        draft.note(StagedSoFar).consignments.add(self._id)
        draft.applies.append(partial(core.memory(StagingRoom).add, consignment, parcel, row, self._reservation))
        return Staged(staged=row.messages)


def stored_row(core: Core, consignment_id: bytes) -> bytes | None:
    return core.store.get(home_of(core, consignment_id), Space.CONSIGNMENT, consignment_id)


def open_consignment(
    core: Core, consignment_id: bytes, value: bytes | None, caller: Grant = EVERYTHING
) -> OpenConsignment:
    """The open consignment with this stored row. Raises `ConsignmentUnknown` or `ConsignmentClosed` if it is not open."""
    text = uuid_text(consignment_id)
    row = check_usable(None if value is None else decode_consignment(value), text, caller)
    if row.state is not ConsignmentState.OPEN:
        raise closed(row, text)
    consignment = core.memory(StagingRoom).open.get(consignment_id)
    return _closed_meanwhile(core, consignment_id) if consignment is None else consignment


def _closed_meanwhile(core: Core, consignment_id: bytes) -> NoReturn:
    text, value = uuid_text(consignment_id), stored_row(core, consignment_id)
    row = check_known(None if value is None else decode_consignment(value), text)
    raise closed(row, text)


def repeated(value: bytes, digest: bytes, parcel: StagedParcel) -> Staged:
    row = decode_parcel(value)
    if row.digest != digest:
        writer, attempt = parcel.attempt
        raise InvalidClientState(
            f"Parcel {parcel.number} of writer {writer!r}, attempt {attempt}, was staged before with other messages. "
            "Nothing was staged now. Use another attempt for other messages.",
            writer=writer,
            attempt=attempt,
            parcel=parcel.number,
        )
    return Staged(staged=row.messages)


def check_room(consignment: OpenConsignment, parcel: StagedParcel) -> None:
    attempts = consignment.attempts
    if parcel.attempt not in attempts and len(attempts) >= limits.CONSIGNMENT_ATTEMPTS_MAX:
        raise InvalidRequest(f"A consignment has at most {limits.CONSIGNMENT_ATTEMPTS_MAX:,} attempts of writers.")
    if consignment.staged.parcels >= limits.CONSIGNMENT_PARCELS_MAX:
        raise InvalidRequest(f"A consignment has at most {limits.CONSIGNMENT_PARCELS_MAX:,} parcels: make larger ones.")


def by_partition(segments: Iterable[EncodedSegment]) -> Iterable[list[EncodedSegment]]:
    by_partition: dict[int, list[EncodedSegment]] = {}
    for segment in segments:
        by_partition.setdefault(segment.group, []).append(segment)
    return by_partition.values()


def put_staged_run(core: Core, draft: RequestDraft, segments: list[EncodedSegment]) -> StagedRun:
    partition, laid = segments[0].group, []
    for segment in segments:
        blob = draft.take_blob(partition)
        draft.blobs.append((blob, segment.parts))
        laid.append(SegmentRow(blob.number, segment.length, len(segment.front), segment.rows))
    row = staged_row(laid, core.clock())
    draft.put_run(partition, row)
    return StagedRun(partition, row.identity)


def staged_row(segments: list[SegmentRow], made_at: int) -> RunRow:
    """The row of a run that has no numbers yet."""
    last = sum([segment.rows for segment in segments]) - 1
    return RunRow(segments[0].blob, 0, last, tuple(segments), RunState.STAGED, made_at, mailbag=True)


def blobs_of(partition: int, row: RunRow) -> list[BlobKey]:
    return [BlobKey(partition, segment.blob) for segment in row.segments]
