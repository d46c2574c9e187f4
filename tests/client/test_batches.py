"""Batches through the surface of programs that wait, in process and over a real socket."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

import restante
from restante import errors, limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches.batch_items import Items
from restante.client.batches.batches_sync import Batches, acknowledge
from restante.client.surface import sync
from restante.model.batches.batch_answers import Acknowledged, BatchState, CompleteBatch, Counting, ItemRange
from tests.client.proxy import CuttingProxy

SECONDS = 20.0
UNKNOWN = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def test_a_batch_is_complete_when_it_is_sealed_and_nothing_is_pending(either: sync.Hub) -> None:
    batch = either.batches.open("night")
    items = batch.add(3)
    assert (batch.key, len(items), batch.status().state) == ("night", 3, BatchState.OPEN)
    assert batch.acknowledge(list(items)) == Acknowledged(acknowledged=3, complete=(), unknown=())
    assert batch.seal()
    assert batch.seal()
    again = batch.acknowledge(items[0])
    assert again == Acknowledged(acknowledged=0, complete=(CompleteBatch(id=batch.id, key="night"),), unknown=())
    status = batch.completed(timeout=0)
    assert (status.state, status.items, status.pending) == (BatchState.COMPLETE, 3, 0)


def test_leaving_the_statement_seals(either: sync.Hub) -> None:
    with either.batches.open() as batch:
        items = batch.add(2)
        assert batch.status().state is BatchState.OPEN
    assert batch.status().state is BatchState.SEALED
    with pytest.raises(errors.BatchSealed):
        batch.add(1)
    assert batch.acknowledge(items).complete


def test_leaving_the_statement_by_an_exception_does_not_seal(either: sync.Hub) -> None:
    batch = either.batches.open()

    def fail() -> None:
        with batch:
            batch.acknowledge(batch.add(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert batch.status().state is BatchState.OPEN


def test_a_billion_items_are_added_and_acknowledged_at_once(either: sync.Hub) -> None:
    batch = either.batches.open()
    items = batch.add(10**9)
    assert batch.acknowledge(items[:1_000]).acknowledged == 1_000
    assert next(batch.pending()) == items[1_000]
    batch.seal()
    answer = batch.acknowledge(items)
    assert answer.acknowledged == 10**9 - 1_000
    assert [done.id for done in answer.complete] == [batch.id]


@pytest.mark.parametrize("count", [0, -1, None, "3", 2.5, True])
def test_what_is_no_count_is_refused(either: sync.Hub, count: int) -> None:
    batch = either.batches.open()
    with pytest.raises(errors.InvalidRequest):
        batch.add(count)
    assert batch.status().items == 0


def test_many_ids_go_out_in_several_calls_and_are_summed(either: sync.Hub) -> None:
    batch = either.batches.open()
    ids = list(batch.add(35_000))
    random.Random(3).shuffle(ids)
    batch.seal()
    answer = batch.acknowledge(ids + ids[:5_000] + [f"{UNKNOWN}:0:1"])
    assert (answer.acknowledged, answer.unknown) == (35_000, (f"{UNKNOWN}:0:1",))
    assert answer.complete == (CompleteBatch(id=batch.id, key=None),)


def test_an_iterator_of_ids_becomes_ranges(either: sync.Hub) -> None:
    batch = either.batches.open()
    items = batch.add(250_000)
    assert batch.acknowledge(item for item in items).acknowledged == 250_000


def test_ids_ranges_and_items_may_be_mixed(either: sync.Hub) -> None:
    batch = either.batches.open()
    items = batch.add(100)
    mixed: list[str | ItemRange | Items] = [items[0], items[10:20], *items[50:60].ranges(), items[10]]
    assert batch.acknowledge(mixed).acknowledged == 21
    assert batch.acknowledge(items[90:].ranges()[0]).acknowledged == 10
    assert either.batches.acknowledge(items[1], ranges=items[2:4].ranges()).acknowledged == 3
    assert either.batches.acknowledge(ranges=iter(items[4:6].ranges())).acknowledged == 2
    assert batch.status().pending == 100 - 36
    large = batch.add(10**9)
    assert either.batches.acknowledge(large[1:], ranges=large[:1].ranges()).acknowledged == 10**9


def test_items_of_several_batches_are_acknowledged_together(either: sync.Hub) -> None:
    batches = [either.batches.open(f"key {number}") for number in range(3)]
    ids = [item for batch in batches for item in batch.add(2)]
    for batch in batches:
        batch.seal()
    answer = either.batches.acknowledge(ids)
    assert answer.acknowledged == 6
    assert {done.key for done in answer.complete} == {"key 0", "key 1", "key 2"}


@pytest.mark.parametrize("nothing", [[], (), iter(()), set()])
def test_to_acknowledge_nothing_does_nothing(either: sync.Hub, nothing: Iterable[str]) -> None:
    assert either.batches.acknowledge(nothing) == Acknowledged(acknowledged=0, complete=(), unknown=())


def test_one_bad_id_refuses_its_call(either: sync.Hub) -> None:
    batch = either.batches.open()
    items = batch.add(2)
    with pytest.raises(errors.InvalidItem) as caught:
        batch.acknowledge([items[0], "junk"])
    assert (caught.value.details["item"], caught.value.details["index"]) == ("junk", 1)
    assert batch.status().pending == 2


def test_unknown_items_are_told_as_they_were_sent(either: sync.Hub) -> None:
    batch = either.batches.open()
    batch.add(2)
    beyond = ItemRange(group=f"{batch.id}:0", start=1, upto=5)
    answer = either.batches.acknowledge([f"{batch.id}:0:2", f"{UNKNOWN}:0:0"], ranges=[beyond])
    assert answer.acknowledged == 1
    assert set(answer.unknown) == {f"{batch.id}:0:2", f"{UNKNOWN}:0:0", beyond}


def test_pending_items_are_walked_over_page_by_page(either: sync.Hub) -> None:
    batch = either.batches.open()
    items = batch.add(2_500)
    batch.acknowledge(items[:100])
    assert list(batch.pending()) == list(items[100:])


def newest_first(ids: list[str]) -> list[str]:
    """Ids made within one millisecond are in no order of their own."""
    return sorted(ids, reverse=True)


def test_batches_are_listed_newest_first_and_by_key_and_state(either: sync.Hub) -> None:
    opened = [either.batches.open(f"key {number % 2}") for number in range(5)]
    opened[0].seal()
    ids = [batch.id for batch in opened]
    assert [status.id for status in either.batches.list()] == newest_first(ids)
    assert [status.id for status in either.batches.list(key="key 1")] == newest_first([ids[1], ids[3]])
    assert [status.id for status in either.batches.list(state="complete")] == [ids[0]]
    found = [status.id for status in either.batches.list(state=BatchState.OPEN, key="key 0")]
    assert found == newest_first([ids[2], ids[4]])
    with pytest.raises(errors.InvalidRequest, match="open, sealed, complete"):
        next(either.batches.list(state="closed"))


def test_a_long_list_is_read_as_far_as_it_is_walked_over(either: sync.Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.client.batches.batches_sync.PAGE_MAX", 2)
    ids = newest_first([either.batches.open().id for _ in range(5)])
    assert [status.id for status in islice(either.batches.list(), 3)] == ids[:3]
    assert len(list(either.batches.list())) == 5


def test_a_batch_is_got_by_its_id_without_asking(either: sync.Hub) -> None:
    batch = either.batches.open("night")
    got = either.batches.get(batch.id)
    assert (got.id, got.key, got.webhook_secret) == (batch.id, None, None)
    assert got.status().key == "night"
    with pytest.raises(errors.BatchUnknown):
        either.batches.get(UNKNOWN).status()


def test_a_key_can_be_unique_among_open_batches(either: sync.Hub) -> None:
    first = either.batches.open("night", unique=True)
    with pytest.raises(errors.BatchKeyUsed):
        either.batches.open("night", unique=True)
    first.seal()
    assert either.batches.open("night", unique=True).id != first.id


def test_a_deleted_batch_is_unknown(either: sync.Hub) -> None:
    batch = either.batches.open()
    items = batch.add(1)
    batch.delete()
    with pytest.raises(errors.BatchUnknown):
        batch.status()
    with pytest.raises(errors.BatchUnknown):
        batch.delete()
    assert batch.acknowledge([items[0]]).unknown == (items[0],)


def test_a_webhook_may_be_an_address_and_its_secret_is_told_once(either: sync.Hub) -> None:
    batch = either.batches.open(webhook="https://example.org/done")
    assert batch.webhook_secret is not None
    assert batch.webhook_secret.startswith("whsec_")
    given = restante.Webhook(url="https://example.org/done", secret=batch.webhook_secret)
    assert either.batches.open(webhook=given).webhook_secret is None


@pytest.mark.parametrize(
    "wrong", [{"counting": "roughly"}, {"webhook": 5}, {"webhook": "no address"}, {"key": ""}, {"notify": ""}]
)
def test_what_cannot_be_opened_is_refused(either: sync.Hub, wrong: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidRequest):
        either.batches.open(**wrong)  # type: ignore[arg-type]
    assert list(either.batches.list()) == []


@pytest.mark.parametrize("counting", ["estimated", Counting.ESTIMATED])
def test_an_estimated_batch_is_counted(either: sync.Hub, counting: Counting | str) -> None:
    with either.batches.open(counting=counting) as batch:
        items = batch.add(3)
    assert batch.acknowledge(items).complete
    assert batch.status().counting is Counting.ESTIMATED
    with pytest.raises(errors.InvalidRequest):
        next(batch.pending())


def test_completed_waits_until_it_is(either: sync.Hub) -> None:
    with either.batches.open() as batch:
        items = batch.add(1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(batch.completed, SECONDS)
        batch.acknowledge(items)
        assert waiting.result(SECONDS).state is BatchState.COMPLETE


def test_completed_gives_up_when_the_time_is_over(either: sync.Hub) -> None:
    batch = either.batches.open()
    with pytest.raises(TimeoutError, match=r"not complete within 0\.05 s"):
        batch.completed(timeout=0.05)
    with pytest.raises(errors.InvalidRequest, match="timeout"):
        batch.completed(timeout="soon")  # type: ignore[arg-type]


def test_reaping_gives_what_nobody_touched(either: sync.Hub) -> None:
    either.batches.open()
    assert either.batches.reap(dry_run=True) == ()
    assert either.batches.reap() == ()
    assert len(list(either.batches.list())) == 1


def test_a_batch_says_who_it_is() -> None:
    with restante.connect("http://127.0.0.1:1") as hub:
        assert repr(hub.batches.get("x")) == "<Batch x>"


# Lost answers.


def test_lost_answers_change_nothing(behind: sync.Hub, proxy: CuttingProxy) -> None:
    proxy.cut_after()
    batch = behind.batches.open("night", unique=True)
    proxy.cut_after()
    items = batch.add(5)
    assert batch.status().items == 5
    proxy.cut_after()
    batch.acknowledge(list(items))
    assert batch.status().pending == 0
    proxy.cut_after()
    assert batch.seal()
    assert len(list(behind.batches.list())) == 1
    proxy.cut_after()
    batch.delete()
    assert list(behind.batches.list()) == []
    assert proxy.cuts == 5


# Pipelining.


class Counter:
    """A link that notes how many calls are under way."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.most = self._under_way = 0
        self._lock = threading.Lock()
        self._together = threading.Barrier(limits.ACKNOWLEDGE_CALLS_MAX)

    def call(self, call: AcknowledgeItems) -> Acknowledged:
        with self._lock:
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            self.calls.append(len(call.items))
        self._together.wait(SECONDS)
        with self._lock:
            self._under_way -= 1
        return Acknowledged(acknowledged=len(call.items), complete=(), unknown=())


def test_a_few_calls_are_under_way_at_once_and_never_more() -> None:
    counter = Counter()
    calls = 2 * limits.ACKNOWLEDGE_CALLS_MAX
    ids = [f"{UNKNOWN}:0:{index * 7919 % (calls * 10_000)}" for index in range(calls * 10_000)]
    assert acknowledge(counter, ids).acknowledged == len(ids)  # type: ignore[arg-type]
    assert counter.calls == [10_000] * calls
    assert counter.most == limits.ACKNOWLEDGE_CALLS_MAX


def test_when_one_of_many_calls_fails_so_does_the_whole(either: sync.Hub) -> None:
    batch = either.batches.open()
    ids = list(batch.add(50_000))
    random.Random(3).shuffle(ids)
    ids[25_000] = "junk"
    with pytest.raises(errors.InvalidItem, match="junk"):
        batch.acknowledge(ids)
    ids.remove("junk")
    batch.acknowledge(ids)
    assert batch.status().pending == 1


def test_what_goes_wrong_with_the_callers_iterator_comes_through(either: sync.Hub) -> None:
    batch = either.batches.open()
    items = batch.add(60_000)

    def failing() -> Iterator[str]:
        shuffled = list(items)
        random.Random(3).shuffle(shuffled)
        yield from shuffled[:45_000]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        batch.acknowledge(failing())
    assert batch.status().pending < 60_000


def test_the_batches_of_a_hub_are_its_own(either: sync.Hub) -> None:
    assert isinstance(either.batches, Batches)
    assert either.batches is either.batches


def test_several_calls_at_once_are_answered_one_by_one(either: sync.Hub) -> None:
    with either.batches.open("night") as batch:
        items = batch.add(30)
    unknown = f"{batch.id}:77:1"
    answers = either.batches.acknowledge_each(
        [list(items[:10]), [unknown, items[0]], [], [items[10:20]], items[20], list(items)]
    )
    assert [answer.acknowledged for answer in answers] == [10, 0, 0, 10, 1, 9]
    assert [answer.unknown for answer in answers] == [(), (unknown,), (), (), (), ()]
    assert answers[-1].complete == (CompleteBatch(id=batch.id, key="night"),)
    assert either.batches.acknowledge_each([]) == ()


def test_several_calls_that_the_hub_knows_nothing_of_change_nothing(either: sync.Hub) -> None:
    batch = either.batches.open()
    group = batch.add(3).groups[0].id
    ids = [f"{batch.id}:{group}:{index}" for index in (3, 4, 5)]
    answers = either.batches.acknowledge_each([[item] for item in ids])
    assert [(answer.acknowledged, answer.unknown) for answer in answers] == [(0, (item,)) for item in ids]
    assert batch.status().pending == 3


def test_one_call_that_is_refused_refuses_the_request(either: sync.Hub) -> None:
    batch = either.batches.open()
    items = batch.add(10)
    with pytest.raises(errors.InvalidItem, match="junk"):
        either.batches.acknowledge_each([[items[0]], ["junk"], [items[1]]])
    assert batch.status().pending == 10
