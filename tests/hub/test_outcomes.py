"""A commit whose answer is lost: looked up, never guessed; and a hub that no longer owns its store tells nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import restante
from restante import limits
from restante.client.surface.surface import Hub
from restante.errors import MessageConflict, NotOwner, OutcomeUnknown, Unavailable
from restante.hub.doctor.doctor import examine
from restante.limits import BLOB_NUMBERS_PER_FENCE
from restante.stores.memory import MemoryStore
from restante.stores.postgresql import PostgresqlStore
from tests.hub.letters import SETTINGS, letter, letters, peeked, taken
from tests.postgresql_server import DoubtfulProxy, schema_address

LOST = OutcomeUnknown("The answer is lost.")
WHOLE = 100
"""More steps than any commit here has: it is whole, and only its answer is lost."""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def hub(store: MemoryStore) -> Iterator[Hub]:
    with closing(restante.open(None, settings=SETTINGS, store=store)) as hub:
        yield hub


def test_a_commit_that_was_stored_is_answered_although_its_answer_was_lost(store: MemoryStore, hub: Hub) -> None:
    store.fail_at(WHOLE, LOST)
    assert hub.producer.send(letters([1, 2])).accepted == 2
    hub.producer.send(letters([3]))
    assert taken(hub) == [1, 2, 3]


def test_a_commit_that_was_not_stored_fails_and_may_be_sent_again(store: MemoryStore, hub: Hub) -> None:
    store.fail_at(0, LOST)
    with pytest.raises(Unavailable) as failed:
        hub.producer.send(letters([1, 2]))
    assert not isinstance(failed.value, OutcomeUnknown)
    assert hub.producer.send(letters([1, 2])).accepted == 2
    assert taken(hub) == [1, 2]


@pytest.mark.parametrize("stored", [True, False])
def test_nothing_is_planned_while_the_outcome_is_unknown(
    store: MemoryStore, hub: Hub, monkeypatch: pytest.MonkeyPatch, *, stored: bool
) -> None:
    monkeypatch.setattr(limits, "OUTCOME_SECONDS_MAX", 0.0)
    hub.producer.send(letters([1]))
    store.fail_at(WHOLE if stored else 0, LOST)
    store.keep_in_doubt(Unavailable("It cannot be asked."))
    with pytest.raises(OutcomeUnknown):
        hub.producer.send(letters([2]))
    for _ in range(3):
        with pytest.raises(Unavailable):
            hub.producer.send(letters([3]))
        with pytest.raises(Unavailable):
            peeked(hub).dequeue()
    store.keep_in_doubt(None)
    assert hub.producer.send(letters([2])).duplicates == (1 if stored else 0)
    hub.producer.send(letters([3]))
    assert taken(hub) == [1, 2, 3]
    assert examine(store).sound


def test_memory_is_brought_up_once_to_a_commit_that_was_found_stored_later(
    store: MemoryStore, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTCOME_SECONDS_MAX", 0.0)
    store.fail_at(WHOLE, LOST)
    store.keep_in_doubt(Unavailable("It cannot be asked."))
    with pytest.raises(OutcomeUnknown):
        hub.producer.send(letters([1]))
    store.keep_in_doubt(None)
    hub.producer.send(letters([2]))
    (partition,) = [status for status in hub.partitions() if status.waiting]
    assert (partition.waiting, partition.visible_sequence) == (2, 2)


@pytest.mark.parametrize(
    "look",
    [
        lambda hub: hub.recipient("ada").peek(),
        lambda hub: hub.recipient("nobody").peek(),
        lambda hub: hub.recipient("ada").explain(),
        lambda hub: hub.recipient("ada").history(),
        lambda hub: hub.partitions(),
        lambda hub: hub.producer.send([letter(1)]),
    ],
)
def test_a_hub_that_may_not_own_its_store_tells_nothing(
    store: MemoryStore, hub: Hub, look: Callable[[Hub], object]
) -> None:
    """Neither what it has, nor that it has nothing, nor a refusal: another may know better."""
    hub.producer.send(letters([1]))
    store.owned = False
    with pytest.raises(NotOwner):
        look(hub)
    store.owned = True
    look(hub)
    assert taken(hub) == [1]


def test_a_refusal_is_told_by_who_owns_the_store(store: MemoryStore, hub: Hub) -> None:
    hub.producer.send(letters([1]))
    store.owned = False
    with pytest.raises(NotOwner):
        hub.producer.send([letter(1, data=b"another")])
    store.owned = True
    with pytest.raises(MessageConflict):
        hub.producer.send([letter(1, data=b"another")])


def test_blob_numbers_begin_with_the_fence_of_who_wrote_them(store: MemoryStore) -> None:
    seen: list[int] = []
    for number in range(3):
        store = store.survivor()
        with closing(restante.open(None, settings=SETTINGS, store=store)) as hub:
            hub.producer.send(letters([number]))
            seen.append(max(blob.number for partition in range(2) for blob in store.blobs(partition)))
    fences = [number // BLOB_NUMBERS_PER_FENCE for number in seen]
    assert fences == sorted(set(fences))
    assert fences[0] >= 1


@pytest.mark.parametrize("stored", [True, False])
def test_a_connection_cut_around_commit_loses_and_doubles_nothing(tmp_path: Path, *, stored: bool) -> None:
    proxy = DoubtfulProxy(schema_address(tmp_path))
    bulk = [letter(number, data=bytes(200)) for number in range(1_000)]
    with closing(restante.open(None, settings=SETTINGS, store=PostgresqlStore.open(proxy.address))) as hub:
        hub.producer.send([letter(10_000, "bob")])
        if stored:
            proxy.cut_after_commit()
            assert hub.producer.send(bulk).accepted == 1_000
        else:
            proxy.cut_before_commit()
            with pytest.raises(Unavailable):
                hub.producer.send(bulk)
            assert hub.producer.send(bulk).accepted == 1_000
        assert proxy.cuts == 1
        assert hub.producer.send(bulk).duplicates == 1_000
        assert taken(hub) == list(range(1_000))
        assert taken(hub, "bob") == [10_000]
    proxy.close()
