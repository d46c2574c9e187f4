"""The catalog: which drawers hold which cabinet's messages, from the directories of a partition's visible runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from restante.errors import DataDamaged
from restante.model.keys import Cabinet
from restante.model.run import Run, Stored


@dataclass(frozen=True, slots=True)
class Place:
    """One drawer of a cabinet: where its rows lie and which sequence numbers they have."""

    stored: Stored
    drawer: int
    row: int
    count: int
    first: int
    last: int
    earliest_expiry: int


Mailbox = dict[Cabinet, list[Place]]
"""The drawers of one recipient by cabinet, in number order."""


def mailbox(runs: Sequence[Run], recipient: str, recipient_hash: int) -> Mailbox:
    """The drawers of a recipient. Texts are compared: a recipient whose hash collides is not mixed in."""
    found: Mailbox = {}
    key = np.uint64(recipient_hash)
    for run in runs:
        for stored in _candidates(run, key):
            _collect(found, stored, recipient, key)
    return found


def _candidates(run: Run, key: np.uint64) -> Sequence[Stored]:
    """The segments of a run that may hold a recipient."""
    if len(run.segments) == 1:
        return run.segments
    first = max(0, int(np.searchsorted(run.first_hash, key, side="left")) - 1)
    last = int(np.searchsorted(run.first_hash, key, side="right"))
    return run.segments[first:last]


def _collect(found: Mailbox, stored: Stored, recipient: str, key: np.uint64) -> None:
    segment = stored.segment
    low = int(segment.recipient_hash.searchsorted(key, side="left"))
    high = int(segment.recipient_hash.searchsorted(key, side="right"))
    if segment.damaged is not None and segment.damaged[max(0, low - 1) : high].any():
        raise DataDamaged(
            f"The directory of blob {stored.blob.number} in partition {stored.blob.partition} is damaged where "
            f"recipient {recipient!r} may lie. Run `restante doctor`, and restore the folder from a backup.",
            partition=stored.blob.partition,
            blob=stored.blob.number,
        )
    if low == high:
        return
    lines = segment.drawers[low:high].tolist()
    for drawer, line in enumerate(lines, low):
        _, _, _, expiry, _, row, count, first, last, _, origin, kind, _ = line
        if segment.recipients[drawer].as_py() != recipient:
            continue
        cabinet = Cabinet(recipient, segment.names.origins[origin], segment.names.kinds[kind])
        place = Place(stored, drawer, row, count, stored.base + first, stored.base + last, expiry)
        found.setdefault(cabinet, []).append(place)
