"""A hub whose store fails between any two steps: what was asked for is there whole, or not at all."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

import pytest

import restante
from restante import limits
from restante.calls.publishing import Publish
from restante.client.surface.surface import Hub
from restante.errors import RestanteError, StorageFull, Unavailable
from restante.hub.engine.commit_request import CommitRequest
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message, State
from restante.model.storage.changes import BlobKey, Buffer, Changes
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import Seen, check_counters, check_counts, check_numbers, counted, inside, seen
from tests.hub.engines import START, FakeClock
from tests.profiles import faults

PARTITIONS = 2
RETENTION_SECONDS = 100.0
SETTINGS = Settings(
    partition_count=PARTITIONS,
    collected_retention_seconds=RETENTION_SECONDS,
    feed_retention_seconds=RETENTION_SECONDS,
    housekeeping_seconds=0,
    filing=False,
)
pytestmark = pytest.mark.xdist_group("steps")
"""In one process: what each act does is looked at there once."""
MAILBAGS = 10
NAMES = ("ada", "ben", "cleo", "dora", "eve", "finn")


class FaultyStore(MemoryStore):
    """Counts its writes, and fails at a step of one of them; before each blob put ahead it may do something else."""

    def __init__(self, furnished: MemoryStore) -> None:
        super().__init__()
        self._durable = furnished.survivor()._durable
        self.steps: list[int] = []
        self.fault: tuple[int, int, RestanteError | None] | None = None
        self.before_blob: Callable[[], None] | None = None
        self.before_commit: Callable[[], None] | None = None

    def commit(self, changes: Changes) -> None:
        if self.before_commit is not None:
            self.before_commit()
        self._count(len(self._steps(changes)))
        super().commit(changes)

    def put_blob(self, blob: BlobKey, parts: Sequence[Buffer], *, fence: int) -> None:
        if self.before_blob is not None:
            self.before_blob()
        self._count(1)
        super().put_blob(blob, parts, fence=fence)

    def _count(self, steps: int) -> None:
        if self.fault is not None and self.fault[0] == len(self.steps):
            self.fail_at(self.fault[1], self.fault[2])
        self.steps.append(steps)

    def plan_fault(self, write: int, step: int, error: RestanteError | None = None) -> None:
        """Fail when `step` steps of the write that comes `write` writes from now are done."""
        self.fault = (len(self.steps) + write, step, error)


@dataclass
class World:
    """A hub with some history, the same every time."""

    store: FaultyStore
    clock: FakeClock
    hub: Hub

    def seen(self) -> Seen:
        return seen(self.hub, NAMES)

    def reopened(self) -> Hub:
        return open_hub(self.store.survivor(), self.clock)


def open_hub(store: MemoryStore, clock: FakeClock) -> Hub:
    return restante.open(None, store=store, settings=SETTINGS, clock=clock)


def id_of(number: int) -> str:
    return str(uuid.UUID(int=number))


def message(number: int, name: str = "ada", *, kind: str = "k", expires_in: int | None = None) -> Message:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=START)
    return Message(
        recipient=name,
        kind=kind,
        id=id_of(number),
        data=f"{name} {number}".encode(),
        expires_at=None if expires_in is None else at + timedelta(seconds=expires_in),
    )


@cache
def furnished() -> MemoryStore:
    store = MemoryStore()
    hub = open_hub(store, FakeClock())
    furnish(hub)
    hub.close()
    return store


@contextmanager
def world() -> Iterator[World]:
    store, clock = FaultyStore(furnished()), FakeClock()
    hub = open_hub(store, clock)
    store.steps.clear()
    try:
        yield World(store, clock, hub)
    finally:
        hub.close()


def furnish(hub: Hub) -> None:
    """Mailbags enough to be filed, a collected bundle, an open one, and messages apart."""
    for number in range(MAILBAGS):
        hub.producer.send([message(100 * number + place, name) for place, name in enumerate(NAMES)])
    take(hub, "ben", bundle=1, most=5)
    hub.recipient("ben").dequeue(id_of(1))
    take(hub, "cleo", bundle=2, most=3)
    hub.recipient("dora").set_aside(id_of(3))
    hub.recipient("dora").set_aside(id_of(503))
    take(hub, "dora", bundle=3, most=5)
    hub.recipient("dora").dequeue(id_of(3))
    hub.recipient("eve").withdraw(id_of(204))
    hub.producer.send([message(9_000 + number, "finn", expires_in=50) for number in range(3)])


def take(hub: Hub, name: str, *, bundle: int, most: int | None = None) -> None:
    hub.recipient(name).peek(bundle_id=id_of(bundle), max_messages=most)


class Act(NamedTuple):
    """Something to ask of a hub, `later` seconds after its history."""

    do: Callable[[Hub], object]
    later: float = 0
    at_once: bool = True
    """In one commit for all recipients; otherwise each partition has its own."""

    def between(self, found: Seen, before: Seen, after: Seen) -> bool:
        """Whether what was found is all of the act, or nothing of it."""
        if self.at_once:
            return found.mailboxes in (before.mailboxes, after.mailboxes)
        return all(own in (before.mailboxes[name], after.mailboxes[name]) for name, own in found.mailboxes.items())


ACTS = {
    "publish": Act(lambda hub: hub.producer.send([message(5_000 + place, name) for place, name in enumerate(NAMES)])),
    "publish with duplicates": Act(lambda hub: hub.producer.send([message(0), message(5_000), message(5_001, "ben")])),
    "publish columns": Act(lambda hub: hub.producer.send([message(5_000 + n, NAMES[n % 6]) for n in range(150)])),
    "peek": Act(lambda hub: take(hub, "ada", bundle=9)),
    "peek past expired": Act(lambda hub: take(hub, "finn", bundle=9), later=60),
    "dequeue": Act(lambda hub: hub.recipient("cleo").dequeue(id_of(2))),
    "withdraw": Act(lambda hub: hub.recipient("ada").withdraw(id_of(300))),
    "set aside": Act(lambda hub: hub.recipient("ada").set_aside(id_of(300))),
    "release in place": Act(lambda hub: hub.recipient("dora").release(id_of(503))),
    "release to the end": Act(lambda hub: hub.recipient("dora").release(id_of(3))),
    "purge": Act(lambda hub: hub.recipient("dora").purge(all=True)),
    "erase": Act(lambda hub: hub.recipient("ben").erase()),
    "expire": Act(lambda hub: hub.expire(), later=60),
    "retain": Act(lambda hub: hub.retain(), later=RETENTION_SECONDS + 1, at_once=False),
    "file": Act(lambda hub: hub.file()),
}


def check_settled(hub: Hub) -> None:
    """The counters are right once all that has expired is settled."""
    hub.expire()
    check_counts(counted(hub, NAMES))


@cache
def outcome_of(name: str) -> tuple[Seen, Seen, list[int]]:
    """What is seen before and after, and the steps of each write; the same every time."""
    act = ACTS[name]
    with world() as there:
        there.clock.advance(act.later)
        before, first = there.seen(), len(there.store.steps)
        act.do(there.hub)
        there.clock.advance(10)
        return before, there.seen(), there.store.steps[first:]


def writes_of(act: Act) -> list[int]:
    with world() as there:
        act.do(there.hub)
        return there.store.steps


@pytest.mark.parametrize("name", ACTS)
def test_what_fails_at_any_step_is_there_whole_or_not_at_all(name: str) -> None:
    act = ACTS[name]
    before, after, writes = outcome_of(name)
    assert writes
    for write, step in faults(writes, whole=True):
        with world() as there:
            there.clock.advance(act.later)
            there.store.plan_fault(write, step)
            with pytest.raises(Unavailable):
                act.do(there.hub)
            hub = there.reopened()
            there.clock.advance(10)
            found = seen(hub, NAMES)
            assert act.between(found, before, after), f"write {write}, step {step}"
            check_numbers(found)
            check_settled(hub)
            hub.close()


@pytest.mark.parametrize("name", ACTS)
def test_after_a_failure_the_hub_refuses_to_write_and_shows_what_was_there(name: str) -> None:
    act = ACTS[name]
    before, _, _ = outcome_of(name)
    with world() as there:
        there.clock.advance(act.later)
        there.store.plan_fault(0, 0)
        with pytest.raises(Unavailable):
            act.do(there.hub)
        with pytest.raises(Unavailable):
            there.hub.producer.send(message(7_777))
        there.clock.advance(10)
        assert there.seen() == before


@pytest.mark.parametrize("name", ACTS)
def test_what_finds_no_room_changes_nothing_and_succeeds_when_there_is_some(name: str) -> None:
    act = ACTS[name]
    before, after, writes = outcome_of(name)
    for write, step in faults(writes):
        with world() as there:
            there.clock.advance(act.later)
            there.store.plan_fault(write, step, StorageFull("no room"))
            with pytest.raises(StorageFull):
                act.do(there.hub)
            halfway = seen(there.hub, NAMES)
            assert act.between(halfway, before, after), f"write {write}, step {step}"
            if halfway.mailboxes != after.mailboxes:
                act.do(there.hub)
            there.clock.advance(10)
            found = there.seen()
            assert found.mailboxes == after.mailboxes
            check_numbers(found)
            check_settled(there.hub)


def test_a_failed_publish_can_be_sent_again_whatever_became_of_it() -> None:
    sent = [message(5_000 + place, name) for place, name in enumerate(NAMES)]
    _, after, writes = outcome_of("publish")
    for step in range(writes[0] + 1):
        with world() as there:
            there.store.plan_fault(0, step)
            with pytest.raises(Unavailable):
                there.hub.producer.send(sent)
            hub = there.reopened()
            receipt = hub.producer.send(sent)
            assert (receipt.accepted, receipt.duplicates) in ((6, 0), (0, 6))
            there.clock.advance(10)
            assert seen(hub, NAMES) == after
            hub.close()


# --- Filing -----------------------------------------------------------------------------------------------------------


def collected(hub: Hub) -> dict[str, list[bytes]]:
    """Everything that everybody still gets, in order, what is open included."""
    found: dict[str, list[bytes]] = {}
    for name in NAMES:
        for bundle in hub.recipient(name).bundles(idle=0):
            found.setdefault(name, []).extend(message.data for message in bundle.messages)
            bundle.dequeue()
    return found


@pytest.mark.parametrize(("few", "least"), [(limits.FILING_FEW_MESSAGES_MAX, 1), (0, 2)], ids=["few", "columns"])
def test_filing_stopped_at_any_step_hides_and_changes_nothing(
    few: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FILING_FEW_MESSAGES_MAX", few)
    writes = writes_of(ACTS["file"])
    with world() as there:
        expected = collected(there.hub)
    assert len(writes) >= least * PARTITIONS
    for write, step in faults(writes, whole=True):
        with world() as there:
            there.store.plan_fault(write, step)
            with pytest.raises(Unavailable):
                there.hub.file()
            peeked = there.hub.recipient("cleo").peek()
            assert peeked is not None
            assert [each.id for each in peeked.messages] == [id_of(2), id_of(102), id_of(202)]
            hub = there.reopened()
            again = hub.recipient("cleo").peek()
            assert again is not None
            assert again.messages == peeked.messages
            hub.file()
            assert collected(hub) == expected, f"write {write}, step {step}"
            hub.close()


@pytest.mark.parametrize("few", [limits.FILING_FEW_MESSAGES_MAX, 0], ids=["few", "columns"])
def test_a_store_reopened_after_filing_stopped_keeps_no_blob_that_nobody_names(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FILING_FEW_MESSAGES_MAX", few)
    writes = writes_of(ACTS["file"])
    for write, step in faults(writes, whole=True):
        with world() as there:
            there.store.plan_fault(write, step)
            with pytest.raises(Unavailable):
                there.hub.file()
            hub = there.reopened()
            core = inside(hub).core
            for partition in core.partitions:
                named = {stored.blob for run in partition.runs for stored in run.segments}
                named |= {BlobKey(partition.number, each.blob) for row in partition.feed_runs for each in row.segments}
                assert set(core.store.blobs(partition.number)) == named
            hub.close()


def test_peeks_dequeues_and_publishes_between_the_steps_of_filing_see_no_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The filing of few is a single step.
    monkeypatch.setattr(limits, "FILING_FEW_MESSAGES_MAX", 0)

    def act_between(hub: Hub, turn: int) -> None:
        name = NAMES[turn % len(NAMES)]
        take(hub, name, bundle=50 + turn, most=4) if name != "cleo" else take(hub, name, bundle=2)
        hub.recipient(name).dequeue(id_of(2 if name == "cleo" else 50 + turn))
        hub.producer.send(message(8_000 + turn, name))
        hub.recipient(name).withdraw(id_of(900 + NAMES.index(name)))

    with world() as there:
        turns = 0

        def between() -> None:
            nonlocal turns
            act_between(there.hub, turns)
            turns += 1

        there.store.before_blob = between
        there.hub.file()
        assert turns >= PARTITIONS
        found, all_mail = there.seen(), collected(there.hub)
    with world() as plain:
        for turn in range(turns):
            act_between(plain.hub, turn)
        assert (plain.seen(), collected(plain.hub)) == (found, all_mail)


def test_a_hub_whose_store_has_failed_can_be_closed_and_lets_go_of_it() -> None:
    writes = writes_of(ACTS["file"])
    for write in range(len(writes)):
        store = FaultyStore(furnished())
        hub = open_hub(store, FakeClock())
        store.steps.clear()
        store.plan_fault(write, 0)
        with pytest.raises(Unavailable):
            hub.file()
        hub.close()
        with pytest.raises(Unavailable, match="closed"):
            store.blobs(0)


# --- Group commit -----------------------------------------------------------------------------------------------------


class Gate:
    """Holds the next commit until it is opened; whatever is asked for meanwhile shares the one after it."""

    def __init__(self, store: FaultyStore) -> None:
        self._opened, self._reached = threading.Event(), threading.Event()
        self._store = store
        store.before_commit = self._hold

    def _hold(self) -> None:
        self._store.before_commit = None
        self._reached.set()
        self._opened.wait()

    def hold(self, hub: Hub) -> threading.Thread:
        holder = threading.Thread(target=hub.producer.send, args=(message(7_000 + len(self._store.steps), "eve"),))
        holder.start()
        self._reached.wait()
        return holder

    def open(self) -> None:
        self._opened.set()


async def answers_of_one_commit(
    there: World, sends: Sequence[Message], fault: RestanteError | None
) -> list[Receipt | str]:
    """Publish all of these in one commit, which may fail."""
    gate = Gate(there.store)
    holder = gate.hold(there.hub)
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[CommitRequest[Receipt]]] = [loop.create_future() for _ in sends]
    for future, sent in zip(futures, sends, strict=True):
        inside(there.hub).publish_soon(Publish.of([sent]), future)
    if fault is not None:
        there.store.plan_fault(1, 0, fault)
    writes = len(there.store.steps)
    gate.open()
    requests = await asyncio.gather(*futures)
    await asyncio.to_thread(holder.join)
    assert len(there.store.steps) == writes + 2, "one commit for the holder, one for all others"
    return [_answer(request) for request in requests]


def _answer(request: CommitRequest[Receipt]) -> Receipt | str:
    try:
        return request.answer()
    except RestanteError as error:
        return error.code


def test_a_commit_that_finds_no_room_fails_all_its_requests_and_the_hub_goes_on() -> None:
    sends = [message(5_000 + number, NAMES[number % 6]) for number in range(12)]
    with world() as there:
        before = there.seen()
        answers = asyncio.run(answers_of_one_commit(there, sends, StorageFull("no room")))
        assert answers == ["storage_full"] * len(sends)
        found = there.seen()
        assert found.mailboxes == {**before.mailboxes, "eve": found.mailboxes["eve"]}
        assert found.mailboxes["eve"].history[:-1] == before.mailboxes["eve"].history
        again = asyncio.run(answers_of_one_commit(there, [message(6_000), *sends], None))
        assert all(isinstance(answer, Receipt) and answer.accepted == 1 for answer in again)
        there.clock.advance(10)
        check_counters(there.seen())


def test_a_refused_request_leaves_no_trace_in_the_commit_of_the_others() -> None:
    """One conflicts with what is stored, one with a request before it; a duplicate of an accepted one is skipped."""
    twin = message(5_001, "ben")
    other = Message(recipient="ben", id=id_of(5_001), data=b"something else", kind="k")
    sends = [message(5_000), Message(recipient="ada", id=id_of(0), data=b"other"), twin, other, twin, message(5_002)]
    with world() as there:
        answers = asyncio.run(answers_of_one_commit(there, sends, None))
        counts = [answer if isinstance(answer, str) else (answer.accepted, answer.duplicates) for answer in answers]
        assert counts == [(1, 0), "message_conflict", (1, 0), "message_conflict", (0, 1), (1, 0)]
        assert there.hub.recipient("ben").find(id_of(5_001)).data == b"ben 5001"
        check_counters(there.seen())


def test_numbers_taken_by_a_failed_commit_are_given_again_or_left_out_but_never_twice() -> None:
    with world() as there:
        there.store.plan_fault(0, 0, StorageFull("no room"))
        with pytest.raises(StorageFull):
            there.hub.producer.send([message(5_000 + n) for n in range(5)])
        there.hub.producer.send([message(6_000 + n) for n in range(5)])
        numbers = [each.sequence_number for each in there.seen().mailboxes["ada"].of(State.WAITING)]
        assert len(numbers) == len(set(numbers)) == MAILBAGS + 5


def test_a_listener_that_fails_stops_nobody() -> None:
    """The commit is done when the bell rings: its callers hear so, and the next commit comes."""
    with world() as there:
        core = inside(there.hub).core

        def fail() -> None:
            raise RuntimeError("no ears")

        with core.bell.listening(core.address("ada").hash, fail):
            assert there.hub.producer.send(message(5_000)).accepted == 1
            assert there.hub.producer.send(message(5_001)).accepted == 1
        assert there.hub.recipient("ada").find(id_of(5_001)).data == b"ada 5001"
