"""The catalog: finds a recipient's drawers in the directories of a partition's visible runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from restante.errors import DataDamaged
from restante.limits import BLOCK_BYTES
from restante.model.storage.keys import Cabinet
from restante.model.storage.row_formats import DRAWER
from restante.model.storage.run import Run, StoredSegment
from restante.model.storage.segment import Segment, block_checks


@dataclass(frozen=True, slots=True)
class DrawerPlace:
    """One drawer of a cabinet: the location and the sequence numbers of its rows."""

    stored: StoredSegment
    drawer: int
    row: int
    count: int
    first: int
    last: int
    earliest_expiry: int


Mailbox = dict[Cabinet, list[DrawerPlace]]
"""The drawers of one recipient by cabinet, in number order."""


def mailbox(runs: Sequence[Run], recipient: str, recipient_hash: int) -> Mailbox:
    """The drawers of a recipient. Names are compared too, because hashes of recipients may collide."""
    found: Mailbox = {}
    key = np.uint64(recipient_hash)
    for run in runs:
        if run.recipients is not None and recipient_hash not in run.recipients:
            continue
        for stored in _candidates(run, key):
            _collect(found, stored, recipient, key)
    return found


def _candidates(run: Run, key: np.uint64) -> Sequence[StoredSegment]:
    """The segments of a run that may hold a recipient."""
    if len(run.segments) == 1:
        return run.segments
    first = max(0, int(np.searchsorted(run.first_hash, key, side="left")) - 1)
    last = int(np.searchsorted(run.first_hash, key, side="right"))
    return run.segments[first:last]


def damaged_directory(stored: StoredSegment, first: int, last: int) -> DataDamaged:
    """The error for recipients that may be in the lines first to last (exclusive) of a directory, some of which are damaged."""
    block = _bad_block(stored.segment, first, last)
    what = "frame" if block is None else f"directory (block {block} of the ledger)"
    return DataDamaged(
        f"The {what} of run {stored.blob.number} (partition {stored.blob.partition}) fails its checksum where the "
        "recipient may lie. Run `restante doctor`, and restore the data folder from a backup.",
        partition=stored.blob.partition,
        run=stored.blob.number,
        block=block,
        drawers=(),
    )


def _bad_block(segment: Segment, first: int, last: int) -> int | None:
    """The damaged block that affects these lines: their own, or a later one, because the texts come after all lines.

    None if not even the checksums can be read.
    """
    if segment.damaged is None or not len(segment.checks):
        return None
    found = block_checks(segment.front)
    bad = np.flatnonzero(found != segment.checks[: len(found)])
    line = first + int(np.argmax(segment.damaged[first:last]))
    after = int(np.searchsorted(bad, line * DRAWER.itemsize // BLOCK_BYTES))
    return int(bad[min(after, len(bad) - 1)])


def _collect(found: Mailbox, stored: StoredSegment, recipient: str, key: np.uint64) -> None:
    segment = stored.segment
    low = int(segment.recipient_hash.searchsorted(key, side="left"))
    high = int(segment.recipient_hash.searchsorted(key, side="right"))
    if segment.damaged is not None and segment.damaged[max(0, low - 1) : high].any():
        raise damaged_directory(stored, max(0, low - 1), high)
    if low == high:
        return
    lines = segment.drawers[low:high].tolist()
    for drawer, line in enumerate(lines, low):
        _, _, _, expiry, _, row, count, first, last, _, origin, kind, _ = line
        if segment.recipients[drawer].as_py() != recipient:
            continue
        cabinet = Cabinet(recipient, segment.names.origins[origin], segment.names.kinds[kind])
        place = DrawerPlace(stored, drawer, row, count, stored.base + first, stored.base + last, expiry)
        found.setdefault(cabinet, []).append(place)
