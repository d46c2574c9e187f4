"""Free-standing batches in the hub: keys, requests, reaping, folding, memory, and what the doctor says."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from restante.assembly import open_hub, open_store
from restante.calls.batches import (
    AcknowledgeItems,
    AddItems,
    DeleteBatch,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    ReadBatch,
    ReapBatches,
    SealBatch,
)
from restante.errors import BatchKeyUsed, BatchSealed, BatchUnknown, DataDamaged, InvalidItem, InvalidRequest
from restante.hub.batches.batch_counts import home_of
from restante.hub.batches.batch_upkeep import fold, tidy_leftovers
from restante.hub.batches.hand_items import HandItemsKnown, drop_quiet
from restante.hub.doctor.doctor import examine
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch import decode_batch, encode_batch
from restante.model.batches.batch_answers import BatchState, Counting, ItemRange, Webhook
from restante.model.columns.bits import SEGMENT_BITS
from restante.model.storage.changes import Changes, Space
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.batches.folding import fold_batches
from tests.hub.engines import FakeClock

_QUIET = Settings(partition_count=4, housekeeping_seconds=0, filing=False)
_HOUR = 3_600

Opener = Callable[[], OpenHub]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Opener]:
    """Opens the hub, having closed the one it gave before."""
    hubs: list[OpenHub] = []
    store = MemoryStore()

    def opener() -> OpenHub:
        nonlocal store
        for hub in hubs:
            hub.close()
        if request.param == "sqlite":
            hubs.append(open_hub(tmp_path, settings=_QUIET, clock=clock))
        else:
            store = store.survivor()
            hubs.append(open_hub(None, settings=_QUIET, clock=clock, store=store))
        return hubs[-1]

    yield opener
    for hub in hubs:
        hub.close()


def _ids(batch: str, group: str, *index: int) -> list[str]:
    return [f"{batch}:{group}:{one}" for one in index]


def _pending(hub: OpenHub, batch: str) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = hub.call(ListPendingItems(batch, after=after, limit=7))
        found += page.items
        after = page.next
        if after is None:
            return found


def test_a_key_may_be_used_again_unless_somebody_asks_for_it_alone(reopen: Opener) -> None:
    hub = reopen()
    first = hub.call(OpenBatch(key="night"))
    second = hub.call(OpenBatch(key="night"))
    with pytest.raises(BatchKeyUsed) as refused:
        hub.call(OpenBatch(key="night", unique=True))
    assert refused.value.details["batch"] in (first.id, second.id)
    hub.call(SealBatch(first.id))
    with pytest.raises(BatchKeyUsed):
        hub.call(OpenBatch(key="night", unique=True))
    hub.call(DeleteBatch(second.id))
    third = hub.call(OpenBatch(key="night", unique=True))
    assert {batch.id for batch in hub.call(ListBatches(key="night")).batches} == {first.id, third.id}


def test_one_key_that_begins_like_another_is_another(reopen: Opener) -> None:
    hub = reopen()
    hub.call(OpenBatch(key="night-2"))
    assert hub.call(OpenBatch(key="night", unique=True)).key == "night"


def test_a_proposal_may_be_repeated_but_not_changed(reopen: Opener) -> None:
    hub = reopen()
    proposed = str(uuid.uuid4())
    webhook = Webhook(url="https://receiver.example/done")
    opened = hub.call(OpenBatch(batch_id=proposed, key="a", unique=True, webhook=webhook))
    assert hub.call(OpenBatch(batch_id=proposed, key="a", unique=True, webhook=webhook)) == opened
    assert opened.webhook_secret is not None
    with pytest.raises(InvalidRequest):
        hub.call(OpenBatch(batch_id=proposed, key="b", unique=True, webhook=webhook))
    hub.call(SealBatch(proposed))
    with pytest.raises(InvalidRequest):
        hub.call(OpenBatch(batch_id=proposed, key="a", unique=True, webhook=webhook))


def test_a_repeated_add_adds_nothing(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    request = str(uuid.uuid4())
    first = hub.call(AddItems(batch, 5, request_id=request))
    assert hub.call(AddItems(batch, 5, request_id=request)) == first
    with pytest.raises(InvalidRequest):
        hub.call(AddItems(batch, 6, request_id=request))
    assert hub.call(AddItems(batch, 5, request_id=str(uuid.uuid4()))) != first
    hub = reopen()
    hub.call(SealBatch(batch))
    assert hub.call(AddItems(batch, 5, request_id=request)) == first
    with pytest.raises(BatchSealed):
        hub.call(AddItems(batch, 5, request_id=str(uuid.uuid4())))
    assert hub.call(ReadBatch(batch)).items == 10


def test_more_groups_than_a_row_holds_are_all_known_again(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    groups = [hub.call(AddItems(batch, 2)).groups[0] for _ in range(1_005)]
    hub = reopen()
    groups.append(hub.call(AddItems(batch, 2)).groups[0])
    assert len({group.id for group in groups}) == 1_006
    answer = hub.call(AcknowledgeItems([f"{batch}:{group.id}:1" for group in groups]))
    assert (answer.acknowledged, answer.unknown) == (1_006, ())
    assert len(_pending(hub, batch)) == 1_006


def test_what_is_not_there_is_reported_and_touches_nothing(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    first, second = hub.call(AddItems(batch, 3)).groups[0].id, hub.call(AddItems(batch, 3)).groups[0].id
    wrong = [*_ids(batch, first, 3), *_ids(batch, "1", 0), *_ids(str(uuid.uuid4()), first, 0)]
    answer = hub.call(AcknowledgeItems([wrong[0], *_ids(batch, first, 1), *wrong[1:]]))
    assert answer.acknowledged == 1
    assert answer.unknown == tuple(wrong)
    assert _pending(hub, batch) == [*_ids(batch, first, 0, 2), *_ids(batch, second, 0, 1, 2)]


def test_of_a_range_that_reaches_beyond_its_group_the_part_inside_counts(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    first, second = hub.call(AddItems(batch, 3)).groups[0].id, hub.call(AddItems(batch, 3)).groups[0].id
    beyond = ItemRange(group=f"{batch}:{first}", start=1, upto=5)
    answer = hub.call(AcknowledgeItems(ranges=[beyond]))
    assert (answer.acknowledged, answer.unknown) == (2, (beyond,))
    assert _pending(hub, batch) == [*_ids(batch, first, 0), *_ids(batch, second, 0, 1, 2)]


def test_a_malformed_id_refuses_the_whole_call(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    group = hub.call(AddItems(batch, 2)).groups[0].id
    with pytest.raises(InvalidItem):
        hub.call(AcknowledgeItems([*_ids(batch, group, 0), "nonsense"]))
    assert len(_pending(hub, batch)) == 2


def test_completion_is_decided_by_the_seal_or_by_the_last_item_and_told_again(reopen: Opener, clock: FakeClock) -> None:
    hub = reopen()
    early, late = hub.call(OpenBatch(key="early")).id, hub.call(OpenBatch(key="late")).id
    for batch in (early, late):
        hub.call(AddItems(batch, 2))
    assert hub.call(AcknowledgeItems(_ids(early, "0", 0, 1))).complete == ()
    assert hub.call(SealBatch(early)).complete
    assert not hub.call(SealBatch(late)).complete
    clock.advance(5)
    answer = hub.call(AcknowledgeItems([*_ids(late, "0", 0, 1), *_ids(early, "0", 0)]))
    assert {(done.id, done.key) for done in answer.complete} == {(early, "early"), (late, "late")}
    at = hub.call(ReadBatch(late)).completed_at
    clock.advance(5)
    again = hub.call(AcknowledgeItems(_ids(late, "0", 1)))
    assert (again.acknowledged, [done.id for done in again.complete]) == (0, [late])
    assert hub.call(SealBatch(late)).complete
    assert hub.call(ReadBatch(late)).completed_at == at


def test_an_empty_batch_is_complete_when_it_is_sealed(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    assert hub.call(SealBatch(batch)).complete
    assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE


def test_batches_nobody_uses_are_reaped_open_ones_sooner(reopen: Opener, clock: FakeClock) -> None:
    hub = reopen()
    orphan, sealed, used = (hub.call(OpenBatch(key=key)).id for key in ("orphan", "sealed", "used"))
    hub.call(AddItems(sealed, 1))
    hub.call(AddItems(used, 2))
    hub.call(SealBatch(sealed))
    clock.advance(1.5 * _HOUR)
    hub.call(AcknowledgeItems(_ids(used, "0", 0)))
    clock.advance(0.6 * _HOUR)
    assert [batch.id for batch in hub.call(ReapBatches(dry_run=True)).batches] == [orphan]
    assert [batch.key for batch in hub.call(ReapBatches()).batches] == ["orphan"]
    assert {batch.id for batch in hub.call(ListBatches()).batches} == {sealed, used}
    clock.advance(1.5 * _HOUR)
    assert [batch.id for batch in hub.call(ReapBatches()).batches] == [used]
    clock.advance(7 * 24 * _HOUR)
    assert [batch.id for batch in hub.call(ReapBatches()).batches] == [sealed]
    with pytest.raises(BatchUnknown):
        hub.call(ReadBatch(sealed))


def test_acknowledging_again_keeps_a_batch_alive(reopen: Opener, clock: FakeClock) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    hub.call(AddItems(batch, 2))
    hub.call(AcknowledgeItems(_ids(batch, "0", 0)))
    clock.advance(1.9 * _HOUR)
    assert hub.call(AcknowledgeItems(_ids(batch, "0", 0))).acknowledged == 0
    clock.advance(1.9 * _HOUR)
    assert hub.call(ReapBatches()).batches == ()


@pytest.mark.parametrize("counting", list(Counting))
def test_acknowledging_keeps_a_batch_alive_however_short_the_retention(clock: FakeClock, counting: Counting) -> None:
    settings = msgspec.structs.replace(_QUIET, open_batch_retention_seconds=8)
    with closing(open_hub(None, settings=settings, clock=clock, store=MemoryStore())) as hub:
        batch = hub.call(OpenBatch(counting=counting)).id
        hub.call(AddItems(batch, 9))
        for _ in range(4):
            clock.advance(5)
            hub.call(AcknowledgeItems(_ids(batch, "0", 0)))
        assert hub.call(ReapBatches()).batches == ()
        clock.advance(8)
        assert [gone.id for gone in hub.call(ReapBatches()).batches] == [batch]


def test_nothing_but_its_id_is_left_of_a_deleted_batch_and_not_for_ever(reopen: Opener, clock: FakeClock) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch(key="k")).id
    hub.call(AddItems(batch, 100_000, request_id=str(uuid.uuid4())))
    hub.call(AcknowledgeItems(ranges=[ItemRange(group=f"{batch}:0", start=5, upto=90_000)]))
    fold_batches(hub)
    hub.call(AcknowledgeItems(_ids(batch, "0", 0)))
    hub.call(DeleteBatch(batch))
    store = hub.core.store
    spaces = [space for space in Space if space.name.startswith("BATCH")]
    assert [space for space in spaces for partition in range(4) if store.scan(partition, space)] == [Space.BATCH]
    clock.advance(8 * 24 * _HOUR)
    hub.call(ReapBatches())
    assert [space for space in spaces for partition in range(4) if store.scan(partition, space)] == []
    with pytest.raises(BatchUnknown):
        hub.call(DeleteBatch(batch))


def test_a_delete_or_a_completion_that_was_cut_off_is_finished_later(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    hub.call(AddItems(batch, 50))
    hub.call(AcknowledgeItems(_ids(batch, "0", 3)))
    core, key = hub.core, uuid.UUID(batch).bytes
    home = home_of(core, key)
    row = decode_batch(core.store.get(home, Space.BATCH, key) or b"")
    gone = msgspec.structs.replace(row, deleted_at=core.clock())
    core.commit(lambda draft: draft.put(home, Space.BATCH, key, encode_batch(gone)))
    with pytest.raises(BatchUnknown):
        hub.call(ReadBatch(batch))
    assert hub.call(ListBatches()).batches == ()
    tidy_leftovers(core)
    assert decode_batch(core.store.get(home, Space.BATCH, key) or b"").swept
    assert core.store.scan(home, Space.BATCH_ACKNOWLEDGED) == []


def test_the_id_of_a_deleted_batch_is_not_given_again(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    hub.call(DeleteBatch(batch))
    with pytest.raises(InvalidRequest):
        hub.call(OpenBatch(batch_id=batch))


def test_ranges_that_overlap_count_once_however_many_they_are(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    hub.call(AddItems(batch, 10**9))
    long = ItemRange(group=f"{batch}:0", start=5, upto=10**9 - 5)
    short = ItemRange(group=f"{batch}:0", start=0, upto=10)
    assert hub.call(AcknowledgeItems(ranges=[short] * 5_000)).acknowledged == 10
    assert hub.call(AcknowledgeItems(_ids(batch, "0", 3, 10**9 - 1), ranges=[long] * 5_000)).acknowledged == 10**9 - 14
    assert fold_batches(hub) == 1
    assert _pending(reopen(), batch) == _ids(batch, "0", *range(10**9 - 5, 10**9 - 1))


def test_folding_changes_nothing_that_anybody_sees(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    hub.call(AddItems(batch, 3 * SEGMENT_BITS))
    random = np.random.default_rng(1)
    done = set[int]()
    for _ in range(4):
        chosen = random.integers(0, 3 * SEGMENT_BITS, 500).tolist()
        hub.call(AcknowledgeItems(_ids(batch, "0", *chosen)))
        done |= set(chosen)
        assert fold_batches(hub) == 1
        assert hub.core.store.scan(home_of(hub.core, uuid.UUID(batch).bytes), Space.BATCH_ACKNOWLEDGED) == []
    hub.call(AcknowledgeItems(ranges=[ItemRange(group=f"{batch}:0", start=0, upto=SEGMENT_BITS + 7)]))
    fold_batches(hub)
    hub = reopen()
    left = [position for position in sorted(done) if position >= SEGMENT_BITS + 7]
    assert hub.call(ReadBatch(batch)).acknowledged == SEGMENT_BITS + 7 + len(left)
    assert hub.call(AcknowledgeItems(_ids(batch, "0", *left))).acknowledged == 0
    assert hub.call(ListPendingItems(batch, limit=1)).items == tuple(_ids(batch, "0", SEGMENT_BITS + 7))


def test_a_quiet_batch_takes_no_memory_and_is_back_when_asked_for(reopen: Opener, clock: FakeClock) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    hub.call(AddItems(batch, 10**9))
    hub.call(AcknowledgeItems(_ids(batch, "0", 5, 10**9 - 1)))
    clock.advance(100)
    hub.core.commit(lambda _: drop_quiet(hub.core, before=clock()))
    assert hub.core.memory(HandItemsKnown) == {}
    assert hub.call(AcknowledgeItems(_ids(batch, "0", 5, 6, 10**9 - 1))).acknowledged == 1


def test_what_is_written_ahead_after_all_was_folded_is_kept(reopen: Opener, clock: FakeClock) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch()).id
    hub.call(AddItems(batch, 5))
    for index in range(4):
        assert hub.call(AcknowledgeItems(_ids(batch, "0", index))).acknowledged == 1
        if index % 2:
            fold_batches(hub)
        clock.advance(100)
        hub.core.commit(lambda _: drop_quiet(hub.core, before=clock()))
    assert _pending(hub, batch) == _ids(batch, "0", 4)
    assert _pending(reopen(), batch) == _ids(batch, "0", 4)


def test_an_estimated_batch_may_count_twice_and_never_shows_less_than_nothing(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch(counting=Counting.ESTIMATED)).id
    hub.call(AddItems(batch, 3))
    assert hub.call(AcknowledgeItems(_ids(batch, "0", 0, 0, 0, 0, 7))).unknown == tuple(_ids(batch, "0", 7))
    assert hub.call(ReadBatch(batch)).pending == 0
    with pytest.raises(InvalidRequest):
        hub.call(ListPendingItems(batch))
    hub.call(AddItems(batch, 2))
    assert hub.call(ReadBatch(batch)).pending == 1
    assert not hub.call(SealBatch(batch)).complete
    assert [done.id for done in hub.call(AcknowledgeItems(_ids(batch, "3", 0))).complete] == [batch]


def test_a_lost_counter_means_all_is_pending_and_never_complete(reopen: Opener) -> None:
    hub = reopen()
    batch = hub.call(OpenBatch(counting=Counting.ESTIMATED)).id
    hub.call(AddItems(batch, 2))
    hub.call(AcknowledgeItems(_ids(batch, "0", 0)))
    hub.call(SealBatch(batch))
    hub = reopen()
    status = hub.call(ReadBatch(batch))
    assert (status.state, status.pending) == (BatchState.SEALED, 2)


def test_pages_of_batches_go_from_new_to_old(reopen: Opener, clock: FakeClock) -> None:
    hub = reopen()
    opened = []
    for number in range(23):
        clock.advance(1)
        opened.append(hub.call(OpenBatch(key=str(number % 2))).id)
    hub.call(SealBatch(opened[5]))
    seen: list[str] = []
    after = None
    while True:
        page = hub.call(ListBatches(limit=5, after=after))
        seen += [batch.id for batch in page.batches]
        after = page.next
        if after is None:
            break
    assert seen == opened[::-1]
    assert [batch.id for batch in hub.call(ListBatches(state=BatchState.COMPLETE)).batches] == [opened[5]]
    assert len(hub.call(ListBatches(state=BatchState.OPEN, key="1")).batches) == 10


def test_the_doctor_finds_batches_that_do_not_add_up(tmp_path: Path, clock: FakeClock) -> None:
    hub = open_hub(tmp_path, settings=_QUIET, clock=clock)
    batch = hub.call(OpenBatch(key="k")).id
    hub.call(AddItems(batch, 50))
    hub.call(AcknowledgeItems(_ids(batch, "0", 3, 4)))
    fold_batches(hub)
    hub.call(AcknowledgeItems(_ids(batch, "0", 5)))
    done = hub.call(OpenBatch()).id
    hub.call(SealBatch(done))
    home = home_of(hub.core, uuid.UUID(batch).bytes)
    hub.close()
    store = open_store(tmp_path)
    assert examine(store).problems == 0
    changes = Changes(fences={home: store.raise_fences(4)})
    for key, _ in store.scan(home, Space.BATCH_ACKNOWLEDGED):
        changes.delete(home, Space.BATCH_ACKNOWLEDGED, key)
    store.commit(changes)
    report = examine(store)
    store.close()
    assert report.problems == 1
    assert "2 of its items are acknowledged, the counter says 3" in report.findings[0].detail


@pytest.mark.parametrize("space", [Space.BATCH, Space.BATCH_ACKNOWLEDGED])
def test_a_batch_that_cannot_be_read_harms_nobody_else(reopen: Opener, space: Space) -> None:
    hub = reopen()
    bad, good = hub.call(OpenBatch()).id, hub.call(OpenBatch()).id
    for batch in (bad, good):
        hub.call(AddItems(batch, 2))
        hub.call(AcknowledgeItems(_ids(batch, "0", 0)))
    core, key = hub.core, uuid.UUID(bad).bytes
    home = home_of(core, key)
    (damaged,) = [found for found, _ in core.store.scan(home, space) if found.startswith(key)]
    core.commit(lambda draft: draft.put(home, space, damaged, b"\xc1"))
    hub = reopen()
    with pytest.raises(DataDamaged):
        hub.call(AcknowledgeItems(_ids(bad, "0", 1)))
    with pytest.raises(DataDamaged):
        fold(hub.core, key)
    assert hub.call(AcknowledgeItems(_ids(good, "0", 1))).acknowledged == 1
    assert hub.call(SealBatch(good)).complete
