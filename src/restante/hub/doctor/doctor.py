"""The doctor: examines every checksum and invariant of a store, and says what is wrong. It changes nothing.

Whatever it finds, it goes on: a row that makes no sense, a block that fails its checksum, a blob that is missing each
become a finding, and the rest is examined as well as it still can be. A partition is examined in one pass over its
blobs, a segment at a time, so the memory it takes is that of one segment, of the small rows of one partition, and of
four bytes for each message of one run.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import DataDamaged
from restante.hub.doctor.doctor_actions import examine_actions
from restante.hub.doctor.doctor_batches import examine_batches
from restante.hub.doctor.doctor_bindings import BoundBatches
from restante.hub.doctor.doctor_changes import ChangesCheck, examine_notices
from restante.hub.doctor.doctor_consignments import examine_consignments, staged_runs
from restante.hub.doctor.doctor_contents import check_names, examine_contents
from restante.hub.doctor.doctor_findings import Case, Checked, DoctorFindings, Finding, Guard, Severity
from restante.hub.doctor.doctor_groups import examine_groups
from restante.hub.doctor.doctor_identities import IdentitiesCheck
from restante.hub.doctor.doctor_jobs import examine_jobs
from restante.hub.doctor.doctor_mailboxes import Mailboxes, examine_entries, read_bundles, read_heads
from restante.hub.doctor.doctor_producers import examine_delayed, examine_producers, examine_sources
from restante.hub.doctor.doctor_runs import examine_run, read_runs
from restante.hub.doctor.doctor_shards import examine_batch_parts, examine_rounds
from restante.hub.doctor.doctor_tally import DoctorTally
from restante.hub.engine.partitions import PARTITION_KEY, Deed, PartitionRow, load_deed
from restante.model.backplane.poison import check_poison
from restante.model.storage.changes import Space
from restante.ports.store import StoreReader

__all__ = ["Checked", "Finding", "Progress", "Report", "Severity", "examine"]

Progress = Callable[[int, int], object]
"""A function that is called with the number of blobs examined, and of all blobs."""
_NUMBER_MAX = 2**62


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a doctor. `findings` are the first thousand; the counts are of all."""

    problems: int
    notes: int
    findings: tuple[Finding, ...]
    checked: Checked

    @property
    def sound(self) -> bool:
        return not self.problems


def examine(store: StoreReader, *, owned: range | None = None, progress: Progress | None = None) -> Report:
    """Examine all of a store, or of one shard: the partitions that it has. Nobody else may write to it meanwhile."""
    findings = DoctorFindings()
    deed = _examine_deed(store, findings)
    if deed is not None:
        partitions = range(deed.partition_count) if owned is None else owned
        step = _Steps(store, partitions, findings, progress)
        staged = staged_runs(store, partitions)
        for number in partitions:
            case = Case(store, deed, number, findings, staged=staged, owned=owned)
            with case.guard("partition"):
                _examine_partition(case, step)
            findings.checked.partitions += 1
    return Report(
        problems=findings.problems,
        notes=findings.notes,
        findings=tuple(findings.listed),
        checked=findings.checked,
    )


class _Steps:
    """Tells how far the examination has come."""

    def __init__(
        self, store: StoreReader, partitions: range, findings: DoctorFindings, progress: Progress | None
    ) -> None:
        self._progress = progress
        self._done = self._all = 0
        if progress is not None:
            with Guard(findings, None, "blobs"):
                self._all = sum(len(store.blobs(number)) for number in partitions)
            progress(0, self._all)

    def __call__(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(min(self._done, self._all), self._all)


def _examine_deed(store: StoreReader, findings: DoctorFindings) -> Deed | None:
    """The deed, if there is one that can be worked with."""
    with Guard(findings, None, "deed"):
        deed = load_deed(store)
        if deed is None:
            _examine_without_deed(store, findings)
            return None
        if not 1 <= deed.partition_count <= limits.PARTITIONS_MAX or not 0 <= deed.key < 2**64:
            raise DataDamaged(f"It speaks of {deed.partition_count} partitions and the key {deed.key}.")
        return deed
    return None


def _examine_without_deed(store: StoreReader, findings: DoctorFindings) -> None:
    used = next((p for p in range(limits.PARTITIONS_MAX) if store.get(p, Space.PARTITION, PARTITION_KEY)), None)
    if used is not None:
        raise DataDamaged(f"It is missing, but partition {used} is in use. Restore the data folder from a backup.")
    findings.add(Severity.NOTE, None, "deed", "There is none: nothing has ever been stored here.")


def _examine_partition(case: Case, step: Callable[[], None]) -> None:
    _read_counters(case)
    rows = read_runs(case)
    seen, changes = Mailboxes(), ChangesCheck()
    read_heads(case, seen)
    read_bundles(case, seen)
    changes.read(case, seen)
    examine_notices(case)
    examine_producers(case)
    examine_sources(case)
    examine_batches(case)
    examine_consignments(case)
    examine_batch_parts(case)
    examine_rounds(case)
    examine_groups(case)
    examine_actions(case)
    examine_jobs(case)
    examine_entries(case, Space.BACKPLANE_POISON, "refused record", check_poison)
    examine_delayed(case)
    bound = BoundBatches()
    bound.read(case)
    identities = IdentitiesCheck()
    identities.read(case, step)
    tally = seen.register.tally(case.deed.key)
    for row in rows:
        with case.guard(f"run {row.identity}"):
            examine_run(case, row, (tally, bound, identities), changes.numbers, step)
    contents = examine_contents(case, step)
    check_names(case, rows, [*contents, *identities.blobs])
    identities.compare(case)
    _compare(case, tally)
    if tally.complete:
        bound.compare(case)


def _read_counters(case: Case) -> None:
    value = case.store.get(case.partition, Space.PARTITION, PARTITION_KEY)
    with case.guard("counters"):
        if value is not None:
            row = packed_decoder(PartitionRow).decode(value)
            case.counters = row
            if not (0 <= row.visible < _NUMBER_MAX and 0 <= row.forgotten <= row.visible and row.next_blob >= 1):
                raise DataDamaged(f"They cannot be: {row}.")
            return
        if case.store.scan(case.partition, Space.RUN, limit=1):
            raise DataDamaged("They are missing, but there are messages.")


def _compare(case: Case, tally: DoctorTally) -> None:
    """Compare what was counted with what the small rows say."""
    if not tally.complete:
        case.note("counts", "Not compared with the messages: not all of them could be read.")
        return
    if tally.waiting != case.counters.waiting:
        detail = f"{tally.waiting} messages wait, the counter says {case.counters.waiting}."
        case.problem("counters", detail)
    for subject, expected, found in tally.disappointed():
        case.problem(subject, f"It speaks of {expected} messages; {found} are there.")
