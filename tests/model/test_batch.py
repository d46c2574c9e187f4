"""When a batch is complete, and when it may go."""

from __future__ import annotations

import msgspec
import pytest

from restante import limits
from restante.errors import BatchSealed, BatchUnknown, InvalidRequest
from restante.model.batches.batch import (
    BatchRow,
    Counts,
    added_up,
    check_count,
    check_key,
    check_known,
    check_open,
    decode_batch,
    decode_counts,
    encode_batch,
    encode_counts,
    idle_since,
    is_completing,
    is_reapable,
    state_of,
)
from restante.model.batches.batch_answers import BatchState, Counting

_ID = bytes(16)
_OPEN = BatchRow("night", Counting.EXACT, 100)
_SEALED = msgspec.structs.replace(_OPEN, sealed_at=200)
_COMPLETE = msgspec.structs.replace(_SEALED, completed_at=300)
_PATIENCE = {"open_for": 1_000, "sealed_for": 5_000}


def test_a_batch_is_open_then_sealed_then_complete() -> None:
    states = [state_of(row) for row in (_OPEN, _SEALED, _COMPLETE)]
    assert states == [BatchState.OPEN, BatchState.SEALED, BatchState.COMPLETE]


@pytest.mark.parametrize(
    "pending",
    [Counts(items=1), Counts(added=1), Counts(items=3, acknowledged=2), Counts(added=3, collected=1, expired=1)],
)
def test_nothing_completes_while_something_is_pending(pending: Counts) -> None:
    assert pending.pending == 1
    assert not is_completing(_SEALED, pending)


@pytest.mark.parametrize(
    "done",
    [
        Counts(),
        Counts(items=2, acknowledged=2),
        Counts(added=3, collected=1, expired=1, withdrawn=1),
        Counts(items=1, acknowledged=1, duplicates=5, duplicates_waiting=5),
        Counts(items=2, acknowledged=7),
    ],
)
def test_complete_is_sealed_with_nothing_pending_and_only_once(done: Counts) -> None:
    assert is_completing(_SEALED, done)
    assert not is_completing(_OPEN, done)
    assert not is_completing(_COMPLETE, done)


def test_too_many_acknowledgements_of_an_estimated_batch_hide_no_message_that_waits() -> None:
    assert Counts(items=2, acknowledged=7, added=4, collected=1).pending == 3


def test_counts_of_partitions_add_up() -> None:
    total = added_up([Counts(1, 2, 3, 4, 5, 6, 7, 8, 9), Counts(10, 20, 30, 40, 50, 60, 70, 80, 5)])
    assert total == Counts(11, 22, 33, 44, 55, 66, 77, 88, 9)


def test_each_state_has_a_patience_of_its_own() -> None:
    def reapable(row: BatchRow, now: int, counts: Counts | None = None) -> bool:
        return is_reapable(row, counts or Counts(), now=now, **_PATIENCE)

    assert not reapable(_OPEN, 1_099)
    assert reapable(_OPEN, 1_100)
    assert not reapable(_SEALED, 5_199)
    assert reapable(_SEALED, 5_200)
    assert not reapable(_COMPLETE, 5_299)
    assert reapable(_COMPLETE, 5_300)
    assert not reapable(_OPEN, 1_100, Counts(active_at=101))
    assert idle_since(_OPEN, Counts(active_at=101)) == 101


def test_who_is_bound_to_messages_that_wait_is_never_reaped() -> None:
    assert not is_reapable(_SEALED, Counts(added=2, collected=1), now=10**9, **_PATIENCE)
    assert is_reapable(_SEALED, Counts(added=2, collected=2, items=5), now=10**9, **_PATIENCE)


def test_who_is_not_there_or_sealed_is_said_so() -> None:
    with pytest.raises(BatchUnknown):
        check_known(None, _ID)
    with pytest.raises(BatchUnknown):
        check_known(msgspec.structs.replace(_OPEN, deleted_at=1), _ID)
    with pytest.raises(BatchSealed):
        check_open(_SEALED, _ID)
    assert check_open(_OPEN, _ID) == _OPEN


@pytest.mark.parametrize("count", [0, -1, True, 1.0, limits.BATCH_ITEMS_MAX + 1])
def test_what_cannot_be_added_is_refused(count: int) -> None:
    with pytest.raises(InvalidRequest):
        check_count(count, 0)


def test_a_batch_has_room_for_so_many_in_all() -> None:
    check_count(limits.BATCH_ITEMS_MAX - 5, 5)
    with pytest.raises(InvalidRequest):
        check_count(limits.BATCH_ITEMS_MAX - 4, 5)


@pytest.mark.parametrize(("key", "unique"), [("", False), (" ", False), ("k" * 257, False), (None, True)])
def test_keys_that_are_none_are_refused(key: str | None, unique: bool) -> None:
    with pytest.raises(InvalidRequest):
        check_key(key, unique=unique)


def test_rows_read_back_as_they_were() -> None:
    assert decode_batch(encode_batch(_COMPLETE)) == _COMPLETE
    counts = Counts(1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert decode_counts(encode_counts(counts)) == counts
