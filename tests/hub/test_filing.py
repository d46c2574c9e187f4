"""Filing: nobody can see it, it keeps runs few, and it takes nothing away from those who read."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec
import pytest

import restante
from restante.client.surface.surface import Hub
from restante.errors import RestanteError
from restante.hub.engine import filing as filing_module
from restante.hub.engine.core import Core
from restante.hub.engine.filing import file_handfuls
from restante.hub.engine.partitions import Partition
from restante.hub.engine.row_reads import with_data
from restante.hub.mailboxes.mailbox import chunks, look
from restante.limits import FILING_HANDFUL, MIB
from restante.model.publishing.message import Message, State
from restante.model.storage.keys import Cabinet
from restante.model.storage.run import Run, RunState
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import check_counters, inside, mailbox_of, seen
from tests.hub.engines import START, FakeClock
from tests.profiles import by_profile

NAMES = ("ada", "ben", "cleo", "dora")
RETENTION_SECONDS = 500.0
SETTINGS = Settings(
    partition_count=2,
    collected_retention_seconds=RETENTION_SECONDS,
    feed_retention_seconds=RETENTION_SECONDS / 2,
    housekeeping_seconds=0,
    filing=False,
)


def id_of(number: int) -> str:
    return str(uuid.UUID(int=number))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hub(clock: FakeClock) -> Iterator[Hub]:
    opened = restante.open(None, store=MemoryStore(), settings=SETTINGS, clock=clock)
    yield opened
    opened.close()


def runs_of(hub: Hub) -> list[int]:
    """How many runs each partition has."""
    return [len(partition.runs) for partition in inside(hub).core.partitions]


def blobs_of(hub: Hub) -> int:
    store = inside(hub).core.store
    return sum(len(store.blobs(number)) for number in range(SETTINGS.partition_count))


# --- Nobody can see it ------------------------------------------------------------------------------------------------


class Sender:
    """Does something to the mailboxes, by chance, the same for the same seed."""

    def __init__(self, seed: int, hub: Hub, clock: FakeClock) -> None:
        self.generator, self.hub, self.clock = random.Random(seed), hub, clock
        self.sent = 0
        self.opened = dict.fromkeys(NAMES, 0)

    def act(self) -> None:
        acts: list[Callable[[str], None]] = [*[self.publish] * 5, self.peek, self.dequeue, self.settle, self.wait]
        self.generator.choice(acts)(self.generator.choice(NAMES))

    def publish(self, name: str) -> None:
        messages = [
            self._message(self.generator.choice([name, *NAMES])) for _ in range(self.generator.choice([1, 3, 66]))
        ]
        self.hub.producer.send(messages)

    def _message(self, name: str) -> Message:
        self.sent += 1
        expires = self.generator.choice([None, None, None, 20, 200])
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.clock.now)
        return Message(
            recipient=name,
            id=id_of(self.sent),
            origin=self.generator.choice(["o", "p"]),
            kind=self.generator.choice(["k", "l"]),
            data=self.generator.randbytes(self.generator.choice([0, 10, 300])),
            properties={"n": str(self.sent)} if self.sent % 5 == 0 else {},
            bundleable=self.generator.random() < 0.9,
            expires_at=None if expires is None else now + timedelta(seconds=expires),
        )

    def peek(self, name: str) -> None:
        self.opened[name] += 1
        proposed = str(uuid.UUID(int=2**64 * (1 + NAMES.index(name)) + self.opened[name]))
        self._try(
            partial(self.hub.recipient(name).peek, bundle_id=proposed, max_messages=self.generator.choice([2, 30, 500]))
        )

    def dequeue(self, name: str) -> None:
        for bundle in self.hub.recipient(name).explain().open_bundles:
            self.hub.recipient(name).dequeue(bundle.bundle_id)

    def settle(self, name: str) -> None:
        recipient, number = self.hub.recipient(name), id_of(self.generator.randrange(max(1, self.sent)))
        self._try(partial(self.generator.choice([recipient.withdraw, recipient.set_aside, recipient.release]), number))

    def wait(self, name: str) -> None:
        self.clock.advance(self.generator.choice([1, 30, 300]))
        self.hub.expire()
        self.hub.retain()

    @staticmethod
    def _try(act: Callable[[], object]) -> None:
        try:
            act()
        except RestanteError as error:
            if error.code not in {"bundle_open", "message_unknown", "message_collected", "bundle_id_used"}:
                raise


@pytest.mark.parametrize("seed", range(by_profile(dev=1, ci=4)))
def test_filing_changes_nothing_that_anybody_can_see(seed: int, hub: Hub, clock: FakeClock) -> None:
    sender = Sender(seed, hub, clock)
    for turn in range(60):
        sender.act()
        if turn % 6 == 5:
            before = seen(hub, NAMES)
            hub.file()
            assert seen(hub, NAMES) == before
    hub.expire()
    clock.advance(10)
    hub.expire()
    check_counters(seen(hub, NAMES))


@pytest.mark.parametrize("seed", range(by_profile(dev=1, ci=4)))
def test_a_filed_hub_and_one_never_filed_are_alike_for_ever(seed: int) -> None:
    hubs, clocks = list[Hub](), [FakeClock(), FakeClock()]
    for clock in clocks:
        hubs.append(restante.open(None, store=MemoryStore(), settings=SETTINGS, clock=clock))
    senders = [Sender(seed, hub, clock) for hub, clock in zip(hubs, clocks, strict=True)]
    for turn in range(80):
        for sender in senders:
            sender.act()
        if turn % 7 == 0:
            hubs[0].file()
        if turn % 20 == 19:
            for clock in clocks:
                clock.advance(10)
            assert unnumbered(hubs[0]) == unnumbered(hubs[1])
    for name in NAMES:
        assert bundle_ids(hubs[0], name) == bundle_ids(hubs[1], name)
    for hub in hubs:
        hub.close()


def unnumbered(hub: Hub) -> tuple[object, ...]:
    """What is seen, less the numbers themselves: how many changes there were may depend on how messages lie."""
    found = seen(hub, NAMES)
    shown = {
        name: [msgspec.structs.replace(message, sequence_number=None) for message in own.history]
        for name, own in found.mailboxes.items()
    }
    explained = {name: own[1:] for name, own in found.mailboxes.items()}
    return shown, explained, found.recipients, [(number, waiting) for number, _, waiting in found.partitions]


def bundle_ids(hub: Hub, name: str) -> list[list[str | None]]:
    """Bundle after bundle, the ids of its messages."""
    found = []
    for bundle in hub.recipient(name).bundles(idle=0):
        found.append([message.id for message in bundle.messages])
        bundle.dequeue()
    return found


def test_an_open_bundle_over_mailbags_and_shelves_is_the_same_after_filing_and_dequeued_once(hub: Hub) -> None:
    for number in range(10):
        hub.producer.send([Message(recipient="ada", id=id_of(10 * number + step), data=b"x") for step in range(3)])
    hub.file()
    for number in range(10, 15):
        hub.producer.send([Message(recipient="ada", id=id_of(10 * number + step), data=b"x") for step in range(3)])
    bundle = hub.recipient("ada").peek()
    assert bundle is not None
    assert bundle.message_count == 45
    hub.producer.send(Message(recipient="ada", data=b"later"))
    hub.file()
    again = hub.recipient("ada").peek()
    assert again is not None
    assert again.messages == bundle.messages
    assert again.dequeue().messages == 45
    assert [message.data for message in mailbox_of(hub, "ada").of(State.WAITING)] == [b"later"]


# --- It keeps runs few ------------------------------------------------------------------------------------------------


def test_filing_everything_leaves_one_run_of_small_mailbags(hub: Hub) -> None:
    for number in range(100):
        hub.producer.send(Message(recipient="ada", id=id_of(number), data=b"x"))
    hub.file()
    assert max(runs_of(hub)) == 1
    assert [status.unfiled for status in hub.partitions()] == [0, 0]
    assert hub.file() == 0


def test_mail_that_comes_while_everything_is_filed_is_left_for_later(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite, merges = filing_module.rewrite, 0

    def publish_after(core: Core, partition: Partition, runs: Sequence[Run]) -> bool:
        nonlocal merges
        merges += 1
        done = rewrite(core, partition, runs)
        if merges < 50:
            hub.producer.send(Message(recipient="ada", data=b"later"))
        return done

    for number in range(10):
        hub.producer.send(Message(recipient="ada", id=id_of(number), data=b"x"))
    monkeypatch.setattr(filing_module, "rewrite", publish_after)
    assert hub.file() == 10
    assert merges == 1
    assert max(runs_of(hub)) == 2


@pytest.mark.parametrize("filing", [True, False], ids=["in the background", "by publishers alone"])
def test_unfiled_runs_stay_bounded_and_publishing_goes_on(filing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    most, publishers, sends = 20, 4, 60
    monkeypatch.setattr("restante.limits.UNFILED_RUNS_MAX", most)
    settings = msgspec.structs.replace(SETTINGS, partition_count=1, filing=filing)
    with restante.open(None, store=MemoryStore(), settings=settings) as hub:

        def publish(publisher: int) -> int:
            seen_most = 0
            for number in range(sends):
                hub.producer.send(Message(recipient="ada", id=id_of(1_000 * publisher + number), data=b"x"))
                seen_most = max(seen_most, *runs_of(hub))
            return seen_most

        with ThreadPoolExecutor(publishers) as pool:
            assert max(pool.map(publish, range(publishers))) <= most + publishers
        assert len(mailbox_of(hub, "ada").history) == publishers * sends


def test_background_filing_begins_by_itself() -> None:
    settings = msgspec.structs.replace(SETTINGS, partition_count=1, filing=True)
    with restante.open(None, store=MemoryStore(), settings=settings) as hub:
        for number in range(500):
            hub.producer.send(Message(recipient="ada", id=id_of(number), data=b"x"))
        core = inside(hub).core
        with core.partitions[0].filing_lock:
            assert len(core.partitions[0].runs) < 400
        assert len(mailbox_of(hub, "ada").history) == 500


def test_a_large_mailbag_does_not_keep_small_ones_from_being_filed(hub: Hub) -> None:
    large = [Message(recipient="ada", data=bytes(MIB), weight=1024) for _ in range(3)]
    for _ in range(4):
        hub.producer.send(large)
        for _ in range(6):
            hub.producer.send(Message(recipient="ada", data=b"small"))
    hub.file()
    assert max(runs_of(hub)) == 8
    sizes = [len(message.data) for message in mailbox_of(hub, "ada").history]
    assert sizes == ([MIB] * 3 + [5] * 6) * 4


# --- It takes nothing from readers ------------------------------------------------------------------------------------


def test_a_reader_that_began_before_filing_reads_to_its_end(hub: Hub) -> None:
    for number in range(20):
        hub.producer.send(Message(recipient="ada", id=id_of(number), data=f"mail {number}".encode()))
    core = inside(hub).core
    with core.pins.reading():
        opened = look(core, core.address("ada"))
        hub.file()
        hub.producer.send(Message(recipient="ada", data=b"more"))
        hub.file()
        found = []
        for chunk in chunks(core, opened.places[Cabinet("ada", "default", "default")]):
            found += with_data(core.store, chunk.stored, chunk.row, chunk.records).data_column().to_pylist()
        assert found == [f"mail {number}".encode() for number in range(20)]


def test_blobs_of_merged_runs_go_when_the_last_reader_has_gone(hub: Hub) -> None:
    for number in range(20):
        hub.producer.send(Message(recipient="ada", id=id_of(number), data=b"x"))
    core = inside(hub).core
    with core.pins.reading():
        hub.file()
        assert blobs_of(hub) > 20
    hub.producer.send([Message(recipient="ada", data=b"x")])
    hub.file()
    assert blobs_of(hub) == 1


def test_merged_runs_stay_for_the_feed_until_it_no_longer_reaches_back(hub: Hub, clock: FakeClock) -> None:
    for _ in range(8):
        hub.producer.send(Message(recipient="ada", data=bytes(MIB), weight=1024))
    hub.file()
    partition = next(each for each in inside(hub).core.partitions if each.runs)
    assert len(partition.runs[0].segments) > 1
    assert [row.state for row in partition.feed_runs] == [RunState.FEED] * 8
    clock.advance(RETENTION_SECONDS / 2 + 1)
    hub.retain()
    hub.file()
    assert partition.feed_runs == ()
    assert blobs_of(hub) == len(partition.runs[0].segments)
    assert len(mailbox_of(hub, "ada").history) == 8


def test_what_is_past_its_retention_is_dropped_in_the_merge(hub: Hub, clock: FakeClock) -> None:
    for number in range(10):
        hub.producer.send([Message(recipient=name, id=id_of(number), data=bytes(100)) for name in ("ada", "ben")])
    bundle = hub.recipient("ada").peek(max_messages=5)
    assert bundle is not None
    bundle.dequeue()
    clock.advance(RETENTION_SECONDS + 1)
    assert hub.retain() == 5
    hub.file()
    stored = sum(run.row.rows for partition in inside(hub).core.partitions for run in partition.runs)
    assert stored == 15
    assert [len(mailbox_of(hub, name).history) for name in ("ada", "ben")] == [5, 10]
    again = hub.producer.send([Message(recipient="ada", id=id_of(number), data=bytes(100)) for number in range(10)])
    assert (again.accepted, again.duplicates) == (5, 5), "identities live exactly as long as their messages"


@pytest.mark.parametrize("settle", ["expire", "withdraw"])
def test_a_forgotten_message_does_not_come_back_when_the_head_passes_it(
    settle: str, hub: Hub, clock: FakeClock
) -> None:
    soon = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=START, seconds=5)
    first = Message(recipient="ada", id=id_of(1), data=b"first", expires_at=soon if settle == "expire" else None)
    hub.producer.send([first, Message(recipient="ada", id=id_of(2), data=b"second")])
    clock.advance(10)
    hub.expire() if settle == "expire" else hub.recipient("ada").withdraw(id_of(1))
    clock.advance(RETENTION_SECONDS + 1)
    assert hub.retain() == 1
    assert [message.id for message in mailbox_of(hub, "ada").history] == [id_of(2)]
    bundle = hub.recipient("ada").peek()
    assert bundle is not None
    bundle.dequeue()
    assert [message.id for message in mailbox_of(hub, "ada").history] == [id_of(2)]
    hub.file()
    assert [message.id for message in mailbox_of(hub, "ada").history] == [id_of(2)]


def test_tiny_runs_of_all_partitions_are_filed_in_one_commit(hub: Hub) -> None:
    core = inside(hub).core
    for number in range(FILING_HANDFUL):
        for name in NAMES:
            hub.producer.send(Message(recipient=name, data=b"%d" % number, id=id_of(100 * number + NAMES.index(name))))
    before, commits = {name: mailbox_of(hub, name) for name in NAMES}, core.committer.totals.commits
    assert {core.locate(name).partition for name in NAMES} == {0, 1}
    assert file_handfuls(core) == len(core.partitions)
    assert core.committer.totals.commits == commits + 1
    assert max(runs_of(hub)) < FILING_HANDFUL
    assert {name: mailbox_of(hub, name) for name in NAMES} == before


def test_a_partition_that_is_being_filed_is_left_out(hub: Hub) -> None:
    core = inside(hub).core
    for number in range(FILING_HANDFUL):
        for name in NAMES:
            hub.producer.send(Message(recipient=name, data=b"%d" % number))
    with core.partitions[0].filing_lock:
        assert file_handfuls(core) == 1
    assert file_handfuls(core) == 1
    assert file_handfuls(core) == 0
