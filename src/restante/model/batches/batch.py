"""Batches: what is stored of them, and when one is complete, or may go.

A batch counts two kinds of items. Those added by hand are acknowledged by their ids. Messages bound to it are counted
in the partition that holds them: added when published, done when collected, expired or withdrawn. Complete ⇔ sealed and
nothing of either kind is pending.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import msgspec

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import BatchSealed, BatchUnknown, DataDamaged, InvalidRequest
from restante.model.access.access import EVERYTHING, NO_OWNER, Grant, may_see, may_use
from restante.model.batches.batch_answers import BatchState, Counting


class BatchRow(msgspec.Struct, frozen=True, array_like=True):
    """The facts of a batch that are fixed, or happen to it once. Kept in the partition of its id. Times in microseconds."""

    key: str | None
    counting: Counting
    opened_at: int
    unique: bool = False
    webhook_url: str = ""
    webhook_secret: bytes = b""
    secret_made: bool = False
    notify: str = ""
    sealed_at: int = 0
    completed_at: int = 0
    deleted_at: int = 0
    """When the batch was deleted: from then on it is unknown, and what else is stored of it goes in slices."""
    swept: bool = False
    """Whether nothing but this row is left of the batch. The row stays a while, so that its id is not given to another batch."""
    owner: bytes = NO_OWNER


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """The counts that one partition has of a batch. Items by hand are counted in the partition of the batch's id."""

    items: int = 0
    acknowledged: int = 0
    added: int = 0
    """Messages bound to it that were newly stored."""
    collected: int = 0
    expired: int = 0
    withdrawn: int = 0
    duplicates: int = 0
    duplicates_waiting: int = 0
    """How many stored messages still wait whose duplicates were published under this batch."""
    active_at: int = 0

    @property
    def hand_pending(self) -> int:
        return self.items - self.acknowledged

    @property
    def bound_pending(self) -> int:
        return self.added - self.collected - self.expired - self.withdrawn

    @property
    def pending(self) -> int:
        """Estimated batches count acknowledgements more often than there are items; none is pending then."""
        return max(0, self.hand_pending) + self.bound_pending


NOTHING = Counts()


def added_up(counts: Iterable[Counts]) -> Counts:
    """The counts of all partitions as one."""
    total = NOTHING
    for other in counts:
        total = plus(total, other)
    return total


def plus(one: Counts, more: Counts) -> Counts:
    return Counts(
        one.items + more.items,
        one.acknowledged + more.acknowledged,
        one.added + more.added,
        one.collected + more.collected,
        one.expired + more.expired,
        one.withdrawn + more.withdrawn,
        one.duplicates + more.duplicates,
        one.duplicates_waiting + more.duplicates_waiting,
        max(one.active_at, more.active_at),
    )


def state_of(row: BatchRow) -> BatchState:
    if row.completed_at:
        return BatchState.COMPLETE
    return BatchState.SEALED if row.sealed_at else BatchState.OPEN


def is_completing(row: BatchRow, total: Counts) -> bool:
    """Whether a batch becomes complete now: it is sealed, nothing is pending, and that has not been recorded before."""
    return bool(row.sealed_at) and not row.completed_at and total.pending == 0


def idle_since(row: BatchRow, total: Counts) -> int:
    return max(row.opened_at, row.sealed_at, row.completed_at, total.active_at)


def is_reapable(row: BatchRow, total: Counts, *, now: int, open_for: int, sealed_for: int) -> bool:
    """Whether nobody has used the batch for long. A batch bound to messages that wait, or are set aside, stays."""
    patience = sealed_for if row.sealed_at else open_for
    return total.bound_pending == 0 and idle_since(row, total) + patience <= now


def check_known(row: BatchRow | None, batch_id: bytes, *, allowed: bool = True) -> BatchRow:
    """The row of a batch, if there is one and the caller is allowed to know of it."""
    if row is None or row.deleted_at or not allowed:
        text = str(uuid.UUID(bytes=batch_id))
        raise BatchUnknown(f"There is no batch {text}. It may have been deleted, or reaped.", batch=text)
    return row


def check_visible(row: BatchRow | None, batch_id: bytes, caller: Grant) -> BatchRow:
    """The row of a batch that the caller may look at."""
    return check_known(row, batch_id, allowed=row is not None and may_see(caller, row.owner))


def check_usable(row: BatchRow | None, batch_id: bytes, caller: Grant) -> BatchRow:
    """The row of a batch that the caller may use."""
    return check_known(row, batch_id, allowed=row is not None and may_use(caller, row.owner))


def check_open(row: BatchRow | None, batch_id: bytes, caller: Grant = EVERYTHING) -> BatchRow:
    """The row of a batch that takes more from the caller."""
    known = check_usable(row, batch_id, caller)
    if known.sealed_at:
        text = str(uuid.UUID(bytes=batch_id))
        raise BatchSealed(f"Batch {text} is sealed: nothing can be added. Open another one.", batch=text)
    return known


def check_count(count: int, already: int) -> None:
    """How many items may be added to a batch that has some."""
    if type(count) is not int or count < 1:
        raise InvalidRequest(f"count must be a whole number of at least 1, not {count!r}.", parameter="count")
    if already + count > limits.BATCH_ITEMS_MAX:
        raise InvalidRequest(
            f"A batch has at most {limits.BATCH_ITEMS_MAX:,} items: it has {already:,}, and {count:,} more are too many.",
            parameter="count",
        )


def check_key(key: str | None, *, unique: bool) -> None:
    if key is None:
        if unique:
            raise InvalidRequest("unique is about the key: give one.", parameter="key")
        return
    if not key.strip() or len(key) > limits.BATCH_KEY_CHARACTERS_MAX:
        raise InvalidRequest(
            f"A batch's key is a text of 1 to {limits.BATCH_KEY_CHARACTERS_MAX} characters, not blank.", parameter="key"
        )


_encoder = msgspec.msgpack.Encoder()
_row_decoder = packed_decoder(BatchRow)
_counts_decoder = packed_decoder(Counts)


def encode_batch(row: BatchRow) -> bytes:
    return _encoder.encode(row)


def decode_batch(value: bytes) -> BatchRow:
    try:
        return _row_decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataDamaged(f"The row of a batch cannot be read: {error}. Run `restante doctor`.") from error


def encode_counts(counts: Counts) -> bytes:
    return _encoder.encode(counts)


def decode_counts(value: bytes) -> Counts:
    try:
        return _counts_decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise DataDamaged(f"The counts of a batch cannot be read: {error}. Run `restante doctor`.") from error
