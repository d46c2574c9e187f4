"""Identities that are stored in levels: a repeated id is known whether its fingerprint lies in memory or in the store."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

import restante
from restante import limits
from restante.calls.consignments import BeginConsignment, CommitConsignment, StageParcel
from restante.client.surface.surface import Hub
from restante.errors import RestanteError
from restante.hub.doctor.doctor import examine
from restante.hub.engine import identity_upkeep
from restante.hub.engine.core import Core
from restante.hub.engine.identity_reads import find
from restante.hub.engine.partitions import Unfiled
from restante.hub.publishing.identities import Verdict, holds, judge
from restante.hub.publishing.make_mailbags import arrived
from restante.model.consignments.consignment_answers import Winner
from restante.model.publishing.arrival import Arrivals
from restante.model.publishing.few_or_many import few_or_many
from restante.model.publishing.intake import from_messages
from restante.model.storage.changes import BlobKey, Buffer, Changes, EntryKey, Space
from restante.model.storage.identity_level import decode_level
from restante.model.storage.run import Run
from restante.ports.store import Store
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from restante.stores.sqlite import SqliteStore
from tests.crash.seen import inside
from tests.hub.engines import FakeClock
from tests.hub.letters import RETENTION_SECONDS, id_of, letter, letters
from tests.hub.test_steps import FaultyStore

BOUND = 40
"""So few identities are left in memory here."""
SETTINGS = Settings(
    partition_count=2,
    collected_retention_seconds=RETENTION_SECONDS,
    feed_retention_seconds=RETENTION_SECONDS,
    housekeeping_seconds=0,
    filing=False,
)
Opener = Callable[[], Store]


class CountingStore(MemoryStore):
    """Counts the bytes read of each blob."""

    def __init__(self, furnished: MemoryStore) -> None:
        super().__init__()
        self._durable = furnished.survivor()._durable
        self.read: dict[BlobKey, int] = {}

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> Buffer:
        self.read[blob] = self.read.get(blob, 0) + length
        return super().read_blob(blob, offset, length)


@pytest.fixture(autouse=True)
def _few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDENTITIES_IN_MEMORY_MAX", BOUND)


@pytest.fixture(params=["memory", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the same store again and again."""
    if request.param == "sqlite":
        return lambda: SqliteStore.open(tmp_path / "data")
    latest = [MemoryStore()]

    def again() -> Store:
        latest.append(latest[-1].survivor())
        return latest[-1]

    return again


def open_hub(store: Store, clock: FakeClock | None = None, settings: Settings = SETTINGS) -> Hub:
    return restante.open(None, store=store, settings=settings, clock=clock or FakeClock())


def core_of(hub: Hub) -> Core:
    return inside(hub).core


def stored_entries(hub: Hub) -> list[int]:
    """How many fingerprints each stored level has."""
    return [len(level) for partition in core_of(hub).partitions for level in partition.fingerprints.stored]


def in_memory(hub: Hub) -> int:
    partitions = core_of(hub).partitions
    return sum(len(partition.fingerprints) for partition in partitions) - sum(stored_entries(hub))


def publish(hub: Hub, numbers: Sequence[int], *, at_once: int = 7) -> None:
    for first in range(0, len(numbers), at_once):
        hub.producer.send(letters(numbers[first : first + at_once]))


def check_known(hub: Hub, numbers: Sequence[int]) -> None:
    """Sent again, few or many, all are duplicates; other content is a conflict; each is found by its id."""
    few = numbers[:: max(1, len(numbers) // 9)]
    for share in ([number] for number in few), [few], [numbers]:
        for some in share:
            receipt = hub.producer.send(letters(some))
            assert (receipt.accepted, receipt.duplicates) == (0, len(some))
    with pytest.raises(RestanteError) as conflict:
        hub.producer.send(letter(numbers[0], data=b"another"))
    assert conflict.value.code == "message_conflict"
    for number in (numbers[0], numbers[-1], numbers[len(numbers) // 2]):
        assert hub.recipient("ada").find(id_of(number)).data == f"letter {number}".encode()


def test_repeated_ids_are_known_from_stored_levels(opener: Opener) -> None:
    numbers = list(range(300))
    with open_hub(opener()) as hub:
        publish(hub, numbers)
        assert not stored_entries(hub)
        hub.file()
        assert sum(stored_entries(hub)) == 300
        check_known(hub, numbers)
    with open_hub(opener()) as hub:
        assert (sum(stored_entries(hub)), in_memory(hub)) == (300, 0)
        check_known(hub, numbers)
        receipt = hub.producer.send(letters(range(300, 900)))
        assert (receipt.accepted, receipt.duplicates) == (600, 0)
    store = opener()
    assert examine(store).findings == ()
    store.close()


def test_any_history_of_publishing_filing_and_reopening_knows_each_id_once(opener: Opener) -> None:
    drawn = random.Random(5)
    plain: set[int] = set()
    for _ in range(4):
        with open_hub(opener()) as hub:
            for _ in range(12):
                sent = [drawn.randrange(900) for _ in range(drawn.choice([1, 3, 70, 120]))]
                receipt = hub.producer.send(letters(sent))
                assert receipt.accepted == len(set(sent) - plain)
                plain |= set(sent)
                if drawn.random() < 0.3:
                    hub.file()
            levels = [len(partition.fingerprints.stored) for partition in core_of(hub).partitions]
            assert max(levels) < 8, "levels of like size are merged"
    store = opener()
    assert not examine(store).problems
    store.close()


def test_few_messages_gather_into_levels_too(opener: Opener) -> None:
    with open_hub(opener()) as hub:
        for number in range(3 * BOUND):
            hub.producer.send(letter(number))
        hub.file()
        assert sum(stored_entries(hub)) == 3 * BOUND
        assert hub.producer.send(letter(5)).duplicates == 1


def _shelves(hub: Hub) -> list[Run]:
    return [run for partition in core_of(hub).partitions for run in partition.runs if run.row.rows > BOUND]


def test_opening_reads_the_ids_of_the_newest_messages_only() -> None:
    first = MemoryStore()
    with open_hub(first) as hub:
        publish(hub, range(2_000), at_once=500)
        hub.file()
        publish(hub, range(2_000, 2_000 + BOUND // 2))
        older = {stored.blob for run in _shelves(hub) for stored in run.segments}
    for killed in (False, True):
        store = CountingStore(first)
        hub = open_hub(store)
        shelves = [(run, place) for run in _shelves(hub) for place in run.row.segments]
        fronts = {run.segments[0].blob: place.front for run, place in shelves}
        assert fronts.keys() == older
        assert all(store.read.get(blob, 0) <= fronts[blob] for blob in older), "nothing but the directory"
        assert in_memory(hub) == BOUND // 2
        check_known(hub, range(0, 2_000 + BOUND // 2, 41))
        if not killed:
            hub.close()
        first = store


def test_a_large_shelf_never_lies_partly_beyond_what_is_covered(opener: Opener) -> None:
    with open_hub(opener()) as hub:
        for first in range(0, 30 * 20, 20):
            publish(hub, range(first, first + 20), at_once=20)
            hub.file()
            for partition in core_of(hub).partitions:
                covered = partition.fingerprints.covered
                assert not any(
                    run.row.rows > BOUND and run.row.first <= covered < run.row.last for run in partition.runs
                )


@pytest.mark.parametrize("when", ["storing", "merging"])
def test_a_crash_between_any_two_steps_loses_no_identity(when: str) -> None:
    base = MemoryStore()
    clock = FakeClock()
    with open_hub(base, clock) as hub:
        publish(hub, range(BOUND + 10) if when == "storing" else range(3 * BOUND))
        if when == "merging":
            hub.file()
            publish(hub, range(3 * BOUND, 6 * BOUND))
    write = 0
    while write < 60:
        store = FaultyStore(base)
        hub = open_hub(store, clock)
        store.plan_fault(write, 0)
        try:
            hub.file()
        except RestanteError:
            hub.close()
        else:
            hub.close()
            break
        with open_hub(store.survivor(), clock) as again:
            check_known(again, range(0, BOUND + 10, 7))
            again.file()
            assert in_memory(again) < BOUND
        write += 1
    assert write > 1, "there was something to fail at"


def _level_blobs(store: Store) -> list[tuple[BlobKey, int]]:
    """The blobs of all levels, and the lengths of their fronts."""
    return [
        (BlobKey(partition, part.blob), part.front)
        for partition in range(SETTINGS.partition_count)
        for _, value in store.scan(partition, Space.IDENTITIES)
        for part in decode_level(value).parts
    ]


def _spoil(store: MemoryStore, blob: BlobKey, at: int) -> None:
    content = bytearray(store._durable.blobs[blob])
    content[at] ^= 1
    store._durable.blobs[blob] = bytes(content)


@pytest.fixture
def furnished() -> MemoryStore:
    store = MemoryStore()
    with open_hub(store) as hub:
        publish(hub, range(300))
        hub.file()
        assert stored_entries(hub)
    return store


@pytest.mark.parametrize("where", ["front", "entries", "missing", "row"])
def test_a_damaged_level_is_read_again_from_the_messages(
    furnished: MemoryStore, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = furnished.survivor()
    for blob, front in _level_blobs(store):
        if where == "missing":
            del store._durable.blobs[blob]
        elif where != "row":
            _spoil(store, blob, 40 if where == "front" else front + 40)
    if where == "row":
        for partition in range(2):
            for key, _ in store.scan(partition, Space.IDENTITIES):
                store.commit(Changes(entries={EntryKey(partition, Space.IDENTITIES, key): b"nonsense"}))
    assert examine(store).problems
    with caplog.at_level(logging.ERROR), open_hub(store) as hub:
        check_known(hub, range(300))
        assert "from its messages" in caplog.text
        hub.file()
        assert sum(stored_entries(hub)) == 300
        check_known(hub, range(300))
    assert not examine(store.survivor()).problems


def test_damage_met_while_levels_are_merged_loses_nothing(furnished: MemoryStore) -> None:
    store = furnished.survivor()
    for blob, front in _level_blobs(store):
        _spoil(store, blob, front + 40)
    with open_hub(store) as hub:
        publish(hub, range(300, 700), at_once=100)
        hub.file()
        hub.file()
        assert sum(stored_entries(hub)) == 700
        check_known(hub, range(700))


def _arrivals(core: Core, numbers: Sequence[int]) -> Arrivals:
    columns, _ = from_messages(letters(numbers), claim_check_origins=frozenset())
    return arrived(core, columns)


def test_a_verdict_holds_while_levels_are_stored_and_not_once_a_twin_came() -> None:
    with open_hub(MemoryStore()) as hub:
        core = core_of(hub)
        publish(hub, range(100))
        arrivals = _arrivals(core, range(90, 150))
        judged = judge(core, arrivals, np.array([0, 60]), np.ones(60, np.bool_))
        assert (judged.verdict == Verdict.DUPLICATE).sum() == 10
        hub.file()
        assert holds(core, judged), "storing what was known then changes nothing"
        publish(hub, range(500, 600))
        assert holds(core, judged)
        hub.file()
        assert holds(core, judged)
        publish(hub, [149])
        assert not holds(core, judged)
        publish(hub, range(600, 700))
        hub.file()
        assert in_memory(hub) < BOUND
        assert not holds(core, judged), "the twin lies in a stored level now"


def test_consignments_are_judged_against_stored_levels() -> None:
    with open_hub(MemoryStore()) as hub:
        publish(hub, range(200))
        hub.file()
        call = inside(hub).call
        consignment = call(BeginConsignment("night")).id
        call(StageParcel(consignment, few_or_many(letters(range(150, 260))), writer="a", attempt=0, parcel=0))
        receipt = call(CommitConsignment(consignment, (Winner(writer="a", attempt=0, messages=110),)))
        assert (receipt.accepted, receipt.duplicates) == (60, 50)
        hub.file()
        check_known(hub, range(260))


def test_entries_go_when_nothing_before_them_is_stored_any_more() -> None:
    clock = FakeClock()
    with open_hub(MemoryStore(), clock) as hub:
        publish(hub, range(300))
        hub.file()
        while bundle := hub.recipient("ada").peek():
            bundle.dequeue()
        clock.advance(RETENTION_SECONDS + 1)
        hub.retain()
        publish(hub, range(1_000, 1_300))
        hub.file()
        hub.file()
        assert sum(stored_entries(hub)) == 300
        assert hub.producer.send(letters(range(300))).accepted == 300


def test_data_of_the_format_before_is_brought_forward(opener: Opener) -> None:
    with open_hub(opener()) as hub:
        publish(hub, range(200))
    store = opener()
    value = store.get(0, Space.META, b"deed")
    assert value is not None
    deed = msgspec.msgpack.decode(value)
    changes = Changes(fences={0: store.raise_fences(2)})
    changes.put(0, Space.META, b"deed", msgspec.msgpack.encode([4, *deed[1:]]))
    store.commit(changes)
    store.close()
    with open_hub(opener()) as hub:
        assert in_memory(hub) == 200
        hub.file()
        assert in_memory(hub) == 0
        check_known(hub, range(200))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> list[Hub]:
    """While a level is written, more is published."""
    hubs: list[Hub] = []
    write = identity_upkeep._write_parts

    def slowly(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        number = 10_000 + 10 * len(hubs)
        hubs[0].producer.send(letters(range(number, number + 10)))
        hubs.append(hubs[0])

    monkeypatch.setattr(identity_upkeep, "_write_parts", slowly)
    return hubs


def test_what_comes_while_a_level_is_written_stays_in_memory(busy: list[Hub]) -> None:
    with open_hub(MemoryStore()) as hub:
        busy.append(hub)
        publish(hub, range(200))
        hub.file()
        came = [10_010 + number for number in range(10 * (len(busy) - 1))]
        assert came
        check_known(hub, [*range(200), *came])


def test_a_message_that_is_found_lies_where_its_number_says() -> None:
    with open_hub(MemoryStore()) as hub:
        core = core_of(hub)
        publish(hub, range(300))
        hub.file()
        arrivals = _arrivals(core, range(0, 300, 3))
        for partition in core.partitions:
            rows = np.flatnonzero(arrivals.partition == partition.number)
            index, numbers = find(core, partition, arrivals.fingerprint[rows])
            assert sorted(index.tolist()) == list(range(len(rows)))
            wanted = [int(arrivals.columns.id[row][1]) for row in rows[index]]
            assert len(set(wanted)) == len(set(numbers.tolist())) == len(rows)


def test_background_filing_stores_the_ids_of_all_partitions() -> None:
    """Also of those that it has no runs to merge of."""
    settings = msgspec.structs.replace(SETTINGS, filing=True)
    with open_hub(MemoryStore(), settings=settings) as hub:
        for first in range(0, 4_000, 400):
            hub.producer.send([letter(number, f"name {number % 7}") for number in range(first, first + 400)])
        core = core_of(hub)
        while in_memory(hub) >= 2 * BOUND:
            core.memory(Unfiled).wanted.set()
            core.closing.wait(0.01)
        assert hub.producer.send(letter(5, "name 5")).duplicates == 1
