"""Putting mailbags into a commit: their blobs, their run, and after the commit the catalog's entry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from restante import limits
from restante.hub.engine.core import Core
from restante.hub.engine.partitions import Partition, Unfiled
from restante.hub.engine.plan import RequestDraft
from restante.model.storage.changes import BlobKey
from restante.model.storage.run import Run, RunRow, RunState, SegmentRow, StoredSegment, tier_of
from restante.model.storage.segment_frame import EncodedSegment


def put_mailbag(
    core: Core,
    draft: RequestDraft,
    segments: Sequence[EncodedSegment],
    first: int,
    count: int,
    written: Sequence[BlobKey] = (),
) -> None:
    """A mailbag into the draft; it is in the catalog after the commit. Its blobs may be `written` already."""
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
    """A mailbag of few messages, which is one segment, numbered in the draft; gives the number of its first message."""
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


def _enter_small(core: Core, partition: Partition, run: Run, length: int, fingerprints: Sequence[int]) -> None:
    partition.remember_few(fingerprints, run.row.first)
    partition.runs = (*partition.runs, run)
    _note(core, partition, 1 if tier_of(length) == 0 else limits.FILING_HANDFUL)


def enter_runs(core: Core, partition: Partition, runs: Sequence[Run]) -> None:
    """Add runs to the catalog, and wake filing when there is enough for it."""
    partition.runs = (*partition.runs, *runs)
    _note(core, partition, sum([1 if tier_of(run.row.length) == 0 else limits.FILING_HANDFUL for run in runs]))


def _note(core: Core, partition: Partition, fresh: int) -> None:
    """Note so many runs more: a look at all of them is dear, and one tiny run more changes little."""
    unfiled = core.memory(Unfiled)
    unfiled.note(partition)
    partition.fresh_runs += fresh
    if partition.fresh_runs >= limits.FILING_HANDFUL and not unfiled.wanted.is_set():
        unfiled.wanted.set()
