"""What is published again under a batch: no items of it, but it knows how many of them still wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from restante.calls.batches import SealBatch
from restante.calls.mailboxes import Dequeue, Peek
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, ExpireNow, Purge, Release, SetAside, Withdraw
from restante.hub.door.hub import OpenHub
from restante.model.mailboxes.answers import BundleAnswer
from tests.hub.bound_world import (
    MANY,
    Act,
    World,
    collect,
    counted,
    in_one_commit,
    on_one_partition,
    opened,
    taken,
    worlds,
)
from tests.hub.engines import FakeClock
from tests.hub.letters import at, id_of, letter, letters


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[World]:
    yield from worlds(request, clock, tmp_path / "data")


@pytest.fixture
def hub(world: World) -> OpenHub:
    return world.hub


@pytest.mark.parametrize("count", [3, MANY])
def test_duplicates_are_no_items_and_say_whether_their_originals_wait(hub: OpenHub, count: int) -> None:
    first, again = opened(hub), opened(hub)
    hub.call(Publish.of(letters(range(count)), batch=first))
    collect(hub, max_messages=1)
    hub.call(Publish.of(letters(range(count)), batch=again))
    assert counted(hub, again) == {"duplicates": count, "duplicates_waiting": count - 1}
    assert hub.call(SealBatch(again)).complete
    collect(hub)
    assert counted(hub, again) == {"duplicates": count}
    assert counted(hub, first) == {"items": count, "collected": count}


def test_the_same_duplicate_twice_waits_once(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letter(1)))
    for _ in range(3):
        hub.call(Publish.of(letter(1), batch=batch))
    assert counted(hub, batch) == {"duplicates": 3, "duplicates_waiting": 1}
    collect(hub)
    hub.call(Publish.of(letter(1), batch=batch))
    assert counted(hub, batch) == {"duplicates": 4}


@pytest.mark.parametrize("count", [2, MANY])
def test_a_message_that_comes_twice_in_one_publish_is_item_and_duplicate(hub: OpenHub, count: int) -> None:
    batch = opened(hub)
    hub.call(Publish.of([*letters(range(count)), letter(0), letter(0)], batch=batch))
    expected = {"items": count, "pending": count, "duplicates": 2, "duplicates_waiting": 1}
    assert counted(hub, batch) == expected
    collect(hub)
    assert counted(hub, batch) == {"items": count, "collected": count, "duplicates": 2}


def test_duplicates_of_several_batches_are_counted_in_each(hub: OpenHub) -> None:
    batches = [opened(hub) for _ in range(3)]
    for batch in batches:
        hub.call(Publish.of(letters([1, 2]), batch=batch))
    assert [counted(hub, batch).get("duplicates_waiting", 0) for batch in batches] == [0, 2, 2]
    collect(hub, max_messages=1)
    assert [counted(hub, batch).get("duplicates_waiting", 0) for batch in batches] == [0, 1, 1]
    hub.call(Withdraw("ada", id_of(2)))
    assert [counted(hub, batch).get("duplicates_waiting", 0) for batch in batches] == [0, 0, 0]


@on_one_partition
def test_very_many_duplicates_are_judged_by_the_heads_of_their_cabinets(hub: OpenHub) -> None:
    first, again = opened(hub), opened(hub)
    sent = [letter(number, f"r{number % 50}", origin=("o", "p")[number % 2]) for number in range(6_000)]
    hub.call(Publish.of(sent, batch=first))
    assert collect(hub, "r0", max_messages=20) == 20
    bundle = taken(hub, "r1", max_messages=30)
    hub.call(SetAside("r2", id_of(2)))
    assert collect(hub, "r2", max_messages=10) == 10
    hub.call(Withdraw("r3", id_of(3)))
    hub.call(Publish.of(sent, batch=again))
    assert counted(hub, again) == {"duplicates": 6_000, "duplicates_waiting": 6_000 - 20 - 10 - 1}
    hub.call(Dequeue("r1", bundle.bundle_id))
    assert counted(hub, again)["duplicates_waiting"] == 6_000 - 20 - 10 - 1 - 30
    assert counted(hub, first)["pending"] == counted(hub, again)["duplicates_waiting"]


@pytest.mark.parametrize("reopened", [False, True])
def test_a_duplicate_published_while_its_original_lies_in_an_open_bundle(
    world: World,
    reopened: bool,
) -> None:
    hub = world.hub
    first, again = opened(hub), opened(hub)
    hub.call(Publish.of(letters([1, 2, 3, 4]), batch=first))
    hub.call(SetAside("ada", id_of(1)))
    bundle = taken(hub, max_messages=2)
    hub.call(Publish.of(letters([1, 2, 3]), batch=again))
    hub.call(Publish.of(letters([2, 4]), batch=again))
    assert counted(hub, again) == {"duplicates": 5, "duplicates_waiting": 4}
    if reopened:
        hub = world.reopen()
    hub.call(Dequeue("ada", bundle.bundle_id))
    assert counted(hub, again) == {"duplicates": 5, "duplicates_waiting": 2}
    assert counted(hub, first) == {"items": 4, "pending": 2, "collected": 2}
    collect(hub)
    assert counted(hub, again) == {"duplicates": 5, "duplicates_waiting": 1}
    hub.call(Withdraw("ada", id_of(1)))
    assert counted(hub, again) == {"duplicates": 5}


def test_a_duplicate_of_what_an_open_bundle_leaves_out_is_not_collected_with_it(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letters([1, 2, 3])))
    hub.call(SetAside("ada", id_of(2)))
    bundle = taken(hub)
    hub.call(Publish.of(letters([1, 2, 3]), batch=batch))
    hub.call(Dequeue("ada", bundle.bundle_id))
    assert counted(hub, batch) == {"duplicates": 3, "duplicates_waiting": 1}
    hub.call(Release("ada", id_of(2)))
    collect(hub)
    assert counted(hub, batch) == {"duplicates": 3}


def test_duplicates_expire_with_their_originals(hub: OpenHub, clock: FakeClock) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letters([1, 2], expires_at=at(5))))
    hub.call(Publish.of(letters([1, 2], expires_at=at(5)), batch=batch))
    assert counted(hub, batch) == {"duplicates": 2, "duplicates_waiting": 2}
    clock.advance(6)
    hub.call(ExpireNow())
    assert counted(hub, batch) == {"duplicates": 2}


AFTERWARDS: dict[str, Callable[[OpenHub], object]] = {
    "peek": lambda hub: hub.call(Peek("ada")),
    "withdraw": lambda hub: hub.call(Withdraw("ada", id_of(1))),
    "set aside": lambda hub: hub.call(SetAside("ada", id_of(1))),
    "purge": lambda hub: hub.call(Purge("ada", all=True)),
    "erase": lambda hub: hub.call(Erase("ada")),
}


@pytest.mark.parametrize("after", AFTERWARDS)
@pytest.mark.parametrize("prepared", ["waiting", "in a bundle", "set aside behind the head"])
def test_a_duplicate_and_what_follows_it_in_the_same_commit(hub: OpenHub, after: str, prepared: str) -> None:
    batch = opened(hub)
    hub.call(Publish.of(letters([1, 2])))
    if prepared == "in a bundle":
        bundle = taken(hub)
        acts: tuple[Act, ...] = (lambda: hub.call(Dequeue("ada", bundle.bundle_id)),)
    elif prepared == "waiting":
        acts = (lambda: AFTERWARDS[after](hub),)
    else:
        hub.call(SetAside("ada", id_of(1)))
        collect(hub)
        acts = (lambda: hub.call(Release("ada", id_of(1))),)
    in_one_commit(hub, lambda: hub.call(Publish.of(letters([1, 2]), batch=batch)), *acts)
    assert counted(hub, batch)["duplicates"] == 2
    while isinstance(found := hub.call(Peek("ada")), BundleAnswer):
        hub.call(Dequeue("ada", found.bundle_id))
    hub.call(Purge("ada", all=True))
    assert counted(hub, batch) == {"duplicates": 2}


def test_a_publish_and_the_seal_behind_it_in_one_commit(hub: OpenHub) -> None:
    batch = opened(hub)
    answers = in_one_commit(
        hub,
        lambda: hub.call(Publish.of(letter(1), batch=batch)),
        lambda: hub.call(SealBatch(batch)),
    )
    assert not getattr(answers[1], "complete", True)
    assert counted(hub, batch) == {"items": 1, "pending": 1}
