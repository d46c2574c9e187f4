"""Items acknowledged one by one: what waits, what goes next, and what came of it, without a hub."""

from __future__ import annotations

import pytest

from restante import limits
from restante.client.batches.acknowledger import Outbox
from restante.client.batches.batch_items import Items
from restante.errors import InvalidItem, InvalidOperation, InvalidRequest, Unavailable
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch, ItemGroup, ItemRange

BATCH = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
NOW = 100.0


def item(index: int, batch: str = BATCH) -> str:
    return f"{batch}:0:{index}"


def answer(count: int, *complete: str, unknown: tuple[str, ...] = ()) -> Acknowledged:
    done = tuple(CompleteBatch(id=batch, key=None) for batch in complete)
    return Acknowledged(acknowledged=count, complete=done, unknown=unknown)


def filled(count: int) -> Outbox:
    outbox = Outbox()
    for index in range(count):
        outbox.put(item(index), NOW)
    return outbox


def test_an_item_waits_a_moment_for_others() -> None:
    outbox = Outbox()
    assert outbox.wait(NOW) is None
    assert outbox.put(item(1), NOW)
    assert not outbox.put(item(2), NOW + 0.004)
    assert outbox.wait(NOW + 0.004) == pytest.approx(limits.ACKNOWLEDGER_WAIT_SECONDS - 0.004)
    assert outbox.wait(NOW + limits.ACKNOWLEDGER_WAIT_SECONDS) == 0
    assert outbox.take().items == [item(1), item(2)]
    assert outbox.wait(NOW + 9) is None


def test_a_full_call_does_not_wait() -> None:
    outbox = filled(limits.ACKNOWLEDGE_ITEMS_TARGET - 1)
    assert outbox.wait(NOW) != 0
    assert outbox.put(item(1), NOW)
    assert outbox.full
    assert outbox.wait(NOW) == 0
    assert len(outbox.take().items) == limits.ACKNOWLEDGE_ITEMS_TARGET


def test_a_flush_does_not_wait_and_ends_with_what_was_added_before() -> None:
    outbox = filled(2)
    assert outbox.hurry() == 2
    assert outbox.wait(NOW) == 0
    outbox.take()
    outbox.put(item(7), NOW)
    outbox.settle(answer(2))
    assert outbox.settled == 2
    assert outbox.wait(NOW) == pytest.approx(limits.ACKNOWLEDGER_WAIT_SECONDS)


def test_what_failed_is_told_once_and_goes_again_in_its_place() -> None:
    outbox = filled(2)
    outbox.take()
    outbox.put(item(2), NOW)
    outbox.fail(Unavailable("gone"))
    assert outbox.wait(NOW + 9) is None, "nothing is sent until somebody knows"
    with pytest.raises(Unavailable, match="gone"):
        outbox.check()
    outbox.check()
    assert outbox.wait(NOW + 9) == 0
    assert outbox.take().items == [item(0), item(1), item(2)]
    outbox.settle(answer(3))
    assert outbox.settled == outbox.taken == 3


def test_answers_are_summed_up() -> None:
    outbox = filled(1)
    outbox.take()
    outbox.settle(answer(1, "a", "b", unknown=("x",)))
    outbox.put(item(5), NOW)
    outbox.take()
    outbox.settle(answer(1, "a"))
    assert outbox.acknowledged == 2
    assert [batch.id for batch in outbox.complete] == ["b", "a"]
    assert outbox.unknown == ("x",)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.limits.BATCHES_REMEMBERED_MAX", 2)
    outbox = filled(1)
    outbox.take()
    many = tuple(map(str, range(limits.ACKNOWLEDGE_ITEMS_TARGET + 5)))
    outbox.settle(answer(1, "a", "b", "c", unknown=many))
    assert [batch.id for batch in outbox.complete] == ["b", "c"]
    assert outbox.unknown == many[5:]


def test_a_call_names_no_more_batches_than_it_may() -> None:
    outbox = Outbox()
    texts = [f"{BATCH[:-4]}{number:04}" for number in range(limits.BATCHES_AT_ONCE_MAX + 1)]
    for text in texts:
        outbox.put(item(1, text), NOW)
    assert outbox.take().items == [item(1, text) for text in texts[:-1]]
    outbox.settle(answer(0))
    assert outbox.take().items == [item(1, texts[-1])]


def test_ranges_and_items_of_an_add_are_taken() -> None:
    outbox = Outbox()
    outbox.put(Items.of(BATCH, [ItemGroup(id="0", upto=10**9)]), NOW)
    outbox.put(item(3), NOW)
    outbox.put(ItemRange(group=f"{BATCH}:1", start=0, upto=2), NOW)
    call = outbox.take()
    assert call.items == [item(3)]
    assert [(each.group, each.upto) for each in call.ranges] == [(f"{BATCH}:0", 10**9), (f"{BATCH}:1", 2)]
    outbox.put(Items.of(BATCH, []), NOW)
    assert outbox.wait(NOW + 9) is None


@pytest.mark.parametrize("wrong", ["", "x", f"{BATCH}:0:01", f"{BATCH}:0:-1", f"{BATCH}:0", f"{BATCH}:0:1\n"])
def test_what_is_no_id_is_refused_at_once(wrong: str) -> None:
    outbox = Outbox()
    with pytest.raises(InvalidItem):
        outbox.put(wrong, NOW)
    assert outbox.wait(NOW + 9) is None
    assert outbox.taken == 0


def test_what_is_no_range_is_refused_at_once() -> None:
    with pytest.raises(InvalidItem):
        Outbox().put(ItemRange(group=f"{BATCH}:0", start=2, upto=2), NOW)
    with pytest.raises(InvalidRequest, match="not int"):
        Outbox().put(5, NOW)  # type: ignore[arg-type]


def test_the_first_items_of_the_first_group_are_taken() -> None:
    outbox = Outbox()
    outbox.put(f"{BATCH}:0:0", NOW)
    outbox.put(f"{BATCH.upper()}:10:1000000000000", NOW)
    assert len(outbox.take().items) == 2


def test_a_closed_one_takes_nothing_and_sends_nothing() -> None:
    outbox = filled(3)
    outbox.close()
    assert outbox.wait(NOW + 9) is None
    with pytest.raises(InvalidOperation, match="closed"):
        outbox.check()
