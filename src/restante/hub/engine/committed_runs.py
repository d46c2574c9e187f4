"""Runs in a commit: the mailbags of a publish, and a shelf that replaces the runs it was merged from.

The commit contains the run's row, and its blobs unless they were written ahead. The catalog gets the run after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from restante import limits
from restante.hub.engine.core import Core, Stale
from restante.hub.engine.partitions import Partition, Unfiled, run_key
from restante.hub.engine.plan import RequestDraft
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.run import Run, RunRow, RunState, SegmentRow, StoredSegment, in_order, tier_of
from restante.model.storage.segment_frame import EncodedSegment


def put_mailbag(
    core: Core,
    draft: RequestDraft,
    segments: Sequence[EncodedSegment],
    first: int,
    count: int,
    written: Sequence[BlobKey] = (),
) -> None:
    """Put a mailbag into the draft. If its blobs were written ahead, `written` names them."""
    partition = core.partitions[segments[0].group]
    blobs = written or [draft.take_blob(partition.number) for _ in segments]
    laid = []
    for segment, blob in zip(segments, blobs, strict=True):
        if not written:
            draft.blobs.append((blob, segment.parts))
        laid.append(SegmentRow(blob.number, segment.length, len(segment.front), segment.rows))
    row = RunRow(laid[0].blob, first, first + count - 1, tuple(laid), RunState.VISIBLE, core.clock(), mailbag=True)
    draft.put_run(partition.number, row)
    recipients = segments[0].recipients if len(segments) == 1 else None
    run = Run.of(row, partition.number, [segment.front for segment in segments], recipients)
    draft.applies.append(partial(enter_runs, core, partition, (run,)))


def put_small_mailbag(
    core: Core, draft: RequestDraft, segment: EncodedSegment, fingerprints: Sequence[int], now: int
) -> int:
    """Put a mailbag of one segment into the draft, number its messages, and return the number of the first."""
    number, count, length, front = segment.group, segment.rows, segment.length, segment.front
    first, blob = draft.add_mailbag(number, count)
    content = b"".join((front, *segment.rest))
    draft.blobs.append((blob, (content,)))
    place = SegmentRow(blob.number, length, len(front), count)
    row = RunRow(blob.number, first, first + count - 1, (place,), RunState.VISIBLE, now, True)
    draft.put_run(number, row)
    kept = content if length <= limits.RUN_KEPT_BYTES_MAX else None
    run = Run(row, (StoredSegment(blob, first, front),), segment.recipients, kept)
    draft.applies.append(partial(_enter_small, core, core.partitions[number], run, length, fingerprints))
    return first


def put_shelf(core: Core, draft: RequestDraft, partition: Partition, runs: Sequence[Run], shelf: Run | None) -> None:
    """Replace the rows of the merged runs with the row of their shelf; None if no message of theirs is left."""
    merged_away = {run.row.identity for run in runs}
    if not merged_away <= {run.row.identity for run in partition.runs}:
        raise Stale
    lost = _feed_loses(core, partition, runs, shelf)
    # A shelf of several segments cannot be read in number order, so its runs stay for the feed.
    too_large = shelf is not None and len(shelf.segments) > 1
    kept = (
        [run.row for run in runs if run.row.last > lost and _serves_feed(core, partition, run.row)] if too_large else []
    )
    if lost:
        draft.add_feed_gone(partition.number, lost)
    for run in runs:
        draft.delete(partition.number, Space.RUN, run_key(run.row))
    feed = [msgspec.structs.replace(row, state=RunState.FEED) for row in kept]
    for row in feed:
        draft.put_run(partition.number, row)
    if shelf is not None:
        draft.put_run(partition.number, shelf.row)
    draft.counters[partition.number] = draft.count(partition.number)
    stays = {row.identity for row in feed}
    gone = [stored.blob for run in runs if run.row.identity not in stays for stored in run.segments]
    draft.applies.append(lambda: _apply_swap(core, partition, merged_away, shelf, feed, gone))


def _serves_feed(core: Core, partition: Partition, row: RunRow) -> bool:
    """Whether a run that is merged into a large shelf is kept for the feed.

    A run whose parts are kept already is not: the feed must not show a message twice.
    """
    return not _kept_parts(partition, row) and _within_reach(core, row) and in_order(row)


def _kept_parts(partition: Partition, row: RunRow) -> list[RunRow]:
    """The runs kept for the feed that overlap a run's numbers."""
    return [kept for kept in partition.feed_runs if kept.first <= row.last and kept.last >= row.first]


def _within_reach(core: Core, row: RunRow) -> bool:
    return core.clock() - row.made_at < core.settings.feed_reach_seconds * 1_000_000


def _feed_loses(core: Core, partition: Partition, runs: Sequence[Run], shelf: Run | None) -> int:
    """The last number that the feed can no longer show once these runs have become a shelf; 0 if it loses nothing.

    A shelf of one segment serves the feed as its runs did. A larger shelf cannot be read in number order. The feed then
    loses the messages of the runs that could be, unless the runs, or their parts from an earlier merge, stay in
    `feed_runs`. Retention removes such parts in number order, so everything before the first remaining part is lost.
    """
    if shelf is None or len(shelf.segments) == 1:
        return 0
    gone = 0
    for run in runs:
        parts = _kept_parts(partition, run.row)
        if not in_order(run.row):
            continue
        begin = min((kept.first for kept in parts), default=run.row.first)
        if begin > run.row.first:
            gone = max(gone, begin - 1)
        elif not parts and not _within_reach(core, run.row):
            gone = max(gone, run.row.last)
    return gone


def _apply_swap(
    core: Core,
    partition: Partition,
    merged_away: set[int],
    shelf: Run | None,
    feed: Sequence[RunRow],
    gone: Sequence[BlobKey],
) -> None:
    left = [run for run in partition.runs if run.row.identity not in merged_away]
    if shelf is not None:
        left.append(shelf)
        left.sort(key=lambda run: run.row.first)
    # Set `feed_runs` before `runs`: a reader of the feed must find each message in one of the two.
    partition.feed_runs = tuple(sorted((*partition.feed_runs, *feed), key=lambda row: row.first))
    partition.runs = tuple(left)
    core.memory(Unfiled).note(partition)
    core.pins.bury(gone)


def _enter_small(core: Core, partition: Partition, run: Run, length: int, fingerprints: Sequence[int]) -> None:
    partition.remember_few(fingerprints, run.row.first)
    partition.runs = (*partition.runs, run)
    _note(core, partition, 1 if tier_of(length) == 0 else limits.FILING_HANDFUL)


def enter_runs(core: Core, partition: Partition, runs: Sequence[Run]) -> None:
    """Add runs to the catalog, and wake filing when enough have gathered."""
    partition.runs = (*partition.runs, *runs)
    _note(core, partition, sum([1 if tier_of(run.row.length) == 0 else limits.FILING_HANDFUL for run in runs]))


def _note(core: Core, partition: Partition, fresh: int) -> None:
    """Count added runs instead of examining all runs, which would be too slow for every small publish."""
    unfiled = core.memory(Unfiled)
    unfiled.note(partition)
    partition.fresh_runs += fresh
    if partition.fresh_runs >= limits.FILING_HANDFUL and not unfiled.wanted.is_set():
        unfiled.wanted.set()
