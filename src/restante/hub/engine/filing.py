"""Filing merges mailbags into shelves, in the background and on demand.

A merge reads the runs slice by slice, writes the shelf's segments ahead, and swaps the run rows in one small commit. It may
stop anywhere: before the swap the new blobs are orphans, after it the old ones are, and opening the store drops orphans.
Filing changes no sequence number and writes no head, so callers cannot observe it.

A damaged run is left alone, and separates the runs before it from those after it: they are merged separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.calls.removal import FileNow
from restante.errors import DataDamaged, FormatUnsupported
from restante.hub.engine.commit_request import Planned
from restante.hub.engine.committed_runs import put_shelf
from restante.hub.engine.core import Core
from restante.hub.engine.damage import is_damaged, tell_once
from restante.hub.engine.identity_upkeep import keep_ahead, keep_due, keep_identities
from restante.hub.engine.partitions import Partition, Unfiled
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.row_reads import read_piece
from restante.hub.engine.subject import HubSubject
from restante.hub.engine.tasks import Task, guarded
from restante.model.access.access import Grant
from restante.model.storage.catalog import damaged_directory
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.handful import Handful, NameTable
from restante.model.storage.head import Apart, Head, apart_of, decode_head, stored_mask
from restante.model.storage.keys import Cabinet, key_cabinet, number_key
from restante.model.storage.merge import DrawerStretch, Keep, merged, slices
from restante.model.storage.piece import SegmentPiece
from restante.model.storage.run import Run, RunRow, RunState, SegmentRow, StoredSegment, choose_merge
from restante.model.storage.segment import Segment, decode
from restante.model.storage.segment_frame import EncodedSegment
from restante.ports.clerk import SegmentPart

_Swap = Callable[[RequestDraft], None]
_NEARLY = limits.FILING_HANDFUL * 3 // 4
"""The number of fresh runs from which a partition is merged along with others that have `FILING_HANDFUL`."""
_SWAPS_A_COMMIT = 2
"""The number of merges in one commit. Small publishes wait for that commit, which takes 1 to 2 ms."""


def file_once(core: Core, partition: Partition, *, everything_upto: int | None = None) -> int:
    """Do one merge, if one is worthwhile; return how many runs it merged.

    With `everything_upto`, every merge of runs that begin at or before that number is worthwhile; later runs are left alone.
    """
    with partition.filing_lock:
        keep_identities(core, partition)
        partition.fresh_runs = 0
        # Each failure excludes one more damaged run, so this ends.
        while runs := _chosen(partition, everything_upto):
            keep_ahead(core, partition, runs)
            if rewrite(core, partition, runs):
                return len(runs)
        return 0


def _chosen(partition: Partition, everything_upto: int | None) -> list[Run]:
    """The runs to merge now, none of them known to be damaged; an empty list if no merge is worthwhile."""
    listed = [run for run in partition.runs if everything_upto is None or run.row.first <= everything_upto]
    for damaged, group in groupby(listed, lambda run: is_damaged(partition, run)):
        runs = {run.row.identity: run for run in group}
        if not damaged:
            rows = choose_merge([run.row for run in runs.values()], everything=everything_upto is not None)
            if rows:
                return [runs[row.identity] for row in rows]
    return []


def file_all(core: Core) -> int:
    """Merge the runs stored now until no merge is worthwhile; return how many runs were merged.

    Runs that arrive meanwhile are left alone, or a steady publisher would keep `file_all` from ending.
    """
    filed = 0
    for partition in core.partitions:
        upto = partition.counters.visible
        while count := file_once(core, partition, everything_upto=upto):
            filed += count
    drop_unreachable(core)
    return filed


def rewrite(core: Core, partition: Partition, runs: Sequence[Run]) -> bool:
    """Merge neighbouring runs into one shelf, leaving out messages past their retention. The caller holds the filing lock.

    Return False, with nothing changed, if a run turns out to be damaged: filing leaves that run alone from then on.
    """
    with core.pins.reading():
        handful = _handful(core, partition, runs)
    if handful is not None and handful.length <= limits.FILING_TINY_BYTES_MAX:
        _commit_handfuls(core, [_swap_for_handful(core, partition, runs, handful)])
        return True
    written: list[tuple[SegmentRow, Segment]] = []
    try:
        with core.pins.reading():
            if handful is not None:
                _write_segment(core, partition, handful, written)
            else:
                _write_shelf(core, partition, runs, written)
        shelf = _shelf(core, partition, runs, written)
        core.commit(lambda draft: put_shelf(core, draft, partition, runs, shelf))
    except BaseException as error:
        blobs = [BlobKey(partition.number, place.blob) for place, _ in written]
        core.pins.bury_unless_named(blobs, error)
        if not isinstance(error, _MetDamage):
            raise
        _leave_alone(partition, runs, error)
        drop_unreachable(core)
        return False
    drop_unreachable(core)
    return True


def _handful(core: Core, partition: Partition, runs: Sequence[Run]) -> EncodedSegment | None:
    """The shelf of a few small runs, made by copying; None if there are too many messages, or copying is not enough."""
    rows, length = sum(run.row.rows for run in runs), sum(run.row.length for run in runs)
    if rows > limits.FILING_FEW_MESSAGES_MAX or length > limits.COMMIT_FEW_BYTES_MAX:
        return None
    if runs[0].row.first <= partition.counters.forgotten or any(run.row.published_at for run in runs):
        # Some messages may be past their retention, or their publishing time is in the run row and not in their records.
        return None
    try:
        contents, shifts = _contents(core, runs)
        segment = core.clerk.joined(contents, shifts, partition.number)
        if segment is not None or rows > limits.FILING_TINY_MESSAGES_MAX:
            return segment
        return _gathered(core, partition, contents, shifts)
    except (DataDamaged, FormatUnsupported):
        # The long way finds out which run is damaged.
        return None


def _contents(core: Core, runs: Sequence[Run]) -> tuple[list[bytes], list[int]]:
    """The whole segments of these runs, and by how much the places of each are shifted in the joint shelf."""
    contents, shifts = list[bytes](), list[int]()
    for run in runs:
        if run.content is not None:
            contents.append(run.content)
            shifts.append(run.row.first - runs[0].row.first)
            continue
        for stored, place in zip(run.segments, run.row.segments, strict=True):
            contents.append(bytes(core.store.read_blob(stored.blob, 0, place.length)))
            shifts.append(stored.base - runs[0].row.first)
    return contents, shifts


def _gathered(
    core: Core, partition: Partition, contents: Sequence[bytes], shifts: Sequence[int]
) -> EncodedSegment | None:
    names = NameTable(core.deed.key)
    handful = Handful(names)
    for content, shift in zip(contents, shifts, strict=True):
        handful.add_segment(content, shift)
    return handful.encoded(partition.number, names.encoded())


def _swap_for_handful(core: Core, partition: Partition, runs: Sequence[Run], shelf: EncodedSegment) -> _Swap:
    """Plan a commit that writes a shelf of one segment and swaps the run rows."""
    blob = partition.take_blob()
    place = SegmentRow(blob.number, shelf.length, len(shelf.front), shelf.rows)
    row = RunRow(
        blob.number, runs[0].row.first, runs[-1].row.last, (place,), RunState.VISIBLE, core.clock(), mailbag=False
    )

    def swap(draft: RequestDraft) -> None:
        draft.blobs.append((blob, shelf.parts))
        put_shelf(core, draft, partition, runs, Run.of(row, partition.number, [shelf.front], shelf.recipients))

    return swap


def _commit_handfuls(core: Core, swaps: Sequence[_Swap]) -> None:
    """Commit all merges together, and drop the blobs that earlier merges replaced."""
    free = core.pins.unreachable()
    requests = [Planned(swap) for swap in (*swaps, lambda draft: draft.dropped.extend(free))]
    core.committer.submit_each(requests)
    try:
        requests[-1].answer()
    except BaseException:
        core.pins.bury(free)
        raise
    for request in requests:
        request.answer()


def file_handfuls(core: Core) -> int:
    """Merge the tiny runs of all partitions that have at least `_NEARLY` of them; return how many partitions.

    Small publishes spread over all partitions. Filing these one by one would cost a commit, and a flush, for each.
    """
    swaps: list[_Swap] = []
    with ExitStack() as held:
        for partition in core.partitions:
            if partition.fresh_runs < _NEARLY or not partition.filing_lock.acquire(blocking=False):
                continue
            held.callback(partition.filing_lock.release)
            swap = _tiny_swap(core, partition)
            if swap is not None:
                swaps.append(swap)
        for first in range(0, len(swaps), _SWAPS_A_COMMIT):
            _commit_handfuls(core, swaps[first : first + _SWAPS_A_COMMIT])
    return len(swaps)


def _tiny_swap(core: Core, partition: Partition) -> _Swap | None:
    """A merge of the tiny runs of a partition; None if there are too few, or copying is not enough."""
    if any(is_damaged(partition, run) for run in partition.runs):
        return None
    runs = partition.runs
    chosen = choose_merge([run.row for run in runs], handful=_NEARLY)
    if not chosen:
        return None
    names = {row.identity for row in chosen}
    taken = [run for run in runs if run.row.identity in names]
    if sum([run.row.rows for run in taken]) > limits.FILING_TINY_MESSAGES_MAX:
        return None
    with core.pins.reading():
        shelf = _handful(core, partition, taken)
    if shelf is None:
        return None
    partition.fresh_runs = 0
    return _swap_for_handful(core, partition, taken, shelf)


class _MetDamage(Exception):  # no error: a signal inside this module
    """A segment of a run to be merged cannot be read."""

    def __init__(self, stored: StoredSegment, error: DataDamaged) -> None:
        super().__init__(error.message)
        self.stored = stored
        self.error = error


def _leave_alone(partition: Partition, runs: Sequence[Run], met: _MetDamage) -> None:
    for run in runs:
        if any(stored is met.stored for stored in run.segments):
            partition.damaged_runs.add(run.row.identity)
            tell_once(partition, f"Filing of run {run.row.identity} of partition {partition.number}", met.error)


def _shelf(
    core: Core, partition: Partition, runs: Sequence[Run], written: Sequence[tuple[SegmentRow, Segment]]
) -> Run | None:
    """The run of the written segments; None if no message of the merged runs is left."""
    if not written:
        return None
    places, segments = tuple(place for place, _ in written), [segment for _, segment in written]
    first, last = runs[0].row.first, runs[-1].row.last
    row = RunRow(places[0].blob, first, last, places, RunState.VISIBLE, core.clock(), mailbag=False)
    for place, segment in zip(places, segments, strict=True):
        partition.fronts.keep(partition.number, place, segment)
    return partition.fronts.run(core.store, partition.number, row)


def _write_shelf(
    core: Core, partition: Partition, runs: Sequence[Run], written: list[tuple[SegmentRow, Segment]]
) -> None:
    """Write the segments of the shelf. `written` lists every blob that was written, even after an error."""
    _check_directories(runs)
    fronts = _fronts(runs)
    for stretches in slices(runs):
        pieces = [_read(core, stretch) for stretch in stretches]
        for encoded in _merged(core, partition, runs[0].row.first, stretches, pieces, fronts):
            _write_segment(core, partition, encoded, written)


def _write_segment(
    core: Core, partition: Partition, encoded: EncodedSegment, written: list[tuple[SegmentRow, Segment]]
) -> None:
    """Write a segment ahead of the commit that names it."""
    blob = partition.take_blob()
    core.store.put_blob(blob, encoded.parts, fence=core.fence)
    written.append(_place(blob, encoded))


def _fronts(runs: Sequence[Run]) -> dict[BlobKey, int]:
    """The length of each segment's front."""
    return {
        stored.blob: place.front for run in runs for stored, place in zip(run.segments, run.row.segments, strict=True)
    }


def _merged(
    core: Core,
    partition: Partition,
    first: int,
    stretches: Sequence[DrawerStretch],
    pieces: Sequence[SegmentPiece],
    fronts: Mapping[BlobKey, int],
) -> Sequence[EncodedSegment]:
    """Merge one slice of a shelf: in the clerk, unless messages may be past their retention, which only the hub knows."""
    found = None
    if core.clerk.merges and not partition.counters.forgotten:
        parts = [_part(core, stretch, piece, fronts) for stretch, piece in zip(stretches, pieces, strict=True)]
        found = core.clerk.merged(parts, first)
    return merged(stretches, pieces, first, _keeper(core, partition, stretches)) if found is None else found


def _part(core: Core, stretch: DrawerStretch, piece: SegmentPiece, fronts: Mapping[BlobKey, int]) -> SegmentPart:
    stored, first, last = stretch
    front = bytes(core.store.read_blob(stored.blob, 0, fronts[stored.blob]))
    records = piece.records.tobytes()
    return SegmentPart(
        front, stored.base, stored.published_at, first, last, piece.row, records, piece.data, piece.properties
    )


def _place(blob: BlobKey, encoded: EncodedSegment) -> tuple[SegmentRow, Segment]:
    segment = decode(encoded.front, trusted=True)
    first, expiry = int(segment.recipient_hash[0]), int(segment.drawers["earliest_expiry"].min())
    return SegmentRow(blob.number, encoded.length, len(encoded.front), encoded.rows, first, expiry), segment


def _check_directories(runs: Sequence[Run]) -> None:
    """Raise if a directory is damaged: the shelf would lose the drawers that it does not list."""
    for run in runs:
        for stored in run.segments:
            damaged = stored.segment.damaged
            if damaged is not None:
                first = int(np.argmax(damaged))
                raise _MetDamage(stored, damaged_directory(stored, first, first + 1))


def _read(core: Core, stretch: DrawerStretch) -> SegmentPiece:
    lines = stretch.stored.segment.drawers
    first, last = int(lines["row"][stretch.first]), lines[stretch.last - 1]
    try:
        return read_piece(core.store, stretch.stored, first, int(last["row"]) + int(last["count"]))
    except DataDamaged as error:
        raise _MetDamage(stretch.stored, error) from error


def _keeper(core: Core, partition: Partition, stretches: Sequence[DrawerStretch]) -> Keep:
    """A function that says which rows of a piece to keep: those within their retention. None means all."""
    heads = _forgetful_heads(core, partition, stretches) if partition.counters.forgotten else {}

    def keep(piece: SegmentPiece, drawer: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        return _kept_rows(piece, drawer, heads) if heads else None

    return keep


def _forgetful_heads(core: Core, partition: Partition, stretches: Sequence[DrawerStretch]) -> dict[Cabinet, Head]:
    """The heads of cabinets in the hash range of these drawers whose messages are not simply all kept."""
    low = min(int(stretch.stored.segment.recipient_hash[stretch.first]) for stretch in stretches)
    high = max(int(stretch.stored.segment.recipient_hash[stretch.last - 1]) for stretch in stretches)
    end = number_key(high + 1) if high + 1 < 2**64 else None
    entries = core.store.scan(partition.number, Space.HEAD, start=number_key(low), end=end)
    heads = {key_cabinet(key): decode_head(value) for key, value in entries}
    return {cabinet: head for cabinet, head in heads.items() if head.forgotten or head.apart}


def _kept_rows(piece: SegmentPiece, drawer: NDArray[np.int64], heads: dict[Cabinet, Head]) -> NDArray[np.bool_]:
    numbers = piece.numbers
    kept = np.ones(len(numbers), np.bool_)
    for index in np.unique(drawer).tolist():
        head = heads.get(Cabinet(*piece.stored.segment.cabinet(index)))
        if head is not None:
            own = drawer == index
            # Keep a message that was released to the end of its mailbox: the feed still shows its first publication.
            kept[own] = stored_mask(head, numbers[own]) | (apart_of(head, numbers[own]) == Apart.MOVED)
    return kept


def drop_unreachable(core: Core) -> None:
    """Drop the buried blobs that no reader can reach any more."""
    blobs = core.pins.unreachable()
    if blobs:
        try:
            core.commit(lambda draft: draft.dropped.extend(blobs))
        except BaseException:
            core.pins.bury(blobs)
            raise


def relieve(core: Core) -> None:
    """File the partitions that have too many runs. Publishers call this before they publish, which slows them down."""
    for number in tuple(core.memory(Unfiled).overdue):
        partition = core.partitions[number]
        file_once(core, partition, everything_upto=partition.counters.visible)


def _file_always(core: Core) -> None:
    while not core.closing.is_set():
        core.memory(Unfiled).wanted.wait()
        core.memory(Unfiled).wanted.clear()
        guarded(core, keep_due)
        # While some partitions are filed, others get enough fresh runs.
        for _ in range(2):
            _file_due(core)


def _file_due(core: Core) -> None:
    """File the partitions that have enough fresh runs."""
    due = [partition for partition in core.partitions if partition.fresh_runs >= limits.FILING_HANDFUL]
    if len(due) > 1:
        guarded(core, file_handfuls)
    for partition in due:
        _file_partition(core, partition)


def _file_partition(core: Core, partition: Partition) -> None:
    while not core.closing.is_set() and guarded(core, partial(file_once, partition=partition)):
        # A merge may take long, and meanwhile identities gather in the memory of every partition.
        guarded(core, keep_due)


def file_now(core: Core, _: FileNow, __: Grant) -> int:
    return file_all(core)


TASK = Task(
    "filing",
    _file_always,
    wake=lambda core: core.memory(Unfiled).wanted.set(),
    is_wanted=lambda core: core.settings.filing,
    component="filing",
)
SUBJECT = HubSubject(functions={FileNow: file_now}, tasks=(TASK,))
