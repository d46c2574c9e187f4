"""Committing a consignment: the messages of the named attempts get their numbers and become visible, all at once.

All slow work is done before the commit, in the caller's thread: reading the runs and judging their messages, partition by
partition. The commit then checks that the verdicts still hold, numbers the runs, and puts their rows. It moves no message.
Only runs with duplicates are written again without them, ahead of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from restante.errors import DataDamaged
from restante.hub.batches.batch_counts import home_of, row_of
from restante.hub.batches.batches import plan_seal
from restante.hub.consignments.consignments import leave, tidy, touch, usable_row
from restante.hub.consignments.stage import open_consignment, stored_row
from restante.hub.consignments.staged_mail import NamedRun, PartitionMail, holds, load_bags, prepare, refreshed
from restante.hub.consignments.staged_parcels import (
    NOTHING_STAGED,
    OpenConsignment,
    StagedTotal,
    StagingRoom,
    is_staged_before,
    staged_parcels,
)
from restante.hub.engine.commit_request import Planned
from restante.hub.engine.committed_runs import enter_runs
from restante.hub.engine.core import Core, Stale, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.mailboxes.live_mail import LiveMail
from restante.hub.publishing.batch_items import bind_duplicates, bind_stretches
from restante.model.access.access import EVERYTHING, Grant
from restante.model.batches.batch import check_open
from restante.model.batches.bound_stretches import BoundStretch
from restante.model.consignments.consignment import (
    Attempt,
    ConsignmentRow,
    answer_again,
    attempt_prefix,
    check_complete,
    digest_of,
    encode_consignment,
    receipt_of,
)
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.model.live.committed_mail import Elsewhere
from restante.model.mailboxes.answers import Receipt
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.identity import Known, have_common, known
from restante.model.storage.run import RunRow, RunState

_TRIES = 3


def commit(core: Core, consignment_id: bytes, announced: Mapping[Attempt, int], caller: Grant) -> Receipt:
    """Make the messages of the announced attempts visible. A consignment that is committed already gets the same answer."""
    text = uuid_text(consignment_id)
    usable_row(core, consignment_id, caller)
    consignment = core.memory(StagingRoom).open.get(consignment_id)
    if consignment is None:
        return answer_again(usable_row(core, consignment_id, caller), text, announced)
    with consignment.committing:
        touch(core, consignment_id)
        row = usable_row(core, consignment_id, caller)
        if row.state is ConsignmentState.COMMITTED:
            return answer_again(row, text, announced)
        receipt = _look_and_commit(core, consignment_id, announced)
    tidy(core, consignment_id)
    return receipt


@dataclass(frozen=True, slots=True)
class _Ready:
    """The prepared input of the commit."""

    consignment_id: bytes
    consignment: OpenConsignment
    staged: Mapping[Attempt, StagedTotal]
    """The totals that each winning attempt had staged when the commit was prepared."""
    mail: Sequence[PartitionMail]

    @property
    def messages(self) -> int:
        return sum([own.messages for own in self.staged.values()])


def _look_and_commit(core: Core, consignment_id: bytes, announced: Mapping[Attempt, int]) -> Receipt:
    """Prepare, and commit if the verdicts still hold. If they keep changing, prepare inside a commit of its own."""
    for _ in range(_TRIES):
        with core.pins.reading(), suppress(Stale), ahead(core) as written:
            ready = _look(core, consignment_id, announced, written)
            if not all(refreshed(core, mail) for mail in ready.mail):
                raise Stale
            return core.commit(partial(_plan, core, ready))
    with ahead(core) as written:
        return core.submit(Planned(partial(_look_and_plan, core, consignment_id, announced, written), alone=True))


def _look_and_plan(
    core: Core, consignment_id: bytes, announced: Mapping[Attempt, int], written: list[BlobKey], draft: RequestDraft
) -> Receipt:
    with core.pins.reading():
        return _number_all(core, _look(core, consignment_id, announced, written), draft)


@contextmanager
def ahead(core: Core) -> Iterator[list[BlobKey]]:
    """A context with a list for blobs that are written ahead of their commit. They are buried if it surely fails."""
    written: list[BlobKey] = []
    try:
        yield written
    except BaseException as error:
        core.pins.bury_unless_named(written, error)
        raise


def _look(core: Core, consignment_id: bytes, announced: Mapping[Attempt, int], written: list[BlobKey]) -> _Ready:
    """Prepare the input of the commit. `written` lists every blob that was written, even after an error."""
    consignment = open_consignment(core, consignment_id, stored_row(core, consignment_id))
    staged = {attempt: consignment.attempts.get(attempt, NOTHING_STAGED) for attempt in announced}
    check_complete(announced, {attempt: own.messages for attempt, own in staged.items()})
    mail = []
    for partition, runs in sorted(staged_runs(core, consignment_id, announced).items()):
        bags = load_bags(core, partition, runs)
        if bags is None:
            # This raises if the consignment was discarded meanwhile. If it was not, its data is damaged.
            open_consignment(core, consignment_id, stored_row(core, consignment_id))
            raise DataDamaged(f"A run of consignment {uuid_text(consignment_id)} is missing. Run `restante doctor`.")
        mail.append(prepare(core, partition, bags, written))
    return _Ready(consignment_id, consignment, staged, mail)


def staged_runs(core: Core, consignment_id: bytes, attempts: Mapping[Attempt, int]) -> dict[int, list[NamedRun]]:
    """The runs of each partition, in the order of the attempts and of their parcels."""
    home, runs = home_of(core, consignment_id), dict[int, list[NamedRun]]()
    for attempt in attempts:
        for parcel, row in staged_parcels(core.store, home, attempt_prefix(consignment_id, attempt)):
            for partition, identity in row.runs:
                runs.setdefault(partition, []).append((parcel, identity))
    return runs


def _plan(core: Core, ready: _Ready, draft: RequestDraft) -> Receipt:
    """Plan the commit in the committer's thread. Raises `Stale` if anything has changed since it was prepared."""
    value = draft.get(home_of(core, ready.consignment_id), Space.CONSIGNMENT, ready.consignment_id)
    open_consignment(core, ready.consignment_id, value)
    attempts = ready.consignment.attempts
    if is_staged_before(draft, ready.consignment_id) or any(
        attempts.get(attempt, NOTHING_STAGED) != own for attempt, own in ready.staged.items()
    ):
        raise Stale
    if not all(holds(core, mail, draft.count(mail.partition)) for mail in ready.mail) or has_met(draft, ready.mail):
        raise Stale
    return _number_all(core, ready, draft)


def _number_all(core: Core, ready: _Ready, draft: RequestDraft) -> Receipt:
    """Number the runs of all partitions. Only duplicates under a batch are handled one by one."""
    now, row = core.clock(), ready.consignment.row
    if row.batch:
        check_open(row_of(core, draft, row.batch), row.batch)
    partitions = [number_mail(core, draft, mail, row.batch, now) for mail in ready.mail]
    accepted = sum([mail.messages for mail in ready.mail])
    committed = msgspec.structs.replace(
        row,
        state=ConsignmentState.COMMITTED,
        closed_at=now,
        accepted=accepted,
        duplicates=ready.messages - accepted,
        partitions=tuple(numbers for numbers in partitions if numbers is not None),
        named=digest_of({attempt: own.messages for attempt, own in ready.staged.items()}),
    )
    home = home_of(core, ready.consignment_id)
    draft.put(home, Space.CONSIGNMENT, ready.consignment_id, encode_consignment(committed))
    if row.batch:
        plan_seal(core, row.batch, EVERYTHING, draft)
    draft.applies.append(partial(leave, core, ready.consignment_id))
    draft.applies.append(partial(count_committed, core, committed))
    receipt = receipt_of(committed)
    assert receipt is not None, "what is committed has an answer"
    return receipt


def count_committed(core: Core, committed: ConsignmentRow) -> None:
    core.memory(StagingRoom).committed += 1
    core.memory(StagingRoom).accepted += committed.accepted
    core.memory(StagingRoom).duplicates += committed.duplicates


def has_met(draft: RequestDraft, mail: Sequence[PartitionMail]) -> bool:
    """Whether earlier drafts of this commit store messages that may have the same identities."""
    for arrived in draft.arrived_before():
        numbers = np.arange(1, len(arrived) + 1)
        others = known(np.asarray(arrived, np.uint64), numbers)
        if any(have_common(others, own.judged, beyond=0) for own in mail):
            return True
    return False


def number_mail(
    core: Core, draft: RequestDraft, mail: PartitionMail, batch: bytes, now: int
) -> tuple[int, int, int] | None:
    """Number the messages of a partition; return the partition, the first and the last number, or None without messages."""
    first = draft.count(mail.partition).visible + 1
    numbers = _number_runs(core, draft, mail, batch, now) if mail.messages else None
    if batch:
        _bind_duplicates_of(core, draft, mail, batch, first)
    return numbers


def _number_runs(core: Core, draft: RequestDraft, mail: PartitionMail, batch: bytes, now: int) -> tuple[int, int, int]:
    partition = core.partitions[mail.partition]
    first = draft.add_messages(mail.partition, mail.messages)
    runs, following = [], first
    for run in mail.runs:
        last = following + run.row.rows - 1
        row = _visible(run.row, following, last, now)
        draft.put_run(mail.partition, row)
        runs.append(run.numbered(row))
        following = last + 1
    if batch:
        bind_stretches(core, draft, mail.partition, [BoundStretch(first, following - 1, batch)])
    draft.concerns.append(mail.recipients)
    draft.note(LiveMail).mail.append(Elsewhere(mail.recipients))
    draft.arrived.append(mail.fingerprint)
    draft.applies.append(partial(enter_runs, core, partition, runs))
    draft.applies.append(
        partial(partition.remember_sorted, Known(first, mail.fingerprint, mail.offset.astype(np.uint32), following - 1))
    )
    return mail.partition, first, following - 1


def _visible(row: RunRow, first: int, last: int, now: int) -> RunRow:
    return RunRow(row.identity, first, last, row.segments, RunState.VISIBLE, now, row.mailbag, now)


def _bind_duplicates_of(core: Core, draft: RequestDraft, mail: PartitionMail, batch: bytes, first: int) -> None:
    """Count the duplicates. The messages that they repeat are stored, or get their numbers in this commit."""
    for some in mail.duplicates:
        if len(some.rows):
            numbers = np.where(some.numbers < 0, first - 1 - some.numbers, some.numbers)
            bind_duplicates(core, draft, batch, type(some)(some.arrivals, some.rows, numbers))
