"""Acknowledging items. The acknowledgements of a commit are planned together, batch by batch, in order of arrival.

Exact batches have a bit for each item. For an estimated batch the commit only determines how many items were named. Its
counter is outside the store, so the caller's thread counts after the request has been answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.errors import RestanteError
from restante.hub.batches.batch_counts import conclude, count, counts_of, home_of, row_of
from restante.hub.batches.hand_items import HandItems, entry_key, items_of
from restante.hub.batches.memory import BatchMemory
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.core import Core, uuid_text
from restante.hub.engine.plan import CommitPlan, RequestDraft
from restante.model.access.access import Grant, may_use
from restante.model.batches.acknowledged import encode_entry
from restante.model.batches.batch import BatchRow, Counts
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch, Counting
from restante.model.batches.items import Named, NamedItems, NamedRange
from restante.model.batches.newly_acknowledged import AskedItems, newly
from restante.model.columns.bits import BitPositions, Bits
from restante.model.storage.changes import Space

_ITEM_BYTES = 8
_BRIEF_ITEMS = 1_024
_BRIEF_GROUPS = 16
_ACTIVITY_EVERY = 60 * 1_000_000
"""The interval at which calls that set no bit, such as those for estimated batches and repeated ones, record activity."""
_ACTIVITY_SHARE = 10
"""The interval is at most this fraction of the retention of batches."""


class Acknowledge(CommitRequest[Acknowledged]):
    """A request to acknowledge items."""

    __slots__ = ("caller", "complete", "estimated", "named", "new", "unknown", "unknown_ranges")

    def __init__(self, named: Named, caller: Grant) -> None:
        count = sum([len(group.index) for group in named.groups]) + 2 * len(named.ranges)
        super().__init__(count * _ITEM_BYTES)
        self.brief = count <= _BRIEF_ITEMS and len(named.groups) <= _BRIEF_GROUPS
        self.named = named
        self.caller = caller
        self.new = 0
        self.complete: list[CompleteBatch] = []
        self.unknown: list[tuple[NamedItems, NDArray[np.bool_] | None]] = []
        """Groups with masks of their unknown items; None means all."""
        self.unknown_ranges: list[NamedRange] = []
        self.estimated: dict[bytes, int] = {}
        """How many items of each estimated batch were named. The caller counts them."""

    @property
    def is_to_be_counted(self) -> bool:
        """Whether items of estimated batches were named, which the caller must count."""
        return self.error is None and bool(self.estimated)

    def reset(self) -> None:
        self.new = 0
        self.complete, self.unknown, self.unknown_ranges, self.estimated = [], [], [], {}

    def conclude(self) -> Acknowledged:
        """The answer, in the order of the call."""
        texts = sorted([text for named, mask in self.unknown for text in _texts(self.named.items, named, mask)])
        ranges = sorted(self.unknown_ranges, key=lambda one: one.place)
        return Acknowledged(
            acknowledged=self.new,
            complete=tuple(self.complete),
            unknown=(*(text for _, text in texts), *(one.sent for one in ranges)),
        )


def _texts(items: Sequence[str], named: NamedItems, mask: NDArray[np.bool_] | None) -> list[tuple[int, str]]:
    """The ids of items as they were sent, or would be written as ids, each with its place."""
    chosen = slice(None) if mask is None else mask
    places, indices = named.places()[chosen].tolist(), named.index[chosen].tolist()
    if named.written is None:
        return [(place, items[place]) for place in places]
    return [(place, f"{named.written}:{index}") for place, index in zip(places, indices, strict=True)]


@dataclass(slots=True)
class _Share:
    """The items of one batch that one request names."""

    request: Acknowledge
    groups: list[NamedItems] = field(default_factory=list)
    ranges: list[NamedRange] = field(default_factory=list)

    def refuse(self) -> None:
        self.request.unknown.extend((named, None) for named in self.groups)
        self.request.unknown_ranges.extend(self.ranges)


def plan_acknowledgements(
    core: Core, plan: CommitPlan, requests: Sequence[CommitRequest[object]]
) -> list[CommitRequest[object]]:
    """Plan the acknowledgements among these requests, and return the other requests."""
    own = [request for request in requests if isinstance(request, Acknowledge)]
    if not own:
        return list(requests)
    for request in own:
        request.reset()
    for batch_id, shares in _by_batch(own).items():
        draft = plan.draft()
        try:
            _plan_batch(core, draft, batch_id, shares)
        except RestanteError as error:  # The batch cannot be read: only the requests that name it fail.
            for share in shares:
                share.request.error = error
        else:
            plan.accept(draft)
    for request in own:
        request.result = request.conclude()
    return [request for request in requests if not isinstance(request, Acknowledge)]


def _by_batch(requests: Sequence[Acknowledge]) -> dict[bytes, list[_Share]]:
    """The named items of each batch, request by request."""
    batches: dict[bytes, list[_Share]] = {}
    for request in requests:
        shares: dict[bytes, _Share] = {}
        for group in request.named.groups:
            _share(shares, group.batch, request).groups.append(group)
        for named in request.named.ranges:
            _share(shares, named.batch, request).ranges.append(named)
        for batch_id, share in shares.items():
            batches.setdefault(batch_id, []).append(share)
    return batches


def _share(shares: dict[bytes, _Share], batch_id: bytes, request: Acknowledge) -> _Share:
    found = shares.get(batch_id)
    if found is None:
        found = shares[batch_id] = _Share(request)
    return found


def _plan_batch(core: Core, draft: RequestDraft, batch_id: bytes, shares: Sequence[_Share]) -> None:
    row = row_of(core, draft, batch_id)
    shares = _allowed(row, shares)
    if row is None or not shares:
        return
    home = home_of(core, batch_id)
    items, counts = items_of(core, batch_id), counts_of(core, draft, home, batch_id)
    known = [_known(share, items, counts.items) for share in shares]
    if row.counting is Counting.ESTIMATED and not row.completed_at:
        for share, own in zip(shares, known, strict=True):
            if own.named:
                share.request.estimated[batch_id] = own.named
    elif not row.completed_at:
        row = _acknowledge(core, draft, items, row, shares, known)
    if core.clock() - counts.active_at > _activity_every(core):
        count(core, draft, home, batch_id, Counts())
    if row.completed_at:
        done = CompleteBatch(id=uuid_text(batch_id), key=row.key)
        for share in shares:
            share.request.complete.append(done)


def _activity_every(core: Core) -> int:
    kept = min(core.settings.open_batch_retention_seconds, core.settings.sealed_batch_retention_seconds)
    return min(_ACTIVITY_EVERY, round(kept * 1_000_000) // _ACTIVITY_SHARE)


def _allowed(row: BatchRow | None, shares: Sequence[_Share]) -> list[_Share]:
    """The shares of callers that may use the batch. For others its items are unknown."""
    allowed = []
    for share in shares:
        if row is not None and may_use(share.request.caller, row.owner):
            allowed.append(share)
        else:
            share.refuse()
    return allowed


def _known(share: _Share, items: HandItems, total: int) -> AskedItems:
    """The positions of the named items. Items that do not exist are added to the request's unknown ones."""
    found = AskedItems()
    for named in share.groups:
        inside = named.index < items.groups.size(named.group, total)
        if inside.all():
            found.positions.append(named.index + named.group)
            continue
        share.request.unknown.append((named, ~inside))
        found.positions.append(named.index[inside] + named.group)
    found.named = sum(map(len, found.positions))
    for one in share.ranges:
        size = items.groups.size(one.group, total)
        start, stop = min(one.sent.start, size), min(one.sent.upto, size)
        if stop < one.sent.upto:
            share.request.unknown_ranges.append(one)
        if start < stop:
            found.ranges.append((one.group + start, one.group + stop))
    found.unite_ranges()
    return found


def _acknowledge(
    core: Core,
    draft: RequestDraft,
    items: HandItems,
    row: BatchRow,
    shares: Sequence[_Share],
    known: Sequence[AskedItems],
) -> BatchRow:
    """Set the bits that are not set yet; return the row of the batch, which may be complete now."""
    new, positions, ranges, trial = newly(items.bits, known)
    if not any(new):
        return conclude(core, draft, items.batch_id, row) or row
    for share, own in zip(shares, new, strict=True):
        share.request.new += own
    value = encode_entry(positions, ranges)
    draft.put(items.home, Space.BATCH_ACKNOWLEDGED, entry_key(items.batch_id, items.ahead + 1), value)
    count(core, draft, items.home, items.batch_id, Counts(acknowledged=sum(new)))
    draft.applies.append(partial(_apply, core, items, positions, trial, len(value), sum(new)))
    return conclude(core, draft, items.batch_id, row) or row


def _apply(core: Core, items: HandItems, positions: BitPositions, trial: Bits | None, size: int, new: int) -> None:
    items.apply(positions, trial, size)
    core.memory(BatchMemory).items_acknowledged += new


assert limits.ACKNOWLEDGED_ITEMS_MAX * _ITEM_BYTES <= limits.COMMIT_BYTES_MAX
