"""Many at once: it is always as if one had come after the other."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

import restante
from restante import limits
from restante.client.surface import sync
from restante.client.surface.surface import Bundle, Hub, Receipt
from restante.errors import BundleOpen, BundleUnknown, MessageConflict, RestanteError, Unavailable
from restante.hub.engine.bell import Bell
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.partitions import Partition
from restante.model.publishing.message import Message, State
from restante.model.storage.changes import BlobKey, Buffer, Changes, Space
from restante.model.storage.identity import Known, find_in, merge
from restante.settings import OriginSettings, Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import Mailbox, Seen, check_counters, inside, mailbox_of, seen
from tests.hub.engines import FakeClock
from tests.profiles import pairs, places

SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
PATIENCE_SECONDS = 60.0


def id_of(number: int) -> str:
    return str(uuid.UUID(int=number))


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Call all of them at the same moment, each in its own thread; answers or errors of the hub, in order."""
    barrier = threading.Barrier(len(calls))

    def called(call: Callable[[], object]) -> object:
        barrier.wait(PATIENCE_SECONDS)
        try:
            return call()
        except RestanteError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(called, calls))


@pytest.fixture
def hub() -> Iterator[Hub]:
    opened = restante.open(None, store=MemoryStore(), settings=SETTINGS)
    yield opened
    opened.close()


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[Hub]:
    """On the embedded store, filing in the background."""
    opened = restante.open(tmp_path / "data", settings=msgspec.structs.replace(SETTINGS, filing=True))
    yield opened
    opened.close()


# --- Publishing and collecting beside filing --------------------------------------------------------------------------

PUBLISHERS = 4
COLLECTORS = 4
PARCELS = 40
PARCEL = 15
MAILBOXES = tuple(f"recipient {number}" for number in range(6))


def publish_parcels(hub: Hub, publisher: int) -> None:
    generator, counts = random.Random(publisher), dict.fromkeys(MAILBOXES, 0)
    for _ in range(PARCELS):
        parcel = []
        for _ in range(PARCEL):
            name = generator.choice(MAILBOXES)
            parcel.append(Message(recipient=name, kind=f"kind {publisher % 2}", data=[publisher, counts[name]]))
            counts[name] += 1
        receipt = hub.producer.send(parcel)
        assert receipt.accepted == PARCEL


def collect(hub: Hub, seed: int, done: threading.Event) -> list[Bundle]:
    """Peek and dequeue here and there, until everything was published and nothing is left; what was dequeued by us."""
    generator, own = random.Random(seed), list[Bundle]()
    while True:
        finished, found = done.is_set(), False
        for name in generator.sample(MAILBOXES, len(MAILBOXES)):
            bundle = hub.recipient(name).peek(max_messages=generator.choice([1, 7, 100]))
            found = found or bundle is not None
            if bundle is not None and dequeued(bundle):
                own.append(bundle)
        if finished and not found:
            return own


def dequeued(bundle: Bundle) -> bool:
    """Whether it was us: another collector may have been faster."""
    try:
        bundle.dequeue()
    except BundleUnknown as error:
        if "dequeued_at" not in error.details:
            raise
        return False
    return True


def test_everything_is_collected_once_and_in_order_while_it_is_filed(durable: Hub) -> None:
    done = threading.Event()
    with ThreadPoolExecutor(PUBLISHERS + COLLECTORS) as pool:
        collecting = [pool.submit(collect, durable, seed, done) for seed in range(COLLECTORS)]
        for publishing in [pool.submit(publish_parcels, durable, number) for number in range(PUBLISHERS)]:
            publishing.result(PATIENCE_SECONDS)
        done.set()
        bundles = [bundle for future in collecting for bundle in future.result(PATIENCE_SECONDS)]
    for name in MAILBOXES:
        own = [message for bundle in bundles if bundle.recipient == name for message in bundle.messages]
        check_collected(mailbox_of(durable, name), own)
    assert len({bundle.bundle_id for bundle in bundles}) == len(bundles)
    assert sum(status.waiting for status in durable.partitions()) == 0


def check_collected(mailbox: Mailbox, own: list[Message]) -> None:
    numbers = sorted(message.sequence_number or 0 for message in own)
    assert numbers == mailbox.numbers, "each once"
    assert {message.state for message in mailbox.history} == {State.COLLECTED}
    for publisher in range(PUBLISHERS):
        sent = [message.data[1] for message in mailbox.history if message.data[0] == publisher]
        assert sent == list(range(len(sent))), "in the order in which they were sent"


def test_readers_beside_filing_never_fail(durable: Hub) -> None:
    names, done = [f"reader {number}" for number in range(8)], threading.Event()
    for number in range(64):
        durable.producer.send([Message(recipient=name, id=id_of(number), data=bytes(2_000)) for name in names])

    def read(seed: int) -> int:
        generator, rounds = random.Random(seed), 0
        while not done.is_set():
            recipient = durable.recipient(generator.choice(names))
            assert len(recipient.history(limit=1_000).messages) >= 64
            assert recipient.find(id_of(generator.randrange(64))).data == bytes(2_000)
            assert recipient.explain().waiting[0].messages >= 64
            bundle = recipient.peek()
            assert bundle is not None
            assert bundle.messages[0].id == id_of(0)
            assert len(durable.recipients().recipients) == len(names)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(read, seed) for seed in range(3)]
        for number in range(64, 100):
            durable.producer.send([Message(recipient=name, id=id_of(number), data=bytes(2_000)) for name in names])
            if number % 3 == 0:
                durable.file()
        done.set()
        assert all(future.result(PATIENCE_SECONDS) for future in reading)


# --- Conflicts --------------------------------------------------------------------------------------------------------

RIVALS = 64
CONTESTED = 8


class Claim(NamedTuple):
    """A publish of two messages: one that is its own, and one whose id others claim with other content."""

    rival: int

    @property
    def contested(self) -> Message:
        number, content = self.rival % CONTESTED, self.rival // CONTESTED % 4
        return Message(recipient=f"contested {number}", id=id_of(number), data=f"content {content}".encode())

    @property
    def own(self) -> Message:
        return Message(recipient="everybody", id=id_of(1_000 + self.rival), data=b"own")

    def send(self, hub: Hub) -> object:
        return hub.producer.send([self.own, self.contested])


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_publishes_that_conflict_are_as_if_one_came_after_the_other(
    engine: str, request: pytest.FixtureRequest
) -> None:
    hub: Hub = request.getfixturevalue("hub" if engine == "memory" else "durable")
    claims = [Claim(rival) for rival in range(RIVALS)]
    answers = at_once(*(partial(claim.send, hub) for claim in claims))
    accepted = {claim for claim, answer in zip(claims, answers, strict=True) if not isinstance(answer, Exception)}
    refused = [answer for answer in answers if isinstance(answer, Exception)]
    assert all(isinstance(answer, MessageConflict) for answer in refused)
    stored = {message.id for message in mailbox_of(hub, "everybody").history}
    assert stored == {claim.own.id for claim in accepted}, "a refused publish leaves nothing behind"
    for number in range(CONTESTED):
        kept = [message.data for message in mailbox_of(hub, f"contested {number}").history]
        assert len(kept) == 1
        rivals = {claim for claim in claims if claim.rival % CONTESTED == number}
        assert rivals & accepted == {claim for claim in rivals if claim.contested.data == kept[0]}


def test_the_same_publish_from_many_threads_is_stored_once(hub: Hub) -> None:
    parcel = [Message(recipient=f"r{number % 3}", id=id_of(number), data=b"same") for number in range(20)]
    answers = at_once(*[partial(hub.producer.send, parcel)] * 32)
    assert sum(answer.accepted for answer in answers if isinstance(answer, Receipt)) == 20
    assert sum(len(mailbox_of(hub, f"r{number}").history) for number in range(3)) == 20


# --- Peeks and dequeues -----------------------------------------------------------------------------------------------


def test_concurrent_peeks_give_one_bundle(durable: Hub) -> None:
    for turn in range(10):
        durable.producer.send([Message(recipient="ada", data=b"mail")] * 5)
        found = at_once(*[durable.recipient("ada").peek] * 8)
        bundles = [bundle for bundle in found if isinstance(bundle, sync.Bundle)]
        assert len(bundles) == 8, found
        assert len({bundle.bundle_id for bundle in bundles}) == 1
        assert len({tuple(message.id for message in bundle.messages) for bundle in bundles}) == 1
        assert bundles[0].message_count == 5, f"turn {turn}"
        bundles[0].dequeue()


def test_concurrent_peeks_that_propose_ids_agree_on_one(hub: Hub) -> None:
    hub.producer.send([Message(recipient="ada", data=b"mail")] * 5)
    peek = hub.recipient("ada").peek
    answers = at_once(*(partial(peek, bundle_id=id_of(number)) for number in range(1, 9)))
    given = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(given) == 1
    assert isinstance(given[0], sync.Bundle)
    for answer in answers:
        if isinstance(answer, Exception):
            assert isinstance(answer, BundleOpen)
            assert answer.details["bundle_id"] == given[0].bundle_id


def test_of_racing_dequeues_one_succeeds_and_the_others_hear_when_it_was(durable: Hub) -> None:
    for _ in range(10):
        durable.producer.send([Message(recipient="ada", data=b"mail")] * 5)
        bundle = durable.recipient("ada").peek()
        assert bundle is not None
        answers = at_once(*[bundle.dequeue] * 8)
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        assert len(refused) == 7
        assert all(isinstance(answer, BundleUnknown) and "dequeued_at" in answer.details for answer in refused)
    assert sum(status.waiting for status in durable.partitions()) == 0


# --- Waiting ----------------------------------------------------------------------------------------------------------


class Waiter:
    """A peek that waits in a thread of its own; we know when it has begun to listen."""

    def __init__(self, patched: pytest.MonkeyPatch, peek: Callable[[], Bundle | None]) -> None:
        self._listens = threading.Event()
        listening = Bell.listening

        @contextmanager
        def told(bell: Bell, recipient_hash: int, ring: Callable[[], None]) -> Iterator[None]:
            with listening(bell, recipient_hash, ring):
                self._listens.set()
                yield

        patched.setattr(Bell, "listening", told)
        self._pool = ThreadPoolExecutor(1)
        self.future: Future[Bundle | None] = self._pool.submit(peek)
        assert self._listens.wait(PATIENCE_SECONDS)

    def result(self) -> Bundle | None:
        return self.future.result(PATIENCE_SECONDS)


def test_a_waiting_peek_wakes_when_mail_is_published(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    waiter = Waiter(monkeypatch, partial(hub.recipient("ada").peek, wait=25))
    hub.producer.send(Message(recipient="ben", data=b"for another"))
    hub.producer.send(Message(recipient="ada", data=b"at last"))
    bundle = waiter.result()
    assert bundle is not None
    assert [message.data for message in bundle.messages] == [b"at last"]


def test_a_waiting_peek_wakes_when_the_bundle_that_blocks_it_is_dequeued(monkeypatch: pytest.MonkeyPatch) -> None:
    origins = {name: OriginSettings(group="master") for name in ("charges", "points")}
    settings = msgspec.structs.replace(SETTINGS, origins=origins)
    with restante.open(None, store=MemoryStore(), settings=settings) as hub:
        hub.producer.send([Message(recipient="ada", origin=origin, data=b"mail") for origin in origins])
        blocking = hub.recipient("ada").peek(origins=["charges"])
        assert blocking is not None
        waiter = Waiter(monkeypatch, partial(hub.recipient("ada").peek, origins=["points"], wait=25))
        blocking.dequeue()
        bundle = waiter.result()
        assert bundle is not None
        assert bundle.origin == "points"


def test_a_waiting_peek_wakes_when_a_message_is_released(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.producer.send(Message(recipient="ada", id=id_of(1), data=b"mail"))
    hub.recipient("ada").set_aside(id_of(1))
    waiter = Waiter(monkeypatch, partial(hub.recipient("ada").peek, wait=25))
    hub.recipient("ada").release(id_of(1))
    bundle = waiter.result()
    assert bundle is not None


def test_a_waiting_peek_ends_when_the_hub_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAIT_SECONDS_MAX", 2 * PATIENCE_SECONDS)
    hub = restante.open(None, store=MemoryStore(), settings=SETTINGS)
    waiter = Waiter(monkeypatch, partial(hub.recipient("ada").peek, wait=2 * PATIENCE_SECONDS))
    hub.close()
    with suppress(Unavailable):
        assert waiter.result() is None


# --- Whatever comes between two reads ---------------------------------------------------------------------------------

NAMES = ("ada", "ben", "cleo")
FURNISHED = 4


class InterruptedStore(MemoryStore):
    """Lets something else happen after one of the reads that a caller does outside the committer's thread."""

    def __init__(self, furnished: MemoryStore) -> None:
        super().__init__()
        self._durable = furnished.survivor()._durable
        self._caller: int | None = None
        self._left = -1
        self._happens: Callable[[], None] | None = None
        self.reads = 0

    def interrupt(self, after: int, happens: Callable[[], None]) -> None:
        self._caller, self._left, self._happens = threading.get_ident(), after, happens
        self.reads = 0

    def _read(self) -> None:
        if threading.get_ident() != self._caller or self._happens is None:
            return
        self.reads += 1
        if self.reads == self._left:
            happens, self._happens = self._happens, None
            happens()

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        value = super().get(partition, space, key)
        self._read()
        return value

    def scan(
        self,
        partition: int,
        space: Space,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[bytes, bytes]]:
        found = super().scan(partition, space, start=start, end=end, limit=limit, reverse=reverse)
        self._read()
        return found

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> Buffer:
        content = super().read_blob(blob, offset, length)
        self._read()
        return content

    def put_blob(self, blob: BlobKey, parts: Sequence[Buffer], *, fence: int) -> None:
        super().put_blob(blob, parts, fence=fence)
        self._read()


Act = Callable[[Hub], object]


def letter(number: int, *, origin: str = "o", kind: str = "k") -> Message:
    return Message(recipient="ada", origin=origin, kind=kind, id=id_of(number), data=f"letter {number}".encode())


@cache
def furnished() -> MemoryStore:
    """Some mailbags, one message set aside before a collected bundle, one after it, and an open bundle."""
    store = MemoryStore()
    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        for number in range(FURNISHED):
            hub.producer.send([letter(10 * number + step) for step in range(3)])
            hub.producer.send(Message(recipient="ben", id=id_of(number), data=b"beside"))
        ada = hub.recipient("ada")
        ada.set_aside(id_of(0))
        ada.set_aside(id_of(32))
        ada.peek(bundle_id=id_of(901), max_messages=2)
        ada.dequeue(id_of(901))
        ada.peek(bundle_id=id_of(902), max_messages=3)
    return store


ACTS: dict[str, Act] = {
    "publish": lambda hub: hub.producer.send(letter(500)),
    "publish to a new cabinet and peek": lambda hub: (
        hub.producer.send(letter(501, origin="new")),
        hub.recipient("ada").peek(origins=["new"], bundle_id=id_of(903)),
    ),
    "collect": lambda hub: hub.recipient("ada").dequeue(id_of(902)),
    "collect all": lambda hub: (
        hub.recipient("ada").dequeue(id_of(902)),
        hub.recipient("ada").peek(bundle_id=id_of(904)),
        hub.recipient("ada").dequeue(id_of(904)),
    ),
    "peek": lambda hub: hub.recipient("ada").peek(bundle_id=id_of(902)),
    "withdraw": lambda hub: hub.recipient("ada").withdraw(id_of(30)),
    "set aside": lambda hub: hub.recipient("ada").set_aside(id_of(30)),
    "release to the end": lambda hub: hub.recipient("ada").release(id_of(0)),
    "release in place": lambda hub: hub.recipient("ada").release(id_of(32)),
    "purge": lambda hub: hub.recipient("ada").purge(all=True),
    "erase": lambda hub: hub.recipient("ada").erase(),
    "erase another": lambda hub: hub.recipient("ben").erase(),
    "file": lambda hub: hub.file(),
}
TARGETS = ("withdraw", "set aside", "release to the end", "release in place", "purge", "erase", "file", "peek")
HOLDS_FILING = {"erase", "erase another", "file"}
"""Those that rewrite runs take turns with each other anyway: one inside the other would wait for itself."""


def attempt(act: Act, hub: Hub) -> None:
    try:
        act(hub)
    except RestanteError as error:
        if isinstance(error, Unavailable):
            raise


def unnumbered(found: Seen) -> tuple[object, ...]:
    """What was seen, less the numbers themselves: their order stays."""
    mailboxes = {
        name: own._replace(history=tuple(msgspec.structs.replace(each, sequence_number=None) for each in own.history))
        for name, own in found.mailboxes.items()
    }
    return mailboxes, found.recipients, [(number, waiting) for number, _, waiting in found.partitions]


def result_of(first: Act, second: Act | None = None, *, between: int | None = None) -> tuple[Seen, int]:
    """What is seen after both acts, one after the other, or the second after a read of the first; and the reads."""
    store = InterruptedStore(furnished())
    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        if between is not None and second is not None:
            store.interrupt(between, partial(attempt, second, hub))
        else:
            store.interrupt(-1, lambda: None)
        attempt(first, hub)
        reads = store.reads
        if between is None and second is not None:
            attempt(second, hub)
        found = seen(hub, NAMES)
        for name in NAMES:
            for bundle in hub.recipient(name).bundles(idle=0):
                bundle.dequeue()
        assert sum(status.waiting for status in hub.partitions()) == 0
        return found, reads


@cache
def reads_of(target: str) -> int:
    """How often an act reads when nothing comes between."""
    return result_of(ACTS[target])[1]


@pytest.mark.parametrize(("target", "intruder"), pairs(TARGETS, ACTS))
def test_whatever_comes_between_two_reads_it_is_as_if_one_came_after_the_other(target: str, intruder: str) -> None:
    if {target, intruder} <= HOLDS_FILING:
        return
    first, second = ACTS[target], ACTS[intruder]
    reads = reads_of(target)
    orders = [unnumbered(result_of(first, second)[0]), unnumbered(result_of(second, first)[0])]
    for between in (place + 1 for place in places(reads)):
        found, _ = result_of(first, second, between=between)
        check_counters(found)
        assert unnumbered(found) in orders, f"after read {between} of {reads}"


# --- In one commit ----------------------------------------------------------------------------------------------------


class HeldStore(InterruptedStore):
    """Can hold a commit, so that all that is asked for meanwhile goes into the next one."""

    def __init__(self, furnished: MemoryStore) -> None:
        super().__init__(furnished)
        self.holding = False
        self.held, self.let_go = threading.Event(), threading.Event()

    def commit(self, changes: Changes) -> None:
        if self.holding:
            self.holding = False
            self.held.set()
            assert self.let_go.wait(PATIENCE_SECONDS)
        super().commit(changes)


HOLDER = Message(recipient="cleo", id=id_of(999), data=b"holds the commit")


def in_one_commit(hub: Hub, store: HeldStore, *acts: Act) -> None:
    """The acts' commits in this order, as one commit."""
    committer, queued = inside(hub).core.committer, threading.Semaphore(0)
    enqueue = committer._enqueue

    def told(request: CommitRequest[object], *, wait: bool) -> None:
        enqueue(request, wait=wait)
        queued.release()

    store.holding = True
    with ThreadPoolExecutor(len(acts) + 1) as pool:
        futures = [pool.submit(hub.producer.send, HOLDER)]
        assert store.held.wait(PATIENCE_SECONDS)
        committer._enqueue = told  # type: ignore[assignment, method-assign]
        for act in acts:
            futures.append(pool.submit(attempt, act, hub))  # type: ignore[arg-type]
            assert queued.acquire(timeout=PATIENCE_SECONDS)
        store.let_go.set()
        for future in futures:
            future.result(PATIENCE_SECONDS)


SINGLE = {
    "publish": ACTS["publish"],
    "collect": ACTS["collect"],
    "withdraw": ACTS["withdraw"],
    "set aside": ACTS["set aside"],
    "release to the end": ACTS["release to the end"],
    "release in place": ACTS["release in place"],
    "purge": ACTS["purge"],
    "erase": ACTS["erase"],
    "withdraw of another": lambda hub: hub.recipient("ben").withdraw(id_of(1)),
    "peek of another": lambda hub: hub.recipient("ben").peek(bundle_id=id_of(905)),
    "erase another": ACTS["erase another"],
}
"""Each one commit. The mailbox of `ben` has no head yet, which is where an erasure is easily overlooked."""


def result_in_one_commit(*acts: Act) -> Seen:
    store = HeldStore(furnished())
    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        in_one_commit(hub, store, *acts)
        found = seen(hub, NAMES)
        for name in NAMES:
            for bundle in hub.recipient(name).bundles(idle=0):
                assert bundle.messages, "a bundle is never empty"
                bundle.dequeue()
        assert sum(status.waiting for status in hub.partitions()) == 0
        return found


def result_in_turn(*acts: Act) -> Seen:
    with restante.open(None, store=InterruptedStore(furnished()), settings=SETTINGS, clock=FakeClock()) as hub:
        hub.producer.send(HOLDER)
        for act in acts:
            attempt(act, hub)
        return seen(hub, NAMES)


@pytest.mark.parametrize(("first", "second"), pairs(SINGLE, SINGLE))
def test_two_in_one_commit_are_as_if_one_came_after_the_other(first: str, second: str) -> None:
    if {first, second} <= HOLDS_FILING:
        return
    acts = SINGLE[first], SINGLE[second]
    found = result_in_one_commit(*acts)
    check_counters(found)
    orders = [unnumbered(result_in_turn(*acts)), unnumbered(result_in_turn(*acts[::-1]))]
    assert unnumbered(found) in orders


# --- Identities in the background -------------------------------------------------------------------------------------


def test_two_that_merge_fingerprints_at_once_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one finishes while the first is still merging an older pair."""
    monkeypatch.setattr("restante.model.storage.identity._SHORT", 0)
    partition = Partition(0)
    prints = [np.array([value], np.uint64) for value in range(3)]
    for number in range(2):
        partition.remember(prints[number], np.array([number + 1]))
    merges = 0

    def merged_slowly(older: Known, younger: Known) -> Known:
        nonlocal merges
        merges += 1
        if merges == 1:
            partition.remember(prints[2], np.array([3]))
            partition.compact_fingerprints()
        return merge(older, younger)

    monkeypatch.setattr("restante.hub.engine.partitions.merge", merged_slowly)
    partition.compact_fingerprints()
    levels = [level for level in partition.fingerprints.levels if isinstance(level, Known)]
    for number, value in enumerate(prints):
        assert [one for level in levels for one in find_in(level, value)[1].tolist()] == [number + 1]
