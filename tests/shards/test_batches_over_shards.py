"""A batch bound to messages of several shards: enlisted before the first, closed by the seal, complete once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from restante import Message
from restante.assembly import system_clock
from restante.calls.batches import (
    AcknowledgeItems,
    AddItems,
    DeleteBatch,
    ListBatches,
    OpenBatch,
    ReadBatch,
    ReadProgress,
    ReapBatches,
    SealBatch,
    WaitForBatch,
)
from restante.calls.call import Answer, Call
from restante.calls.mailboxes import Dequeue, Peek
from restante.calls.publishing import Publish
from restante.calls.shards import CloseBatchParts, DeliverNotice, EnlistBatch, ReportBatchParts
from restante.errors import BatchSealed, BatchUnknown, InvalidRequest, Unavailable
from restante.hub.batches.batch_parts import load_part_work
from restante.hub.batches.memory import BatchMemory
from restante.hub.batches.part_calls import between_shards
from restante.hub.door.hub import OpenHub
from restante.hub.door.subjects import FUNCTIONS
from restante.hub.engine.procedures import run
from restante.model.access.access import Grant, Role
from restante.model.batches.batch_answers import BatchState
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.storage.changes import Space
from tests.shards.world import PARTITIONS, Shards, names
from tests.waiting import wait_until

HOME_KEY = names(1, 1)[0]
NEAR, FAR, AWAY = names(1, 2), names(4, 2), names(7, 2)


@pytest.fixture
def shards() -> Iterator[Shards]:
    with Shards(3) as opened:
        yield opened


def opened(shards: Shards, notify: str | None = None) -> str:
    return shards.of(HOME_KEY).call(OpenBatch(key=HOME_KEY, notify=notify)).id


def publish(shards: Shards, batch: str, recipient: str, count: int = 1, *, numbered: str | None = None) -> None:
    messages = [Message(recipient=recipient, text=str(number), id=numbered) for number in range(count)]
    shards.of(recipient).call(Publish.of(messages, batch=batch))


def collect(shards: Shards, recipient: str) -> int:
    hub, messages = shards.of(recipient), 0
    while isinstance(bundle := hub.call(Peek(recipient)), BundleAnswer):
        messages += hub.call(Dequeue(recipient, bundle.bundle_id)).messages
    return messages


def state(shards: Shards, batch: str) -> BatchState:
    return shards.of(batch).call(ReadBatch(batch)).state


def settle(shards: Shards) -> None:
    """Let every shard do what it has to do between shards."""
    for hub in shards.hubs:
        run(hub.core, between_shards(hub.core))


def test_every_call_between_shards_about_batches_is_answered() -> None:
    assert {EnlistBatch, CloseBatchParts, ReportBatchParts} <= set(FUNCTIONS)


def test_a_batch_over_shards_is_complete_when_all_is_collected(shards: Shards) -> None:
    batch = opened(shards)
    for name, count in ((NEAR[0], 1), (FAR[0], 2), (AWAY[0], 600)):
        publish(shards, batch, name, count)
    status = shards.of(batch).call(ReadBatch(batch))
    assert (status.items, status.pending, status.state) == (603, 603, BatchState.OPEN)
    assert shards.of(batch).call(SealBatch(batch)).complete is False
    assert [collect(shards, name) for name in (NEAR[0], FAR[0])] == [1, 2]
    settle(shards)
    assert state(shards, batch) is BatchState.SEALED
    assert collect(shards, AWAY[0]) == 600
    wait_until(lambda: state(shards, batch) is BatchState.COMPLETE)
    status = shards.of(batch).call(ReadBatch(batch))
    assert (status.items, status.pending, status.collected) == (603, 0, 603)


def test_a_batch_and_shard_cost_one_hop(shards: Shards) -> None:
    batch = opened(shards)
    for _ in range(3):
        for name in (*NEAR, *FAR, *AWAY):
            publish(shards, batch, name)
    assert len([call for call in shards.carried if isinstance(call, EnlistBatch)]) == 2


def test_a_batch_that_was_collected_before_its_seal_is_complete_with_it(shards: Shards) -> None:
    batch = opened(shards)
    publish(shards, batch, FAR[0])
    collect(shards, FAR[0])
    assert shards.of(batch).call(SealBatch(batch)).complete is True
    assert shards.of(batch).call(SealBatch(batch)).complete is True


def test_a_batch_waits_for_items_by_hand_as_well(shards: Shards) -> None:
    batch = opened(shards)
    (group,) = shards.of(batch).call(AddItems(batch, 1)).groups
    publish(shards, batch, FAR[0])
    shards.of(batch).call(SealBatch(batch))
    collect(shards, FAR[0])
    settle(shards)
    assert state(shards, batch) is BatchState.SEALED
    assert shards.of(batch).call(AcknowledgeItems((f"{batch}:{group.id}:0",))).complete[0].id == batch


def test_nothing_is_added_to_a_sealed_batch_in_any_shard(shards: Shards) -> None:
    batch = opened(shards)
    publish(shards, batch, FAR[0])
    shards.of(batch).call(SealBatch(batch))
    for name in (NEAR[0], FAR[0], AWAY[0]):
        with pytest.raises(BatchSealed):
            publish(shards, batch, name)
    assert collect(shards, FAR[0]) == 1
    assert collect(shards, AWAY[0]) == 0


def test_a_batch_that_nobody_knows_is_refused_in_any_shard(shards: Shards) -> None:
    for name in (NEAR[0], FAR[0]):
        with pytest.raises(BatchUnknown):
            publish(shards, "018f4e2a-0000-7000-8000-000000000009", name)


def test_a_seal_is_answered_only_when_all_parts_are_closed(shards: Shards) -> None:
    batch = opened(shards)
    publish(shards, batch, FAR[0])
    collect(shards, FAR[0])
    shards.lose = (CloseBatchParts,)
    with pytest.raises(Unavailable):
        shards.of(batch).call(SealBatch(batch))
    publish(shards, batch, FAR[0])
    assert state(shards, batch) is BatchState.SEALED
    shards.lose = ()
    settle(shards)
    with pytest.raises(BatchSealed):
        publish(shards, batch, FAR[0])
    assert state(shards, batch) is BatchState.SEALED
    collect(shards, FAR[0])
    wait_until(lambda: state(shards, batch) is BatchState.COMPLETE)


def test_home_goes_on_closing_after_a_restart(shards: Shards) -> None:
    batch = opened(shards)
    publish(shards, batch, FAR[0])
    shards.lose = (CloseBatchParts,)
    with pytest.raises(Unavailable):
        shards.of(batch).call(SealBatch(batch))
    shards.lose_answers, shards.lose = (CloseBatchParts,), ()
    shards.reopen(0)
    settle(shards)
    with pytest.raises(BatchSealed):
        publish(shards, batch, FAR[0])
    shards.lose_answers = ()
    settle(shards)
    assert collect(shards, FAR[0]) == 1
    wait_until(lambda: state(shards, batch) is BatchState.COMPLETE)
    settle(shards)
    assert not load_part_work(shards.stores[0], range(PARTITIONS)).closings


@pytest.mark.parametrize("way", ["lost", "answered into the void"])
def test_final_counts_are_sent_until_they_are_taken(shards: Shards, way: str) -> None:
    batch = opened(shards)
    publish(shards, batch, FAR[0])
    shards.of(batch).call(SealBatch(batch))
    if way == "lost":
        shards.lose = (ReportBatchParts, CloseBatchParts)
    else:
        shards.lose_answers = (ReportBatchParts,)
    collect(shards, FAR[0])
    settle(shards)
    shards.reopen(1)
    assert state(shards, batch) is (BatchState.SEALED if way == "lost" else BatchState.COMPLETE)
    shards.lose = shards.lose_answers = ()
    settle(shards)
    assert state(shards, batch) is BatchState.COMPLETE
    settle(shards)
    assert not load_part_work(shards.stores[1], range(PARTITIONS)).reports
    assert shards.hubs[0].core.memory(BatchMemory).completed == 1


@pytest.mark.parametrize("lost", [(ReportBatchParts,), (ReportBatchParts, CloseBatchParts)], ids=["asks", "cannot"])
def test_a_sealed_batch_that_is_not_complete_has_something_pending(shards: Shards, lost: tuple[type, ...]) -> None:
    """Home asks for what shards have not reported, and what it cannot learn is pending."""
    batch = opened(shards)
    for name in (*FAR, *AWAY):
        publish(shards, batch, name)
    shards.of(batch).call(SealBatch(batch))
    shards.lose = lost
    for name in (*FAR, *AWAY):
        collect(shards, name)
    settle(shards)
    status = shards.of(batch).call(ReadBatch(batch))
    assert (status.pending > 0) is (status.state is BatchState.SEALED)
    assert status.state is (BatchState.SEALED if CloseBatchParts in lost else BatchState.COMPLETE)
    assert (status.items, status.pending + status.collected) == (4, 4)
    shards.lose = ()
    settle(shards)
    status = shards.of(batch).call(ReadBatch(batch))
    assert (status.items, status.pending, status.state) == (4, 0, BatchState.COMPLETE)
    assert shards.hubs[0].core.memory(BatchMemory).completed == 1


def test_a_sealed_batch_shows_no_item_that_never_was(shards: Shards) -> None:
    """Nothing is bound to it that could be pending. Until home learns that this is final, it cannot say how the batch is."""
    batch, own = opened(shards), "018f4e2a-0000-7000-8000-00000000000a"
    shards.of(FAR[0]).call(Publish.of([Message(recipient=FAR[0], text="0", id=own)]))
    publish(shards, batch, FAR[0], numbered=own)
    shards.lose = (CloseBatchParts,)
    with suppress(Unavailable):
        shards.of(batch).call(SealBatch(batch))
    with pytest.raises(Unavailable, match="sealed"):
        shards.of(batch).call(ReadBatch(batch))
    # The list of batches, and who waits for this one, are not held up by it.
    assert [found.id for found in shards.of(batch).call(ListBatches()).batches] == [batch]
    assert shards.of(batch).call(WaitForBatch(batch, seconds=0)) is None
    shards.lose = ()
    status = shards.of(batch).call(ReadBatch(batch))
    assert (status.items, status.pending, status.state) == (0, 0, BatchState.COMPLETE)
    assert (status.duplicates, shards.hubs[0].core.memory(BatchMemory).completed) == (1, 1)


def test_an_enlisting_that_comes_late_opens_nothing_that_is_closed(shards: Shards) -> None:
    batch = opened(shards)
    shards.lose_answers = (EnlistBatch,)
    with pytest.raises(Unavailable):
        publish(shards, batch, FAR[0])
    shards.lose_answers = ()
    assert shards.of(batch).call(SealBatch(batch)).complete is True
    with pytest.raises(BatchSealed):
        publish(shards, batch, FAR[0])


def test_a_deleted_batch_is_unknown_in_all_shards_and_leaves_nothing(shards: Shards) -> None:
    batch = opened(shards)
    for name in (NEAR[0], FAR[0], AWAY[0]):
        publish(shards, batch, name)
    shards.of(batch).call(DeleteBatch(batch))
    for name in (NEAR[0], FAR[0], AWAY[0]):
        with pytest.raises(BatchUnknown):
            publish(shards, batch, name)
        assert collect(shards, name) == 1
    wait_until(lambda: not any(left_of(hub) for hub in shards.hubs))
    with pytest.raises(BatchUnknown):
        shards.of(batch).call(ReadBatch(batch))


def left_of(hub: OpenHub) -> int:
    spaces = (Space.BATCH_BINDING, Space.BATCH_COUNT, Space.BATCH_ENLISTED, Space.BATCH_CLOSING, Space.BATCH_REPORT)
    return sum(len(hub.core.store.scan(partition, space)) for partition in hub.core.owned for space in spaces)


def test_a_batch_that_was_deleted_long_ago_is_forgotten_by_all_shards() -> None:
    now = [system_clock()]
    with Shards(3, clock=lambda: now[0]) as shards:
        batch = opened(shards)
        for name in (NEAR[0], FAR[0], AWAY[0]):
            publish(shards, batch, name)
        shards.of(batch).call(DeleteBatch(batch))
        for later, parts in ((0, PARTITIONS), (shards.settings.sealed_batch_retention_seconds, 0)):
            now[0] += int(later * 1_000_000)
            for hub in shards.hubs:
                hub.call(ReapBatches())
            assert (
                sum(len(hub.core.store.scan(own, Space.BATCH_PART)) for hub in shards.hubs for own in hub.core.owned)
                == parts
            )
        with pytest.raises(BatchUnknown):
            publish(shards, batch, FAR[0])


def test_duplicates_are_counted_where_they_lie(shards: Shards) -> None:
    batch, own = opened(shards), "018f4e2a-0000-7000-8000-00000000000a"
    shards.of(FAR[0]).call(Publish.of([Message(recipient=FAR[0], text="0", id=own)]))
    publish(shards, batch, FAR[0], numbered=own)
    status = shards.of(batch).call(ReadBatch(batch))
    assert (status.items, status.duplicates, status.duplicates_waiting) == (0, 1, 1)


def test_each_shard_tells_the_progress_of_its_recipients(shards: Shards) -> None:
    batch = opened(shards)
    for name in (NEAR[0], FAR[0]):
        publish(shards, batch, name)
    told = [entry.recipient for hub in shards.hubs for entry in hub.call(ReadProgress(batch)).recipients]
    assert told == [NEAR[0], FAR[0]]


def test_a_mailbox_of_another_shard_is_told_of_the_completion(shards: Shards) -> None:
    batch = opened(shards, notify=AWAY[1])
    assert shards.of(batch).call(SealBatch(batch)).complete is True
    wait_until(lambda: isinstance(shards.of(AWAY[1]).call(Peek(AWAY[1])), BundleAnswer))
    assert collect(shards, AWAY[1]) == 1


class HeldNotices(Shards):
    """Shards between which messages about completed batches wait until they are let go."""

    def __init__(self, count: int) -> None:
        self.held, self.told = threading.Event(), queue.Queue[str]()
        super().__init__(count)

    def carry(self, partition: int, call: Call[Answer]) -> Answer:
        if isinstance(call, DeliverNotice):
            self.told.put(call.recipient)
            assert self.held.wait(60)
        return super().carry(partition, call)

    def __exit__(self, *_: object) -> None:
        self.held.set()
        super().__exit__()


def test_a_mailbox_is_told_of_the_completion_though_another_shard_is_silent() -> None:
    with HeldNotices(3) as shards:
        for recipient in (FAR[1], FAR[1], AWAY[1], NEAR[1]):
            batch = opened(shards, notify=recipient)
            assert shards.of(batch).call(SealBatch(batch)).complete is True
        wait_until(lambda: isinstance(shards.of(NEAR[1]).call(Peek(NEAR[1])), BundleAnswer))
        assert {shards.told.get(timeout=60), shards.told.get(timeout=60)} == {FAR[1], AWAY[1]}
        assert shards.told.empty(), "a shard is told one thing at a time"


def test_many_messages_of_one_owner_do_not_hold_up_the_one_of_another() -> None:
    greedy, other = (Grant(name, frozenset({Role.PUBLISHER}), frozenset({name})) for name in ("greedy", "other"))
    with HeldNotices(3) as shards:
        hub = shards.of(HOME_KEY)
        for caller, recipient in [(greedy, FAR[0])] * 30 + [(other, FAR[1])]:
            own = hub.on_behalf_of(caller)
            batch = own.call(OpenBatch(key=HOME_KEY, notify=recipient)).id
            assert own.call(SealBatch(batch)).complete is True
        shards.held.set()
        assert FAR[1] in [shards.told.get(timeout=60) for _ in range(3)]


def test_a_shard_that_is_away_is_left_alone_for_a_while() -> None:
    with Shards(3) as shards:
        shards.lose = (DeliverNotice,)
        batch = opened(shards, notify=FAR[1])
        assert shards.of(batch).call(SealBatch(batch)).complete is True
        schedule = shards.of(batch).core.memory(BatchMemory).notices
        wait_until(lambda: any(line.failures for own in schedule._owners.values() for line in own.lines.values()))


def test_a_unique_key_and_an_id_of_another_shard_do_not_go_together(shards: Shards) -> None:
    own = next(
        own
        for own in (f"018f4e2a-0000-7000-8000-{number:012}" for number in range(99))
        if shards.of(own) is shards.hubs[2]
    )
    with pytest.raises(InvalidRequest, match="request_id"):
        shards.of(own).call(OpenBatch(key=HOME_KEY, unique=True, batch_id=own))
    assert shards.of(own).call(OpenBatch(key=HOME_KEY, batch_id=own)).id == own
    assert shards.of(own).call(SealBatch(own)).complete is True
