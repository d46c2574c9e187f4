"""The progress of a batch by recipient, the end of its bindings, and what the doctor says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.assembly import open_hub
from restante.calls.batches import DeleteBatch, ReadProgress
from restante.calls.mailboxes import PartitionOf, Peek
from restante.calls.publishing import Publish
from restante.calls.removal import ExpireNow, FileNow, RetainNow, SetAside, Withdraw
from restante.errors import InvalidRequest
from restante.hub.batches.bound_messages import forget_bindings
from restante.hub.batches.memory import BoundMemory
from restante.hub.doctor.doctor import examine
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch import decode_counts, encode_counts
from restante.model.batches.bound_stretches import BindingRole, binding_key
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.mailboxes.bundle import decode_bundle, encode_bundle
from restante.model.publishing.message import Message
from restante.model.storage.changes import Changes, Space
from restante.model.storage.keys import number_key
from restante.stores.memory import MemoryStore
from tests.hub.bound_world import ALONE, MANY, World, collect, counted, opened, progress_of, stretches, taken, worlds
from tests.hub.engines import FakeClock
from tests.hub.letters import RETENTION_SECONDS, at, id_of, letter, letters


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[World]:
    yield from worlds(request, clock, tmp_path / "data")


@pytest.fixture
def hub(world: World) -> OpenHub:
    return world.hub


# Progress.


def test_progress_tells_what_became_of_each_recipients_messages(world: World, clock: FakeClock) -> None:
    hub = world.hub
    batch = opened(hub)
    hub.call(Publish.of([letter(1), letter(2), letter(3, expires_at=at(50)), letter(4), letter(5)], batch=batch))
    clock.advance(1)
    hub.call(Publish.of([letter(6, "ben"), letter(7, "cleo")], batch=batch))
    hub.call(Publish.of(letters([8, 9], recipient="dora")))
    hub.call(Publish.of([letter(8, "dora"), letter(6, "ben")], batch=batch))
    hub.call(Withdraw("ada", id_of(1)))
    hub.call(SetAside("ada", id_of(2)))
    collect(hub, "cleo")
    expected: dict[str, dict[str, Any]] = {
        "ada": {"waiting": 3, "set_aside": 1, "withdrawn": 1, "oldest_waiting": at(0)},
        "ben": {"waiting": 1, "duplicates_waiting": 1, "oldest_waiting": at(1)},
        "cleo": {"collected": 1},
        "dora": {"duplicates_waiting": 1},
    }
    assert progress_of(hub, batch) == expected
    assert progress_of(hub, batch, waiting=True) == {name: expected[name] for name in ("ada", "ben", "dora")}
    hub.call(FileNow())
    hub = world.reopen()
    assert progress_of(hub, batch) == expected
    clock.advance(60)
    hub.call(ExpireNow())
    collect(hub)
    expected["ada"] = {"collected": 2, "set_aside": 1, "withdrawn": 1, "expired": 1}
    assert progress_of(hub, batch) == expected
    assert progress_of(hub, batch, waiting=True) == {name: expected[name] for name in ("ada", "ben", "dora")}


def test_progress_tells_what_was_settled_among_what_was_collected(hub: OpenHub, clock: FakeClock) -> None:
    batch = opened(hub)
    hub.call(Publish.of([letter(1), letter(2), letter(3, expires_at=at(5)), letter(4)], batch=batch))
    hub.call(Withdraw("ada", id_of(2)))
    clock.advance(6)
    collect(hub)
    assert progress_of(hub, batch) == {"ada": {"collected": 2, "withdrawn": 1, "expired": 1}}


def test_progress_shows_only_what_is_within_its_retention(hub: OpenHub, clock: FakeClock) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letters(range(6)), batch=batch))
    collect(hub, max_messages=4)
    clock.advance(RETENTION_SECONDS + 1)
    hub.call(RetainNow())
    collect(hub)
    assert progress_of(hub, batch) == {"ada": {"collected": 2}}
    assert counted(hub, batch) == {"items": 6, "collected": 6}


@pytest.mark.parametrize("filed", [False, True])
def test_progress_comes_in_pages_that_miss_nobody(hub: OpenHub, filed: bool) -> None:
    batch, names = opened(hub), [f"r{number:03}ü:" for number in range(150)]
    hub.call(Publish.of([letter(number, name) for number, name in enumerate(names)]))
    hub.call(Publish.of([letter(1_000 + number, name) for number, name in enumerate(names) if number % 3], batch=batch))
    hub.call(Publish.of([letter(2_000 + number, name) for number, name in enumerate(names)]))
    if filed:
        hub.call(FileNow())
    found, after = list[str](), None
    while True:
        page = hub.call(ReadProgress(batch, limit=7, after=after))
        found += [entry.recipient for entry in page.recipients]
        assert all(entry.waiting == 1 for entry in page.recipients)
        if (after := page.next) is None:
            break
        assert len(page.recipients) == 7
    assert sorted(found) == [name for number, name in enumerate(names) if number % 3]
    partitions = [hub.call(PartitionOf(name)) for name in found]
    assert partitions == sorted(partitions)
    for one, other in pairwise(zip(partitions, found, strict=True)):
        assert one < other


@pytest.mark.parametrize("after", ["", "!", "MDo", "cmFuZG9t", "ü"])
def test_a_token_that_nobody_gave_is_refused(hub: OpenHub, after: str) -> None:
    with pytest.raises(InvalidRequest, match="after"):
        hub.call(ReadProgress(opened(hub), after=after))


def test_a_page_has_at_least_one_recipient(hub: OpenHub) -> None:
    with pytest.raises(InvalidRequest, match="limit"):
        hub.call(ReadProgress(opened(hub), limit=0))


def test_a_batch_without_messages_has_no_progress(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letter(1)))
    assert hub.call(ReadProgress(batch)).recipients == ()


def test_a_large_mailbox_is_told_by_its_drawers(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of([Message(recipient="ada", data=b"") for _ in range(25_000)], batch=batch))
    collect(hub, max_messages=11_000)
    assert progress_of(hub, batch) == {
        "ada": {"collected": 11_000, "waiting": 14_000, "oldest_waiting": at(0)},
    }


# Forgetting, and what the doctor says.


def test_the_bindings_of_a_batch_are_forgotten_in_small_commits(hub: OpenHub) -> None:
    batch, other = opened(hub), opened(hub)
    numbers = list(range(2_400))
    for number in numbers[:20]:
        hub.call(Publish.of(letter(number), batch=(batch, other)[number % 2]))
    hub.call(Publish.of(letters(numbers[20:])))
    hub.call(Publish.of(letters(numbers[20::2]), batch=batch))
    assert len(stretches(hub, BindingRole.DUPLICATE)) > 1_000
    home, bound = hub.call(PartitionOf("ada")), hub.core.memory(BoundMemory)
    hub.call(DeleteBatch(batch))
    forget_bindings(hub.core, _bytes(batch))
    assert stretches(hub, BindingRole.DUPLICATE) == []
    assert len(stretches(hub)) == 10
    assert bound.of(home).keys(_bytes(batch)) == []
    assert len(bound.of(home).keys(_bytes(other))) == 10
    while isinstance(hub.call(Peek("ada")), BundleAnswer):
        collect(hub)
    assert counted(hub, other) == {"items": 10, "collected": 10}


def _bytes(batch: str) -> bytes:
    return bytes.fromhex(batch.replace("-", ""))


def spoil_counts(hub: OpenHub, batch: bytes, partition: int) -> None:
    value = hub.core.store.get(partition, Space.BATCH_COUNT, batch)
    assert value is not None
    counts = msgspec.structs.replace(decode_counts(value), added=7, duplicates_waiting=3)
    _put(hub, partition, Space.BATCH_COUNT, batch, encode_counts(counts))


def spoil_stretch(hub: OpenHub, batch: bytes, partition: int) -> None:
    _put(hub, partition, Space.BATCH_BINDING, binding_key(2, BindingRole.ITEM, batch), number_key(2))


def spoil_batch(hub: OpenHub, batch: bytes, partition: int) -> None:
    _put(hub, partition, Space.BATCH_BINDING, binding_key(2, BindingRole.DUPLICATE, bytes(16)), number_key(2))


def spoil_end(hub: OpenHub, batch: bytes, partition: int) -> None:
    _put(hub, partition, Space.BATCH_BINDING, binding_key(3, BindingRole.DUPLICATE, batch), number_key(2))


def spoil_form(hub: OpenHub, batch: bytes, partition: int) -> None:
    _put(hub, partition, Space.BATCH_BINDING, b"x", b"y")


def spoil_bundle(hub: OpenHub, batch: bytes, partition: int) -> None:
    ((key, value),) = hub.core.store.scan(partition, Space.BUNDLE)
    row = msgspec.structs.replace(decode_bundle(value), batches=((batch, 1, 1),))
    _put(hub, partition, Space.BUNDLE, key, encode_bundle(row))


def _put(hub: OpenHub, partition: int, space: Space, key: bytes, value: bytes) -> None:
    hub.core.commit(lambda draft: draft.put(partition, space, key, value))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_counts, ["the counts say 7", "the counts say 3"]),
        (spoil_stretch, ["overlap"]),
        (spoil_batch, ["There is no batch"]),
        (spoil_end, ["not within 1 to"]),
        (spoil_form, ["another form"]),
        (spoil_bundle, ["open bundle", "it has 2 items and 0 duplicates, but says (1, 1)"]),
    ],
)
def test_the_doctor_finds_bindings_and_counts_that_cannot_be(
    spoil: Callable[[OpenHub, bytes, int], None], said: list[str]
) -> None:
    store = MemoryStore()
    hub = open_hub(None, settings=ALONE, store=store, clock=FakeClock())
    batch = opened(hub)
    hub.call(Publish.of(letters([1, 2, 3]), batch=batch))
    taken(hub, max_messages=2)
    assert examine(store).sound
    spoil(hub, _bytes(batch), 0)
    found = " ".join(f"{finding.what} {finding.detail}" for finding in examine(store).findings)
    hub.close()
    for text in said:
        assert text in found


def test_publishing_without_a_batch_binds_nothing(hub: OpenHub) -> None:
    hub.call(Publish.of(letters(range(MANY))))
    hub.call(Publish.of(letter(1_000)))
    collect(hub)
    core = hub.core
    for memory in core.partitions:
        assert not core.memory(BoundMemory).of(memory.number)
        for space in (Space.BATCH_BINDING, Space.BATCH_COUNT):
            assert core.store.scan(memory.number, space) == []


def test_a_commit_that_fails_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    hub = open_hub(None, settings=ALONE, store=store, clock=FakeClock())
    batch = opened(hub)
    commit = store.commit

    def failing(changes: Changes) -> None:
        monkeypatch.setattr(store, "commit", commit)
        raise InvalidRequest("It is full.")

    monkeypatch.setattr(store, "commit", failing)
    with pytest.raises(InvalidRequest):
        hub.call(Publish.of(letter(1), batch=batch))
    assert counted(hub, batch) == {}
    assert not hub.core.memory(BoundMemory).of(0)
    hub.call(Publish.of(letter(1), batch=batch))
    assert counted(hub, batch) == {"items": 1, "pending": 1}
    assert examine(store).sound
    hub.close()
