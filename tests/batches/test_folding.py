"""Folding beside everything else: what was written ahead goes only when the bits that it said are stored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from restante import limits
from restante.assembly import open_hub
from restante.calls.batches import AcknowledgeItems, AddItems, ListPendingItems, OpenBatch, ReadBatch, SealBatch
from restante.errors import Unavailable
from restante.hub.door.hub import OpenHub
from restante.hub.engine.commit_request import Planned
from restante.hub.engine.plan import RequestDraft
from restante.model.batches.batch_answers import Acknowledged, BatchState, ItemRange
from restante.model.storage.changes import Changes, Space
from restante.stores.memory import MemoryStore
from tests.batches.folding import fold_batches
from tests.batches.places import PLACES, SETTINGS
from tests.batches.wishes import CHUNK, SEGMENT

PATIENCE_SECONDS = 60.0


def batch_of(hub: OpenHub, count: int) -> tuple[str, str]:
    """A batch with so many items: its id, and `<batch>:<group>`."""
    batch_id = hub.call(OpenBatch()).id
    (group,) = hub.call(AddItems(batch_id, count)).groups
    return batch_id, f"{batch_id}:{group.id}"


def pending_of(hub: OpenHub, batch_id: str) -> list[str]:
    return list(hub.call(ListPendingItems(batch_id, limit=1_000)).items)


def reopened(store: MemoryStore) -> OpenHub:
    return open_hub(None, store=store.survivor(), settings=SETTINGS)


class InterruptedStore(MemoryStore):
    """Somebody else does something right after commits that drop what was written ahead, or store bits."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None
        self.after = Space.BATCH_ACKNOWLEDGED
        self.done = threading.Event()

    def commit(self, changes: Changes) -> None:
        super().commit(changes)
        touched = any(
            key.space is self.after and (value is None) == (self.after is Space.BATCH_ACKNOWLEDGED)
            for key, value in changes.entries.items()
        )
        if touched and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            # In the committer's thread, which must not wait for itself: its next commit takes what is asked here.
            threading.Thread(target=self._do, args=(meanwhile,)).start()

    def _do(self, meanwhile: Callable[[], object]) -> None:
        meanwhile()
        self.done.set()


@pytest.mark.parametrize("after", [Space.BATCH_ACKNOWLEDGED, Space.BATCH_BITS])
@pytest.mark.parametrize("attempt", range(20))
def test_what_is_acknowledged_while_a_batch_is_folded_is_not_forgotten(
    after: Space, attempt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so little room that batches leave memory at once: a batch comes back while it is being folded."""
    monkeypatch.setattr(limits, "BATCH_BITS_BYTES_MAX", 0)
    store = InterruptedStore()
    hub = open_hub(None, store=store, settings=SETTINGS)
    batch_id, group = batch_of(hub, 5)
    hub.call(AcknowledgeItems([f"{group}:0"]))
    hub.call(AcknowledgeItems([f"{group}:1"]))
    store.after, store.meanwhile = after, lambda: hub.call(AcknowledgeItems([f"{group}:2"]))
    fold_batches(hub)
    assert store.done.wait(PATIENCE_SECONDS)
    assert pending_of(hub, batch_id) == [f"{group}:3", f"{group}:4"]
    hub.close()
    again = reopened(store)
    assert pending_of(again, batch_id) == [f"{group}:3", f"{group}:4"]
    assert again.call(ReadBatch(batch_id)).pending == 2
    again.close()


def test_an_entry_written_while_the_entries_before_it_are_dropped_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, made to happen for certain: it is written between two looks for entries to drop."""
    monkeypatch.setattr(limits, "BATCH_BITS_BYTES_MAX", 0)

    class Looking(MemoryStore):
        meanwhile: Callable[[], object] | None = None
        looks = 0

        def scan(self, partition: int, space: Space, **how: object) -> list[tuple[bytes, bytes]]:
            if space is Space.BATCH_ACKNOWLEDGED and how.get("limit") is not None and self.meanwhile is not None:
                self.looks += 1
                if self.looks == 2:
                    meanwhile, self.meanwhile = self.meanwhile, None
                    meanwhile()
            return super().scan(partition, space, **how)  # type: ignore[arg-type]  # handed on as it came

    store = Looking()
    hub = open_hub(None, store=store, settings=SETTINGS)
    batch_id, group = batch_of(hub, 5)
    hub.call(AcknowledgeItems([f"{group}:0"]))
    hub.call(AcknowledgeItems([f"{group}:1"]))
    store.meanwhile = lambda: hub.call(AcknowledgeItems([f"{group}:2"]))
    fold_batches(hub)
    if store.meanwhile is not None:
        store.meanwhile()
    hub.close()
    again = reopened(store)
    assert pending_of(again, batch_id) == [f"{group}:3", f"{group}:4"]
    assert again.call(ReadBatch(batch_id)).pending == 2
    again.close()


# --- In one commit ----------------------------------------------------------------------------------------------------


def in_one_commit(hub: OpenHub, *calls: Callable[[], object]) -> list[object]:
    """The answers to calls that wait for the same commit, in this order."""
    committer, entered, gate = hub._core.committer, threading.Event(), threading.Event()
    answers: list[object] = [None] * len(calls)

    def hold(draft: RequestDraft) -> None:
        entered.set()
        assert gate.wait(PATIENCE_SECONDS)

    def answer(at: int) -> None:
        answers[at] = calls[at]()

    holder = threading.Thread(target=committer.submit, args=(Planned(hold),))
    holder.start()
    assert entered.wait(PATIENCE_SECONDS)
    threads = [threading.Thread(target=answer, args=(at,)) for at in range(len(calls))]
    for number, thread in enumerate(threads):
        thread.start()
        while len(committer._queue) <= number:
            thread.join(0.001)
    gate.set()
    for thread in (holder, *threads):
        thread.join(PATIENCE_SECONDS)
    return answers


@pytest.fixture(params=list(PLACES))
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenHub]:
    opened = PLACES[request.param](tmp_path / "data").open()
    yield opened
    opened.close()


def test_pending_items_listed_in_the_commit_of_an_add_have_ids_that_are_known(hub: OpenHub) -> None:
    batch_id, group = batch_of(hub, 2)
    added, page = in_one_commit(
        hub, lambda: hub.call(AddItems(batch_id, 2)), lambda: hub.call(ListPendingItems(batch_id))
    )
    second = f"{batch_id}:{added.groups[0].id}"  # type: ignore[attr-defined]
    before = [f"{group}:0", f"{group}:1"]
    assert list(page.items) in (before, [*before, f"{second}:0", f"{second}:1"])  # type: ignore[attr-defined]


def test_calls_of_one_commit_that_name_the_same_items_count_each_once(hub: OpenHub) -> None:
    count = 3 * CHUNK
    batch_id, group = batch_of(hub, count)
    whole, some = ItemRange(group=group, start=0, upto=count), [f"{group}:{index}" for index in range(0, count, 97)]
    answers = in_one_commit(
        hub,
        lambda: hub.call(AcknowledgeItems(some)),
        lambda: hub.call(AcknowledgeItems(some, ranges=[whole])),
        lambda: hub.call(AcknowledgeItems(ranges=[whole])),
        lambda: hub.call(SealBatch(batch_id)),
        lambda: hub.call(AcknowledgeItems(some)),
    )
    newly = [each.acknowledged for each in answers if isinstance(each, Acknowledged)]
    assert newly == [len(some), count - len(some), 0, 0]
    assert hub.call(ReadBatch(batch_id)).state is BatchState.COMPLETE


def test_batches_that_leave_memory_within_a_commit_lose_nothing(hub: OpenHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """One commit names more batches than are remembered; what it lists of them does not hide what it acknowledges."""
    monkeypatch.setattr(limits, "BATCHES_REMEMBERED_MAX", 2)
    batches = [batch_of(hub, 3) for _ in range(4)]
    in_one_commit(
        hub,
        lambda: hub.call(AcknowledgeItems([f"{group}:0" for _, group in batches])),
        *(lambda batch_id=batch_id: hub.call(ListPendingItems(batch_id)) for batch_id, _ in batches),
    )
    for batch_id, group in reversed(batches):
        assert hub.call(AcknowledgeItems([f"{group}:0"])).acknowledged == 0, "it was acknowledged before"
        assert hub.call(AcknowledgeItems([f"{group}:1"])).acknowledged == 1
        assert pending_of(hub, batch_id) == [f"{group}:2"]


# --- A store that fails -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_a_fold_that_fails_at_any_step_forgets_nothing(step: int) -> None:
    store = MemoryStore()
    hub = open_hub(None, store=store, settings=SETTINGS)
    batch_id, group = batch_of(hub, 2 * SEGMENT)
    hub.call(
        AcknowledgeItems([f"{group}:{CHUNK}"], ranges=[ItemRange(group=group, start=CHUNK + 5, upto=2 * SEGMENT - 5)])
    )
    expected = pending_of(hub, batch_id)
    store.fail_at(step)
    with pytest.raises(Unavailable):
        fold_batches(hub)
    hub.close()
    again = reopened(store)
    assert pending_of(again, batch_id) == expected
    fold_batches(again)
    assert pending_of(again, batch_id) == expected
    again.close()
