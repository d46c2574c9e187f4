"""Consignments on a store that fails between any two steps: all is visible or nothing, and a repetition mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

import msgspec
import pytest

from restante.calls.batches import ListBatches
from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ListConsignments,
    ReadConsignment,
    StageParcel,
)
from restante.calls.publishing import Publish
from restante.calls.removal import RetainNow
from restante.client.surface import sync
from restante.errors import RestanteError, StorageFull, Unavailable
from restante.hub.door.hub import OpenHub
from restante.model.consignments.consignment_answers import ConsignmentState, ConsignmentStatus, Winner
from restante.model.publishing.message import Message
from restante.stores.memory import MemoryStore
from tests.consignments.examined import findings_of
from tests.crash.seen import Mailbox, check_counters, seen
from tests.hub.engines import FakeClock
from tests.hub.test_steps import SETTINGS, FaultyStore, message
from tests.profiles import faults

NAMES = ("ada", "ben", "dora")
IDLE_SECONDS = 50.0
KEPT_SECONDS = 200.0
RULES = msgspec.structs.replace(
    SETTINGS, consignment_idle_seconds=IDLE_SECONDS, consignment_retention_seconds=KEPT_SECONDS
)
MANY = 150
"""So many messages go another way than a few."""
WINNERS = [
    Winner(writer="one", attempt=1, messages=3),
    Winner(writer="two", attempt=0, messages=MANY),
]


def few(start: int) -> list[Message]:
    return [message(start + place, name) for place, name in enumerate(NAMES)]


def many(start: int) -> list[Message]:
    return [message(start + number, NAMES[number % 3]) for number in range(MANY)]


def open_at(store: MemoryStore, clock: FakeClock, *, seed: int = 0) -> OpenHub:
    """Always with the same ids, so that they lie in the same partitions: then each commit has the same steps."""
    return OpenHub(store, settings=RULES, origins={}, clock=clock, random=Random(seed).randbytes)


@dataclass
class World:
    """A hub with some mail, a committed consignment, a discarded one, and two that are open, one of them with a batch."""

    store: FaultyStore
    clock: FakeClock
    hub: OpenHub


@cache
def furnished() -> MemoryStore:
    store = MemoryStore()
    hub = open_at(store, FakeClock())
    hub.call(Publish.of(few(0)))
    for key in ("committed", "discarded", "plain", "with a batch"):
        opened = hub.call(BeginConsignment(key, batch=key == "with a batch"))
        start = 10_000 * (1 + len(key))
        hub.call(StageParcel.of(opened.id, few(start + 900), writer="one", attempt=0, parcel=0))
        hub.call(StageParcel.of(opened.id, [*few(start)[:2], message(0)], writer="one", attempt=1, parcel=0))
        hub.call(StageParcel.of(opened.id, many(start + 100), writer="two", attempt=0, parcel=3))
        if key == "committed":
            hub.call(CommitConsignment(opened.id, WINNERS))
        elif key == "discarded":
            hub.call(DiscardConsignment(opened.id))
    # Stored since it was staged.
    hub.call(Publish.of(few(10_000 * (1 + len("plain")))[:2]))
    hub.close()
    return store


@contextmanager
def world(later: float = 0) -> Iterator[World]:
    store, clock = FaultyStore(furnished()), FakeClock()
    hub = open_at(store, clock, seed=1)
    store.steps.clear()
    clock.advance(later)
    try:
        yield World(store, clock, hub)
    finally:
        hub.close()


class Shown(NamedTuple):
    """All that can be seen; ids that the hub makes are left out."""

    mailboxes: dict[str, Mailbox]
    consignments: tuple[tuple[object, ...], ...]
    batches: tuple[tuple[object, ...], ...]


def shown(hub: OpenHub) -> Shown:
    statuses = hub.call(ListConsignments()).consignments
    batches = hub.call(ListBatches()).batches
    return Shown(
        seen(sync.Hub(hub), NAMES).mailboxes,
        tuple(_of(hub, one) for one in sorted(statuses, key=lambda one: (one.key, one.state.value))),
        tuple(sorted((one.key or "", one.state.value, one.items, one.pending, one.duplicates) for one in batches)),
    )


def _of(hub: OpenHub, one: ConsignmentStatus) -> tuple[object, ...]:
    details = hub.call(ReadConsignment(one.id))
    return (one.key, one.state, one.closed_at, one.receipt, one.staged_messages, one.staged_bytes, details.attempts)


def named(hub: OpenHub, key: str) -> str:
    return hub.call(ListConsignments(key=key)).consignments[0].id


def stage(hub: OpenHub, sent: Sequence[Message], *, key: str = "plain", parcel: int = 7) -> object:
    return hub.call(StageParcel.of(named(hub, key), sent, writer="one", attempt=1, parcel=parcel))


class Act(NamedTuple):
    do: Callable[[OpenHub], object]
    later: float = 0
    at_once: bool = True
    """In one commit for all consignments."""


ACTS = {
    "open": Act(lambda hub: hub.call(BeginConsignment("new"))),
    "open with a batch": Act(lambda hub: hub.call(BeginConsignment("new", batch=True))),
    "open what was discarded": Act(lambda hub: hub.call(BeginConsignment("discarded"))),
    "stage few": Act(lambda hub: stage(hub, few(5_000))),
    "stage many": Act(lambda hub: stage(hub, many(5_000))),
    "stage duplicates": Act(lambda hub: stage(hub, few(0))),
    "stage nothing": Act(lambda hub: stage(hub, [])),
    "commit": Act(lambda hub: hub.call(CommitConsignment(named(hub, "plain"), WINNERS))),
    "commit with a batch": Act(lambda hub: hub.call(CommitConsignment(named(hub, "with a batch"), WINNERS))),
    "commit nothing": Act(lambda hub: hub.call(CommitConsignment(named(hub, "with a batch"), []))),
    "discard": Act(lambda hub: hub.call(DiscardConsignment(named(hub, "plain")))),
    "discard with a batch": Act(lambda hub: hub.call(DiscardConsignment(named(hub, "with a batch")))),
    "discard what is abandoned": Act(lambda hub: hub.call(RetainNow()), later=IDLE_SECONDS + 1, at_once=False),
    "forget": Act(lambda hub: hub.call(RetainNow()), later=KEPT_SECONDS + 1, at_once=False),
}


def outcome_of(act: Act) -> tuple[Shown, Shown, list[int]]:
    """What is seen before and after, and the steps of each write."""
    with world(act.later) as there:
        before, first = shown(there.hub), len(there.store.steps)
        act.do(there.hub)
        after, writes = shown(there.hub), there.store.steps[first:]
        # The list of recipients may be some seconds old.
        there.clock.advance(10)
        check_counters(seen(sync.Hub(there.hub), NAMES))
        return before, after, writes


def carried_out(act: Act, hub: OpenHub, error: type[RestanteError]) -> bool:
    """Whether it was answered, for all that failed was tidying up behind it."""
    try:
        act.do(hub)
    except error:
        return False
    return True


def check_between(found: Shown, before: Shown, after: Shown, *, at_once: bool) -> None:
    """All of it or nothing: mailboxes, consignments and batches at the same moment."""
    if at_once:
        assert found in (before, after)
    else:
        assert found.mailboxes in (before.mailboxes, after.mailboxes)
        assert set(found.consignments) <= {*before.consignments, *after.consignments}


def check_sound(store: MemoryStore) -> None:
    assert findings_of(store.survivor()) == ()


@pytest.mark.parametrize("name", ACTS)
def test_what_fails_at_any_step_is_there_whole_or_not_at_all_and_is_mended_by_a_repetition(name: str) -> None:
    act = ACTS[name]
    before, after, writes = outcome_of(act)
    assert before != after
    with world(act.later) as there:
        there.store.plan_fault(0, 0)
        assert not carried_out(act, there.hub, Unavailable)
    for write, step in faults(writes, whole=True):
        with world(act.later) as there:
            there.store.plan_fault(write, step)
            done = carried_out(act, there.hub, Unavailable)
            survivor = there.store.survivor()
            hub = open_at(survivor, there.clock, seed=2)
            check_between(shown(hub), after if done else before, after, at_once=act.at_once)
            check_sound(survivor)
            act.do(hub)
            assert shown(hub) == after, f"write {write}, step {step}"
            hub.close()
            check_sound(survivor)


@pytest.mark.parametrize("name", ACTS)
def test_what_finds_no_room_changes_nothing_and_succeeds_when_there_is_some(name: str) -> None:
    act = ACTS[name]
    before, after, writes = outcome_of(act)
    for write, step in faults(writes):
        with world(act.later) as there:
            there.store.plan_fault(write, step, StorageFull("no room"))
            done = carried_out(act, there.hub, StorageFull)
            check_between(shown(there.hub), after if done else before, after, at_once=act.at_once)
            act.do(there.hub)
            assert shown(there.hub) == after, f"write {write}, step {step}"
            there.hub.close()
            open_at(survivor := there.store.survivor(), there.clock).close()
            check_sound(survivor)


def test_after_a_failed_commit_the_hub_shows_what_was_there() -> None:
    before, _, _ = outcome_of(ACTS["commit"])
    with world() as there:
        there.store.plan_fault(0, 0)
        with pytest.raises(Unavailable):
            ACTS["commit"].do(there.hub)
        assert shown(there.hub) == before
        with pytest.raises(RestanteError):
            there.hub.call(Publish.of(message(7_777)))


def test_what_was_committed_before_answers_the_same_after_any_failure() -> None:
    with world() as there:
        identity = named(there.hub, "committed")
        answer = there.hub.call(CommitConsignment(identity, WINNERS))
        there.store.plan_fault(0, 1)
        with pytest.raises(Unavailable):
            ACTS["commit"].do(there.hub)
        hub = open_at(there.store.survivor(), there.clock, seed=2)
        assert hub.call(CommitConsignment(identity, WINNERS)) == answer
        assert hub.call(ReadConsignment(identity)).state is ConsignmentState.COMMITTED
        hub.close()
