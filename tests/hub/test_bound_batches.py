"""Batches bound to messages: what is published under one is counted until everyone has it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from restante.calls.batches import AcknowledgeItems, AddItems, DeleteBatch, ReadBatch, ReadProgress, SealBatch
from restante.calls.mailboxes import Dequeue, Peek, ReadHistory
from restante.calls.producers import ReadProducer
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, ExpireNow, FileNow, Purge, Release, RetainNow, SetAside, Withdraw
from restante.errors import BatchSealed, BatchUnknown, InvalidClientState, InvalidMessage, InvalidRequest
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.model.batches.batch_answers import BatchState
from restante.model.mailboxes.answers import BundleAnswer, Reason, Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message
from tests.hub.bound_world import (
    MANY,
    PATIENCE_SECONDS,
    World,
    collect,
    counted,
    in_one_commit,
    on_one_partition,
    opened,
    progress_of,
    stretches,
    taken,
    worlds,
)
from tests.hub.engines import FakeClock
from tests.hub.letters import RETENTION_SECONDS, at, id_of, letter, letters


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[World]:
    yield from worlds(request, clock, tmp_path / "data")


@pytest.fixture
def hub(world: World) -> OpenHub:
    return world.hub


# Publishing under a batch.


@pytest.mark.parametrize("count", [1, 5, MANY])
def test_every_new_message_is_an_item(hub: OpenHub, count: int) -> None:
    batch = opened(hub, key="night")
    hub.call(Publish.of(letters(range(count)), batch=batch))
    assert counted(hub, batch) == {"items": count, "pending": count}


@pytest.mark.parametrize("count", [1, MANY])
def test_a_batch_is_complete_when_it_is_sealed_and_all_is_collected(hub: OpenHub, count: int) -> None:
    batch = opened(hub)
    hub.call(Publish.of([letter(number, f"r{number % 7}") for number in range(count)], batch=batch))
    assert not hub.call(SealBatch(batch)).complete
    names = sorted({f"r{number % 7}" for number in range(count)})
    for name in names:
        assert hub.call(ReadBatch(batch)).state is BatchState.SEALED
        collect(hub, name)
    assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE
    assert counted(hub, batch) == {"items": count, "collected": count}


def test_collecting_before_the_seal_lets_the_seal_complete_it(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letters([1, 2]), batch=batch))
    collect(hub)
    assert hub.call(ReadBatch(batch)).state is BatchState.OPEN
    assert hub.call(SealBatch(batch)).complete


def test_items_by_hand_and_messages_are_both_waited_for(hub: OpenHub) -> None:
    batch = opened(hub)
    (group,) = hub.call(AddItems(batch, 1)).groups
    hub.call(Publish.of(letter(1), batch=batch))
    hub.call(SealBatch(batch))
    collect(hub)
    assert counted(hub, batch) == {"items": 2, "pending": 1, "collected": 1}
    answer = hub.call(AcknowledgeItems([f"{batch}:{group.id}:0"]))
    assert [complete.id for complete in answer.complete] == [batch]


@pytest.mark.parametrize("count", [1, MANY])
def test_an_unknown_batch_refuses_the_publish_whole(hub: OpenHub, count: int) -> None:
    with pytest.raises(BatchUnknown):
        hub.call(Publish.of(letters(range(count)), batch=str(uuid4())))
    assert hub.call(Peek("ada")) is Reason.RECIPIENT_UNKNOWN


@pytest.mark.parametrize("count", [0, 1, MANY])
def test_a_sealed_batch_takes_nothing_more(hub: OpenHub, count: int) -> None:
    batch = opened(hub)
    hub.call(SealBatch(batch))
    with pytest.raises(BatchSealed):
        hub.call(Publish.of(letters(range(count)), batch=batch))
    assert hub.call(Peek("ada")) is Reason.RECIPIENT_UNKNOWN


def test_the_id_of_a_batch_is_a_uuid(hub: OpenHub) -> None:
    with pytest.raises(InvalidRequest, match="batch"):
        hub.call(Publish.of(letter(1), batch="last night"))


def test_a_deleted_batch_is_unknown_to_publishers_and_its_messages_stay(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letter(1), batch=batch))
    hub.call(DeleteBatch(batch))
    with pytest.raises(BatchUnknown):
        hub.call(Publish.of(letter(2), batch=batch))
    assert collect(hub) == 1
    with pytest.raises(BatchUnknown):
        hub.call(ReadProgress(batch))


def test_an_asynchronous_publish_names_its_batch_too(hub: OpenHub) -> None:
    batch = opened(hub)

    async def send() -> None:
        link = InProcess(hub)
        await link.call(Publish.of(letter(1), batch=batch))
        await link.call(Publish.of(letters(range(2, 2 + MANY)), batch=batch))

    asyncio.run(send())
    assert counted(hub, batch)["items"] == MANY + 1


# Commits of several requests.


@pytest.mark.parametrize("large", [False, True])
def test_a_refused_batch_does_not_refuse_the_others_of_its_commit(hub: OpenHub, large: bool) -> None:
    batch, sealed = opened(hub), opened(hub)
    hub.call(SealBatch(sealed))
    beside = letters(range(100, 100 + MANY), recipient="ben") if large else letter(100, "ben")
    answers = in_one_commit(
        hub,
        lambda: hub.call(Publish.of(letter(1), batch=batch)),
        lambda: hub.call(Publish.of(letter(2), batch=sealed)),
        lambda: hub.call(Publish.of(letter(3), batch=str(uuid4()))),
        lambda: hub.call(Publish.of(beside, batch=batch)),
        lambda: hub.call(Publish.of(letter(4))),
    )
    kinds = [type(answer) for answer in answers]
    assert kinds == [Receipt, BatchSealed, BatchUnknown, Receipt, Receipt]
    assert counted(hub, batch)["items"] == 1 + (MANY if large else 1)
    assert counted(hub, sealed) == {}
    assert sorted(message.id or "" for message in hub.call(ReadHistory("ada")).messages) == [id_of(1), id_of(4)]


def test_a_faulty_publish_is_no_item_beside_others(hub: OpenHub) -> None:
    batch = opened(hub)
    answers = in_one_commit(
        hub,
        lambda: hub.call(Publish.of(letter(1), batch=batch)),
        lambda: hub.call(Publish.of(Message(recipient=" ", data=1), batch=batch)),
        lambda: hub.call(Publish.of(letter(1), batch=batch)),
    )
    assert [type(answer) for answer in answers] == [Receipt, InvalidMessage, Receipt]
    assert counted(hub, batch) == {"items": 1, "pending": 1, "duplicates": 1, "duplicates_waiting": 1}


@on_one_partition
def test_neighbours_of_one_commit_share_a_stretch(hub: OpenHub) -> None:
    one, other = opened(hub), opened(hub)
    sends = [(1, one), (2, one), (3, other), (4, None), (5, other)]
    in_one_commit(hub, *(partial(hub.call, Publish.of(letter(number), batch=batch)) for number, batch in sends))
    assert [last - first + 1 for first, last in stretches(hub)] == [2, 1, 1]
    assert counted(hub, one)["items"] == 2
    assert counted(hub, other)["items"] == 2


@on_one_partition
def test_a_stretch_grows_over_commits_until_another_message_comes_between(hub: OpenHub) -> None:
    batch = opened(hub)
    for number in range(5):
        hub.call(Publish.of(letter(number), batch=batch))
    collect(hub)  # the numbers of change records do no harm
    hub.call(Publish.of(letters([5, 6]), batch=batch))
    assert len(stretches(hub)) == 1
    hub.call(Publish.of(letter(7)))
    hub.call(Publish.of(letter(8), batch=batch))
    assert len(stretches(hub)) == 2
    assert counted(hub, batch) == {"items": 8, "pending": 3, "collected": 5}
    assert collect(hub) == 4
    assert counted(hub, batch) == {"items": 8, "collected": 8}


@on_one_partition
def test_a_stretch_grows_after_the_hub_was_opened_again(world: World) -> None:
    batch = opened(world.hub)
    world.hub.call(Publish.of(letter(1), batch=batch))
    hub = world.reopen()
    hub.call(Publish.of(letter(2), batch=batch))
    assert len(stretches(hub)) == 1
    hub.call(Publish.of(letter(3)))
    hub = world.reopen()
    hub.call(Publish.of(letter(4), batch=batch))
    assert len(stretches(hub)) == 2
    collect(hub)
    assert counted(hub, batch) == {"items": 3, "collected": 3}


def test_two_batches_in_one_mailbox_are_told_apart(world: World) -> None:
    hub = world.hub
    one, other = opened(hub), opened(hub)
    for number in range(30):
        hub.call(Publish.of(letter(number), batch=(one, other, None)[number % 3]))
    assert collect(hub, max_messages=10) == 10
    assert counted(hub, one) == {"items": 10, "pending": 6, "collected": 4}
    assert counted(hub, other) == {"items": 10, "pending": 7, "collected": 3}
    hub.call(FileNow())
    hub = world.reopen()
    assert collect(hub, max_messages=10) == 10
    assert counted(hub, one) == {"items": 10, "pending": 3, "collected": 7}
    assert counted(hub, other) == {"items": 10, "pending": 3, "collected": 7}


def test_a_bundle_opened_before_the_hub_was_opened_again_keeps_its_share(world: World) -> None:
    batch = opened(world.hub)
    world.hub.call(Publish.of(letters(range(3)), batch=batch))
    bundle = taken(world.hub, max_messages=2)
    world.hub.call(FileNow())
    hub = world.reopen()
    hub.call(Dequeue("ada", bundle.bundle_id))
    assert counted(hub, batch) == {"items": 3, "pending": 1, "collected": 2}


# Numbered publishes.


def numbered(first: int) -> ProducerNumbers:
    return ProducerNumbers(group=7, owner_level=0, published_sequence=first)


@on_one_partition
@pytest.mark.parametrize("count", [1, 3, MANY])
def test_a_replay_counts_nothing_and_is_answered_after_the_seal(hub: OpenHub, count: int) -> None:
    batch = opened(hub)
    parcel = letters(range(count))
    hub.call(Publish.of(parcel, partition=0, producer=numbered(0), batch=batch))
    hub.call(SealBatch(batch))
    again = hub.call(Publish.of(parcel, partition=0, producer=numbered(0), batch=batch))
    assert again.replayed
    assert counted(hub, batch) == {"items": count, "pending": count}
    with pytest.raises(BatchSealed):
        hub.call(Publish.of(letters([1_000]), partition=0, producer=numbered(count), batch=batch))
    assert hub.call(ReadProducer(0, 7)).last_published_sequence_number == count - 1


@on_one_partition
@pytest.mark.parametrize("count", [1, 3, MANY])
def test_the_same_numbers_under_another_batch_are_other_content(hub: OpenHub, count: int) -> None:
    batch, other = opened(hub), opened(hub)
    parcel = letters(range(count))
    hub.call(Publish.of(parcel, partition=0, producer=numbered(0), batch=batch))
    for wrong in (other, None):
        with pytest.raises(InvalidClientState):
            hub.call(Publish.of(parcel, partition=0, producer=numbered(0), batch=wrong))
    assert counted(hub, other) == {}


@on_one_partition
def test_behind_a_parcel_with_a_sealed_batch_the_next_number_is_not_the_next(hub: OpenHub) -> None:
    batch, sealed = opened(hub), opened(hub)
    hub.call(SealBatch(sealed))
    answers = in_one_commit(
        hub,
        *(
            partial(hub.call, Publish.of(letter(number), partition=0, producer=numbered(number), batch=own))
            for number, own in enumerate([batch, sealed, batch])
        ),
    )
    assert [type(answer) for answer in answers] == [Receipt, BatchSealed, InvalidClientState]
    assert counted(hub, batch) == {"items": 1, "pending": 1}


# What becomes of them.


def test_what_a_peek_passes_because_it_expired_is_done(hub: OpenHub, clock: FakeClock) -> None:
    batch = opened(hub)
    hub.call(Publish.of([letter(1, expires_at=at(5)), letter(2), letter(3, expires_at=at(5)), letter(4)], batch=batch))
    hub.call(SealBatch(batch))
    clock.advance(6)
    bundle = taken(hub)
    assert counted(hub, batch) == {"items": 4, "pending": 2, "expired": 2}
    hub.call(Dequeue("ada", bundle.bundle_id))
    assert counted(hub, batch) == {"items": 4, "collected": 2, "expired": 2}
    assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE


def test_housekeeping_expires_what_nobody_peeks_and_completes_the_batch(hub: OpenHub, clock: FakeClock) -> None:
    batch = opened(hub)
    hub.call(Publish.of([letter(number, f"r{number}", expires_at=at(5)) for number in range(9)], batch=batch))
    hub.call(SealBatch(batch))
    clock.advance(6)
    assert hub.call(ExpireNow()) == 9
    assert hub.call(ExpireNow()) == 0
    assert counted(hub, batch) == {"items": 9, "expired": 9}
    assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE


def test_an_open_bundle_keeps_what_expires_in_it_as_pending(hub: OpenHub, clock: FakeClock) -> None:
    batch = opened(hub)
    hub.call(Publish.of([letter(1, expires_at=at(5)), letter(2)], batch=batch))
    bundle = taken(hub)
    clock.advance(6)
    hub.call(ExpireNow())
    assert counted(hub, batch) == {"items": 2, "pending": 2}
    hub.call(Dequeue("ada", bundle.bundle_id))
    assert counted(hub, batch) == {"items": 2, "collected": 2}


def test_withdrawing_settles_and_setting_aside_does_not(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letters([1, 2, 3]), batch=batch))
    hub.call(Withdraw("ada", id_of(1)))
    hub.call(Withdraw("ada", id_of(1)))
    hub.call(SetAside("ada", id_of(2)))
    assert counted(hub, batch) == {"items": 3, "pending": 2, "withdrawn": 1}
    collect(hub)
    hub.call(SealBatch(batch))
    assert counted(hub, batch) == {"items": 3, "pending": 1, "withdrawn": 1, "collected": 1}
    hub.call(Withdraw("ada", id_of(2)))
    assert counted(hub, batch) == {"items": 3, "withdrawn": 2, "collected": 1}
    assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE


def test_one_released_into_its_place_is_collected_once(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letters([1, 2]), batch=batch))
    hub.call(SetAside("ada", id_of(2)))
    hub.call(Release("ada", id_of(2)))
    assert counted(hub, batch) == {"items": 2, "pending": 2}
    assert collect(hub) == 2
    assert counted(hub, batch) == {"items": 2, "collected": 2}


def test_one_released_to_the_end_is_collected_once(world: World) -> None:
    hub = world.hub
    batch, again = opened(hub), opened(hub)
    hub.call(Publish.of(letters([1, 2]), batch=batch))
    hub.call(SetAside("ada", id_of(1)))
    hub.call(Publish.of(letter(1), batch=again))
    collect(hub)
    hub.call(Release("ada", id_of(1)))
    hub.call(Publish.of(letter(1), batch=again))
    assert counted(hub, batch) == {"items": 2, "pending": 1, "collected": 1}
    assert counted(hub, again) == {"duplicates": 2, "duplicates_waiting": 1}
    assert progress_of(hub, batch, waiting=True)["ada"]["waiting"] == 1
    hub.call(FileNow())
    hub = world.reopen()
    assert progress_of(hub, again)["ada"] == {"duplicates_waiting": 1}
    assert collect(hub) == 1
    assert counted(hub, batch) == {"items": 2, "collected": 2}
    assert counted(hub, again) == {"duplicates": 2}
    assert progress_of(hub, batch) == {"ada": {"collected": 2}}


def test_purging_withdraws_what_waits_and_what_is_set_aside_but_not_what_is_in_a_bundle(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letters(range(5)), batch=batch))
    hub.call(SetAside("ada", id_of(4)))
    bundle = taken(hub, max_messages=2)
    assert hub.call(Purge("ada", dry_run=True)) == 3
    assert counted(hub, batch) == {"items": 5, "pending": 5}
    assert hub.call(Purge("ada", all=True)) == 3
    assert counted(hub, batch) == {"items": 5, "pending": 2, "withdrawn": 3}
    hub.call(Dequeue("ada", bundle.bundle_id))
    assert counted(hub, batch) == {"items": 5, "collected": 2, "withdrawn": 3}


def test_erasing_a_recipient_withdraws_all_that_it_had_not_collected(hub: OpenHub) -> None:
    batch, again = opened(hub), opened(hub)
    hub.call(Publish.of(letters(range(6)), batch=batch))
    hub.call(Publish.of(letter(7, "ben"), batch=batch))
    collect(hub, max_messages=1)
    hub.call(SetAside("ada", id_of(5)))
    hub.call(Publish.of(letters(range(6)), batch=again))
    taken(hub, max_messages=2)
    assert counted(hub, again) == {"duplicates": 6, "duplicates_waiting": 5}
    hub.call(SealBatch(batch))
    assert hub.call(Erase("ada")) == 6
    assert counted(hub, batch) == {"items": 7, "pending": 1, "collected": 1, "withdrawn": 5}
    assert counted(hub, again) == {"duplicates": 6}
    collect(hub, "ben")
    assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE
    assert progress_of(hub, batch) == {"ben": {"collected": 1}}


def test_retention_and_filing_change_no_count(world: World, clock: FakeClock) -> None:
    hub = world.hub
    batch = opened(hub)
    hub.call(Publish.of(letters(range(6)), batch=batch))
    collect(hub, max_messages=4)
    clock.advance(RETENTION_SECONDS + 1)
    assert hub.call(RetainNow()) == 4
    hub.call(FileNow())
    expected = {"items": 6, "pending": 2, "collected": 4}
    assert counted(hub, batch) == expected
    assert progress_of(hub, batch)["ada"]["waiting"] == 2
    hub = world.reopen()
    assert counted(hub, batch) == expected
    assert collect(hub) == 2
    assert counted(hub, batch) == {"items": 6, "collected": 6}


def test_an_identity_past_its_retention_is_a_new_item(hub: OpenHub, clock: FakeClock) -> None:
    batch, again = opened(hub), opened(hub)
    hub.call(Publish.of(letter(1), batch=batch))
    collect(hub)
    clock.advance(RETENTION_SECONDS + 1)
    hub.call(RetainNow())
    hub.call(Publish.of(letter(1), batch=again))
    assert counted(hub, again) == {"items": 1, "pending": 1}
    collect(hub)
    assert counted(hub, again) == {"items": 1, "collected": 1}
    assert counted(hub, batch) == {"items": 1, "collected": 1}


# Many at once.


def test_publishers_and_collectors_side_by_side_lose_no_item(hub: OpenHub) -> None:
    batch, names = opened(hub), [f"r{number}" for number in range(6)]
    published = threading.Event()

    def publish(worker: int) -> tuple[int, int]:
        accepted = duplicates = 0
        for step in range(25):
            first = (worker // 2) * 1_000 + step * 3
            count = MANY if step % 10 == 9 else 3
            receipt = hub.call(Publish.of([letter(n, names[n % 6]) for n in range(first, first + count)], batch=batch))
            accepted, duplicates = accepted + receipt.accepted, duplicates + receipt.duplicates
        return accepted, duplicates

    def collect_all(name: str) -> int:
        collected = 0
        while True:
            last = published.is_set()
            found = hub.call(Peek(name, max_messages=7))
            if isinstance(found, BundleAnswer):
                collected += hub.call(Dequeue(name, found.bundle_id)).messages
            elif last:
                return collected

    with ThreadPoolExecutor(10) as pool:
        collecting = [pool.submit(collect_all, name) for name in names]
        publishing = [pool.submit(publish, worker) for worker in range(4)]
        sums = [future.result(PATIENCE_SECONDS) for future in publishing]
        assert not hub.call(SealBatch(batch)).complete or hub.call(ReadBatch(batch)).pending == 0
        published.set()
        collected = sum(future.result(PATIENCE_SECONDS) for future in collecting)
    items, duplicates = sum(accepted for accepted, _ in sums), sum(again for _, again in sums)
    assert collected == items
    assert counted(hub, batch) == {"items": items, "collected": items, "duplicates": duplicates}
    assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE
