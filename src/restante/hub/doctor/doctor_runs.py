"""Runs: their rows, the order of their segments, and that every number is taken once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.hub.doctor.doctor_bindings import BoundBatches
from restante.hub.doctor.doctor_findings import Case, TakeStep
from restante.hub.doctor.doctor_identities import IdentitiesCheck
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.hub.doctor.doctor_segments import Sound, examine_segment
from restante.hub.doctor.doctor_tally import DoctorTally
from restante.model.columns.arrays import Numbers
from restante.model.consignments.consignment import StagedRun
from restante.model.storage.changes import Space
from restante.model.storage.keys import number_key
from restante.model.storage.run import RunRow, RunState, decode_run


def read_runs(case: Case) -> list[RunRow]:
    """The rows of all runs in number order."""
    rows: list[RunRow] = []

    def examine(key: bytes, value: bytes) -> None:
        row = decode_run(value)
        if key != number_key(row.identity):
            case.problem(f"run {row.identity}", f"Its row is kept under another name, {key.hex()}.")
        if not row.segments:
            case.problem(f"run {row.identity}", "It has no segments.")
        if row.state is RunState.STAGED:
            if StagedRun(case.partition, row.identity) not in case.staged:
                case.problem(
                    f"run {row.identity}", "It is staged, and no parcel of a consignment names it, and no round."
                )
        elif not 1 <= row.first <= row.last <= case.counters.visible:
            detail = f"Its numbers {row.first} to {row.last} are not within 1 to {case.counters.visible}."
            case.problem(f"run {row.identity}", detail)
        rows.append(row)

    case.checked.runs += examine_entries(case, Space.RUN, "run", examine)
    rows.sort(key=lambda row: row.first)
    for state in (RunState.VISIBLE, RunState.FEED):
        _check_order(case, [row for row in rows if row.state is state])
    return rows


def _check_order(case: Case, rows: Sequence[RunRow]) -> None:
    for earlier, later in itertools.pairwise(rows):
        if earlier.last >= later.first:
            detail = (
                f"Its numbers {later.first} to {later.last} overlap those of run {earlier.identity}, "
                f"{earlier.first} to {earlier.last}."
            )
            case.problem(f"run {later.identity}", detail)


@dataclass(slots=True)
class _Reading:
    """A run being read, segment after segment."""

    places: list[NDArray[np.uint32]] = field(default_factory=list)
    last: tuple[int, int, tuple[str, str, str], int] | None = None
    """Hashes, cabinet and last place of the drawer read last."""
    sound: bool = True


def examine_run(
    case: Case,
    row: RunRow,
    counted: tuple[DoctorTally, BoundBatches, IdentitiesCheck],
    changes: Numbers,
    step: TakeStep,
) -> None:
    """Examine all segments of a run; a visible one is counted. `changes`: numbers that no message may have."""
    reading = _Reading()
    tally, bound, identities = counted
    for place in row.segments:
        case.checked.blobs += 1
        if place.length > limits.LARGE_BLOB_BYTES_MAX:
            detail = (
                f"It is larger than a blob should be: {place.length} of at most {limits.LARGE_BLOB_BYTES_MAX} bytes."
            )
            case.note(f"run {row.identity}, blob {place.blob}", detail)
        sound = examine_segment(case, row, place)
        if sound is None:
            reading.sound = False
        else:
            _add(case, row, reading, sound)
            if row.state is RunState.VISIBLE:
                tally.add(sound.stored, sound.records)
                bound.add(case, sound.stored, sound.records)
                identities.add(sound.stored, sound.records)
                case.checked.messages += len(sound.records)
        step()
    tally.complete = tally.complete and (reading.sound or row.state is not RunState.VISIBLE)
    with case.guard(f"run {row.identity}"):
        _check_numbers(case, row, reading, changes)


def _add(case: Case, row: RunRow, reading: _Reading, sound: Sound) -> None:
    reading.places.append(np.ascontiguousarray(sound.records["place"]))
    segment = sound.stored.segment
    lines = segment.drawers
    first, last = lines[0], lines[-1]
    begin = int(first["recipient_hash"]), int(first["cabinet_hash"]), segment.cabinet(0), int(first["first_place"])
    if reading.last is not None and begin <= reading.last:
        detail = f"Blob {sound.stored.blob.number} does not lie after the one before it in the order of the cabinets."
        case.problem(f"run {row.identity}", detail)
    reading.last = (
        int(last["recipient_hash"]),
        int(last["cabinet_hash"]),
        segment.cabinet(len(lines) - 1),
        int(last["last_place"]),
    )


def _check_numbers(case: Case, row: RunRow, reading: _Reading, changes: Numbers) -> None:
    """Every place is within the run, taken once, and not by a change record."""
    if not reading.places:
        return
    places = np.concatenate(reading.places)
    places.sort()
    if int(places[-1]) > row.last - row.first:
        detail = f"It has a message with number {row.first + int(places[-1])}, beyond its last, {row.last}."
        case.problem(f"run {row.identity}", detail)
    twice = places[1:][places[1:] == places[:-1]]
    if len(twice):
        case.problem(f"run {row.identity}", f"{len(twice)} numbers are taken twice, first {row.first + int(twice[0])}.")
    if row.state is RunState.VISIBLE:
        own = changes[(changes >= row.first) & (changes <= row.last)] - row.first
        taken = own[np.isin(own, places)]
        if len(taken):
            detail = f"Number {row.first + int(taken[0])} is that of a message and of a change record."
            case.problem(f"run {row.identity}", detail)
