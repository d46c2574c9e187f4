"""The recipients with waiting messages, ordered by their number or by their age.

The mailboxes of the hub's own health checks are not listed, and no count includes their messages.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.calls.mailboxes import ListRecipients, Order
from restante.errors import DataDamaged, InvalidRequest
from restante.hub.engine.core import Core
from restante.hub.engine.damage import tell_once
from restante.hub.engine.partitions import Partition
from restante.hub.mailboxes.explain import backlog
from restante.hub.mailboxes.mailbox import look_for_mail
from restante.hub.mailboxes.overview import beyond_heads, overview
from restante.model.columns.arrow import Column, column_of, numbers_of, strings_of
from restante.model.mailboxes.answers import RecipientPage, RecipientSummary, moment
from restante.model.mailboxes.filters import check_filter
from restante.model.mailboxes.list_pages import check_order, page_size

PREFIX = "restante.health."


class HealthMail:
    """The partitions in which a message of a health check waits now. The commits that store and settle it update this."""

    def __init__(self) -> None:
        self._waiting: frozenset[int] = frozenset()
        self.forget_at = 0
        """When overdue checks are next forgotten, by the hub's clock."""

    def add(self, partition: int) -> None:
        self._waiting |= {partition}

    def remove(self, partition: int) -> None:
        self._waiting -= {partition}

    def count(self, partition: int) -> int:
        return int(partition in self._waiting)


def health_mailboxes(recipients: Column) -> NDArray[np.bool_]:
    """Which of these recipients are mailboxes of health checks."""
    found: NDArray[np.bool_] = numbers_of(pc.starts_with(recipients, PREFIX))
    return found


AGE_MAX = 5_000_000
"""The greatest age of a listing, in microseconds."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The recipients with waiting messages, as columns."""

    as_of: int
    recipient: pa.StringArray
    waiting: NDArray[np.int64]
    oldest: NDArray[np.int64]
    partition: NDArray[np.int64]


class Listings:
    """The last listing, renewed on demand when it is too old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Listing | None = None
        self._orders: dict[Order, NDArray[np.int64]] = {}

    def page(self, core: Core, call: ListRecipients) -> RecipientPage:
        order = call.order
        check_order(order)
        size, start = page_size(call.limit), _parse_token(call.after)
        with self._lock:
            listing, rows = self._current(core, order)
        if call.search is not None:
            rows = rows[_fitting(listing.recipient, call.search)[rows]]
        chosen = rows[start : start + size]
        summaries = zip(
            strings_of(listing.recipient.take(column_of(chosen))),
            listing.waiting[chosen].tolist(),
            listing.oldest[chosen].tolist(),
            listing.partition[chosen].tolist(),
            strict=True,
        )
        return RecipientPage(
            recipients=tuple(
                RecipientSummary(recipient=recipient, waiting=waiting, oldest=moment(oldest), partition=partition)
                for recipient, waiting, oldest, partition in summaries
            ),
            next=str(start + size) if start + size < len(rows) else None,
            as_of=moment(listing.as_of),
        )

    def _current(self, core: Core, order: Order) -> tuple[Listing, NDArray[np.int64]]:
        now = core.clock()
        if self._last is None or not 0 <= now - self._last.as_of < AGE_MAX:
            self._last, self._orders = _list(core, now), {}
        if order not in self._orders:
            self._orders[order] = _ordered(self._last, order)
        return self._last, self._orders[order]


def _fitting(names: pa.StringArray, search: str) -> NDArray[np.bool_]:
    """Which names contain this text."""
    check_filter("search", search)
    fits: NDArray[np.bool_] = pc.match_substring(names, search, ignore_case=True).to_numpy(zero_copy_only=False)
    return fits


def _parse_token(after: str | None) -> int:
    if after is None:
        return 0
    if not (after.isascii() and after.isdecimal() and len(after) <= 18):
        raise InvalidRequest(f"after must be the `next` of the page before, not {after[:64]!r}.", parameter="after")
    return int(after)


def _ordered(listing: Listing, order: Order) -> NDArray[np.int64]:
    """The order of rows: most waiting first, or oldest first; ties by the recipient's name."""
    name = pc.rank(listing.recipient, tiebreaker="dense").to_numpy() if len(listing.waiting) else np.zeros(0, np.int64)
    key = -listing.waiting if order == "waiting" else listing.oldest
    return np.lexsort([name, key])


def _list(core: Core, now: int) -> Listing:
    with core.pins.reading():
        parts = [_list_partition(core, partition, now) for partition in core.partitions]
    return Listing(
        now,
        pa.concat_arrays([recipient for recipient, _, _ in parts]),
        np.concatenate([waiting for _, waiting, _ in parts]),
        np.concatenate([oldest for _, _, oldest in parts]),
        np.repeat(np.array(core.owned), [len(waiting) for _, waiting, _ in parts]),
    )


def _list_partition(
    core: Core, partition: Partition, now: int
) -> tuple[pa.StringArray, NDArray[np.int64], NDArray[np.int64]]:
    seen = overview(core, partition)
    beyond = beyond_heads(core, partition, seen)
    codes = seen.recipients.dictionary_encode()
    code = np.asarray(codes.indices).astype(np.int64)
    exact = _exceptions(seen.earliest_expiry <= now, seen.rank, seen.head_rank, [bool(h.apart) for h in seen.decoded])
    exact &= ~seen.action
    dictionary: Column = codes.dictionary
    recipients = len(dictionary)
    waiting = np.bincount(code, np.where(exact | seen.action, 0, beyond.count), recipients).astype(np.int64)
    oldest = np.full(recipients, 2**63 - 1, np.int64)
    plain = (beyond.count > 0) & ~exact & ~seen.action
    np.minimum.at(oldest, code[plain], beyond.published[plain])
    for index in np.unique(code[exact]).tolist():
        try:
            _count_exactly(core, dictionary[index].as_py(), index, waiting, oldest, now)
        except DataDamaged as error:
            # Recipients that can be counted without reading are still listed.
            tell_once(partition, f"The listing of some recipients of partition {partition.number}", error)
    waiting[health_mailboxes(dictionary)] = 0
    rows = np.flatnonzero(waiting)
    names: pa.StringArray = dictionary.take(column_of(rows))
    return names, waiting[rows], oldest[rows]


def _exceptions(
    expiring: NDArray[np.bool_], rank: NDArray[np.int64], head_rank: NDArray[np.int64], apart: list[bool]
) -> NDArray[np.bool_]:
    """The drawers of cabinets that must be counted message by message, because some expired or are settled apart."""
    odd = np.zeros(int(rank.max(initial=-1)) + 1 + len(head_rank), np.bool_)
    odd[rank[expiring]] = True
    odd[head_rank[np.array(apart, np.bool_)]] = True
    return odd[rank]


def _count_exactly(
    core: Core, recipient: str, index: int, waiting: NDArray[np.int64], oldest: NDArray[np.int64], now: int
) -> None:
    """Count a whole mailbox, cabinet by cabinet."""
    opened = look_for_mail(core, core.locate(recipient))
    found = [backlog(core, opened, cabinet, now) for cabinet in opened.places]
    waiting[index] = sum(entry.messages for entry in found)
    oldest[index] = min((entry.oldest for entry in found if entry.messages), default=2**63 - 1)
