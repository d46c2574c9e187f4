"""The feed: everything that happened, once, in order, to whoever reads along."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

import restante
from restante.calls.batches import OpenBatch, SealBatch
from restante.calls.feed import ReadFeed
from restante.calls.publishing import Publish
from restante.client.surface.surface import Hub
from restante.errors import DataDamaged, InvalidRequest, PartitionUnknown, PositionAhead, PositionGone, RestanteError
from restante.hub.doctor.doctor import examine
from restante.hub.feed.calls import feed_readers
from restante.limits import MIB, READERS_REMEMBERED_MAX
from restante.model.feed.feed import FEED_SCHEMA
from restante.model.feed.feed_answers import FeedWish
from restante.model.storage.segment import Area
from restante.stores.memory import MemoryStore
from tests.cli.patients import Patient, fill
from tests.crash.seen import inside
from tests.hub.conftest import HubOpener
from tests.hub.engines import Engine, FakeClock, MemoryEngine, SqliteEngine
from tests.hub.feed_reading import Replay, changes, kept, snapshot, told
from tests.hub.letters import RETENTION_SECONDS, SETTINGS, at, id_of, letter, letters, peeked, taken
from tests.profiles import by_profile

ONE = msgspec.structs.replace(SETTINGS, partition_count=1)
NAMES = ("ada", "ben", "cleo", "dora")


@pytest.fixture(params=[MemoryEngine, SqliteEngine], ids=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    made: Callable[[Path], Engine] = request.param
    return made(tmp_path / "data")


@pytest.fixture
def hub(open_hub: HubOpener) -> Hub:
    return open_hub(settings=ONE)


# --- Order and completeness -------------------------------------------------------------------------------------------


def test_messages_come_in_the_order_in_which_they_were_sent_whatever_their_recipients(hub: Hub) -> None:
    sent = [letter(n, NAMES[n % 4], kind=f"k{n % 3}", properties={"n": str(n)}) for n in range(1, 101)]
    hub.producer.send(sent[:70])
    for one in sent[70:]:
        hub.producer.send(one)
    rows = changes(hub)
    assert told(rows) == [(n, "published", n) for n in range(1, 101)]
    assert [row["recipient"] for row in rows] == [message.recipient for message in sent]
    assert [row["kind"] for row in rows] == [message.kind for message in sent]
    assert [row["data"] for row in rows] == [message.data for message in sent]
    assert [UUID(bytes=row["id"]).int for row in rows] == list(range(1, 101))
    assert [row["properties"] for row in rows] == [[("n", str(n))] for n in range(1, 101)]
    assert {row["at"] for row in rows} == {at(0)}


def test_tiny_runs_read_together_tell_what_each_tells_alone(hub: Hub) -> None:
    for number in range(1, 41):
        more = {"properties": {"n": str(number)}} if number % 3 else {}
        hub.producer.send(letter(number, NAMES[number % 4], kind=f"k{number % 5}", weight=number, **more))
        if number % 10 == 0:
            hub.producer.send(letter(1_000 + number, data=b"", document_type=f"d{number}"))
    assert changes(hub) == changes(hub, limit=1)
    assert len(changes(hub)) == 44


def test_a_message_says_all_that_was_stored_of_it(hub: Hub) -> None:
    hub.producer.send(
        letter(1, weight=7, bundleable=False, document_type="d", media_type="text/plain", expires_at=at(9))
    )
    (row,) = changes(hub)
    assert row == {
        "sequence_number": 1,
        "change": "published",
        "at": at(0),
        "message_sequence_number": 1,
        "id": UUID(int=1).bytes,
        "recipient": "ada",
        "origin": "default",
        "kind": "default",
        "document_type": "d",
        "weight": 7,
        "bundleable": False,
        "data": b"letter 1",
        "media_type": "text/plain",
        "expires_at": at(9),
    }


@pytest.mark.parametrize("limit", [1, 3, 7, 1_000])
def test_pages_of_any_size_tell_the_same(hub: Hub, limit: int) -> None:
    for begin in (1, 31, 32, 80):
        hub.producer.send([letter(n, NAMES[n % 4]) for n in range(begin, begin + 30)])
        taken(hub, "ben", max_messages=4)
    whole = changes(hub)
    assert changes(hub, limit=limit) == whole
    numbers = [row["sequence_number"] for row in whole]
    assert numbers == sorted(numbers)
    assert inside(hub).call(ReadFeed(0, limit=2)).table.num_rows == 2


def test_the_limit_counts_changes_and_an_answer_never_ends_within_one(hub: Hub) -> None:
    hub.producer.send(letters(range(1, 11)))
    taken(hub, max_messages=8)
    hub.producer.send(letter(11))
    answer = inside(hub).call(ReadFeed(0, after=9, limit=2))
    assert (answer.table.num_rows, answer.next, answer.end) == (9, 11, 12)
    assert inside(hub).call(ReadFeed(0, after=11, limit=2)).next == 12


def test_large_mailbags_are_read_page_by_page(hub: Hub) -> None:
    sent = [letter(n, f"r{n % 613}") for n in range(1, 6_001)]
    hub.producer.send(sent)
    rows = changes(hub, limit=900)
    assert [row["sequence_number"] for row in rows] == list(range(1, 6_001))
    assert [row["recipient"] for row in rows] == [message.recipient for message in sent]
    assert [row["data"] for row in rows] == [message.data for message in sent]
    few = changes(hub, after=2_100, limit=100)[:300]
    assert [row["data"] for row in few] == [message.data for message in sent[2_100:2_400]]


def test_an_answer_ends_at_64_mebibytes_but_has_one_change(hub: Hub) -> None:
    for begin in range(1, 72, 10):
        hub.producer.send([letter(n, data=bytes(MIB), weight=1024) for n in range(begin, begin + 10)])
    first = inside(hub).call(ReadFeed(0))
    assert first.next == first.table.num_rows == 63
    assert inside(hub).call(ReadFeed(0, wish=FeedWish(columns=("id",)))).next == 80
    assert inside(hub).call(ReadFeed(0, after=first.next)).next == 80


# --- What happens to messages -----------------------------------------------------------------------------------------


def test_a_collected_bundle_is_one_change_with_a_row_for_each_of_its_messages(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(n, NAMES[n % 2]) for n in range(1, 9)])
    clock.advance(3)
    bundle = peeked(hub, "ben", max_messages=3)
    bundle.dequeue()
    rows = changes(hub, after=8)
    assert told(rows) == [(9, "collected", 1), (9, "collected", 3), (9, "collected", 5)]
    assert {(row["recipient"], row["at"], str(UUID(bytes=row["bundle_id"]))) for row in rows} == {
        ("ben", at(3), bundle.bundle_id)
    }
    assert [UUID(bytes=row["id"]).int for row in rows] == [1, 3, 5]
    assert all("data" not in row for row in rows)


def test_withdrawn_set_aside_released_and_expired_messages_are_told(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1), letter(2), letter(3), letter(4, expires_at=at(5)), letter(5, "ben")])
    ada = hub.recipient("ada")
    ada.withdraw(id_of(1))
    ada.set_aside(id_of(2))
    ada.release(id_of(2))
    clock.advance(6)
    hub.expire()
    hub.recipient("ben").purge(all=True)
    assert told(changes(hub, after=5)) == [
        (6, "withdrawn", 1),
        (7, "set_aside", 2),
        (8, "released", 2),
        (9, "expired", 4),
        (10, "withdrawn", 5),
    ]


def test_a_message_released_to_the_end_lives_on_under_the_number_of_that_change(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    hub.recipient("ada").set_aside(id_of(1))
    taken(hub)
    hub.recipient("ada").release(id_of(1))
    rows = changes(hub)
    assert told(rows)[2:] == [(3, "set_aside", 1), (4, "collected", 2), (5, "released", 1)]
    assert (rows[-1]["data"], UUID(bytes=rows[-1]["id"]).int) == (b"letter 1", 1)
    assert "bundle_id" not in rows[-1]


def test_what_was_moved_is_still_told_after_the_old_row_could_have_been_filed_away(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2, 3]))
    taken(hub, max_messages=1)
    clock.advance(RETENTION_SECONDS - 1)
    hub.recipient("ada").set_aside(id_of(2))
    taken(hub)
    hub.recipient("ada").release(id_of(2))
    clock.advance(2)
    assert hub.retain() == 1
    hub.producer.send(letters([4, 5]))
    before = changes(hub)
    hub.file()
    assert changes(hub) == before
    assert told(before) == [
        (5, "set_aside", 2),
        (6, "collected", 3),
        (7, "released", 2),
        (8, "published", 8),
        (9, "published", 9),
    ]
    assert UUID(bytes=before[0]["id"]).int == 2


def test_an_erased_recipient_leaves_one_row_and_nothing_else(hub: Hub) -> None:
    hub.producer.send([letter(n, NAMES[n % 2]) for n in range(1, 7)])
    taken(hub, "ada", max_messages=2)
    hub.recipient("ada").erase()
    rows = changes(hub)
    assert told(rows) == [(1, "published", 1), (3, "published", 3), (5, "published", 5), (8, "erased", 6)]
    gone = {"sequence_number": 8, "change": "erased", "at": at(0), "recipient": "ada", "message_sequence_number": 6}
    gone["messages"] = 3
    assert rows[-1] == gone


def test_a_completed_batch_is_told_in_the_partition_of_its_id(hub: Hub) -> None:
    batch = inside(hub).call(OpenBatch(key="month"))
    inside(hub).call(Publish.of(letter(1), batch=batch.id))
    inside(hub).call(SealBatch(batch.id))
    taken(hub)
    rows = changes(hub)
    assert [row["change"] for row in rows] == ["published", "collected", "batch_completed"]
    done = rows[-1]
    assert (str(UUID(bytes=done["batch"])), done["key"]) == (batch.id, "month")
    assert set(done) == {"sequence_number", "change", "at", "batch", "key"}
    assert [row["change"] for row in changes(hub, wish=FeedWish(recipients=("ada",)))] == ["published", "collected"]


def test_bundles_over_the_numbers_of_others_name_their_own_messages_only(hub: Hub) -> None:
    for begin in range(0, 2_400, 400):
        hub.producer.send([letter(n, NAMES[n % 4], kind=f"k{n % 3}") for n in range(begin + 1, begin + 401)])
    hub.recipient("cleo").set_aside(id_of(26))
    for name in NAMES:
        while hub.recipient(name).explain().waiting:
            taken(hub, name, max_messages=130)
    collected = [row for row in changes(hub) if row["change"] == "collected"]
    assert sorted(row["message_sequence_number"] for row in collected) == [n for n in range(1, 2_401) if n != 26]
    assert all(UUID(bytes=row["id"]).int == row["message_sequence_number"] for row in collected)
    assert all(row["recipient"] == NAMES[row["message_sequence_number"] % 4] for row in collected)
    without = changes(hub, wish=FeedWish(columns=("message_sequence_number", "recipient")))
    names = ("sequence_number", "change", "message_sequence_number", "recipient")
    assert without == [{name: row[name] for name in names} for row in changes(hub)]


# --- What is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filed", [False, True])
@pytest.mark.parametrize(
    "wish",
    [
        FeedWish(origins=("o1",)),
        FeedWish(kinds=("k0", "k2")),
        FeedWish(recipients=("ada", "dora")),
        FeedWish(origins=("o0",), kinds=("k1",), recipients=("ben",)),
        FeedWish(recipients=("nobody",)),
    ],
)
def test_filters_leave_out_what_is_not_asked_for_and_nothing_else(
    hub: Hub, wish: FeedWish, filed: bool
) -> None:  # a parameter of the test
    def fits(row: dict[str, str]) -> bool:
        return (
            (not wish.origins or row["origin"] in wish.origins)
            and (not wish.kinds or row["kind"] in wish.kinds)
            and (not wish.recipients or row["recipient"] in wish.recipients)
        )

    for begin in range(0, 180, 30):
        sent = [letter(n, NAMES[n % 4], kind=f"k{n % 3}", origin=f"o{n % 2}") for n in range(begin + 1, begin + 31)]
        hub.producer.send(sent)
        taken(hub, "ada", max_messages=5)
        taken(hub, "ben", max_messages=5)
    if filed:
        hub.file()
    everything = changes(hub)
    assert changes(hub, wish=wish) == [row for row in everything if fits(row)]
    assert changes(hub, wish=wish, limit=3) == [row for row in everything if fits(row)]


def test_only_the_columns_asked_for_come_with_number_and_change(hub: Hub) -> None:
    hub.producer.send(letters([1, 2], properties={"a": "b"}))
    taken(hub, max_messages=1)
    answer = inside(hub).call(ReadFeed(0, wish=FeedWish(columns=("properties", "recipient"))))
    assert answer.table.column_names == ["sequence_number", "change", "recipient", "properties"]
    assert answer.table["properties"].to_pylist() == [[("a", "b")], [("a", "b")], None]
    assert inside(hub).call(ReadFeed(0)).table.schema == FEED_SCHEMA
    assert inside(hub).call(ReadFeed(0, after=3)).table.schema == FEED_SCHEMA


def test_a_filter_that_matches_nothing_moves_on_in_bounded_steps(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.limits.FEED_RUNS_AT_ONCE", 10)
    for number in range(1, 26):
        hub.producer.send(letter(number))
    wish = FeedWish(recipients=("nobody",))
    positions = [inside(hub).call(ReadFeed(0, after=after, wish=wish)).next for after in (0, 10, 20, 25)]
    assert positions == [10, 20, 25, 25]
    monkeypatch.setattr("restante.limits.FEED_NUMBERS_AT_ONCE", 7)
    assert inside(hub).call(ReadFeed(0, after=5, wish=wish)).next == 12


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"after": -1}, "after"),
        ({"limit": 0}, "limit"),
        ({"wish": FeedWish(columns=("id", "colour"))}, "colour"),
        ({"reader": ""}, "reader"),
        ({"reader": "x" * 65}, "reader"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(hub: Hub, asked: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        inside(hub).call(ReadFeed(0, **asked))  # type: ignore[arg-type]
    with pytest.raises(PartitionUnknown):
        inside(hub).call(ReadFeed(1))


def test_readers_are_counted_by_name_and_only_so_many(hub: Hub) -> None:
    hub.producer.send(letters(range(1, 11)))
    inside(hub).call(ReadFeed(0, limit=4, reader="lake"))
    inside(hub).call(ReadFeed(0, after=4, limit=4, reader="lake"))
    (status,) = feed_readers(inside(hub).core)
    assert (status.reader, status.lag, status.changes, status.requests) == ("lake", 2, 8, 2)
    hub.producer.send(letter(11))
    assert feed_readers(inside(hub).core)[0].lag == 3
    for number in range(READERS_REMEMBERED_MAX):
        inside(hub).call(ReadFeed(0, reader=f"r{number}"))
    assert "lake" not in [reader.reader for reader in feed_readers(inside(hub).core)]
    assert len(feed_readers(inside(hub).core)) == READERS_REMEMBERED_MAX


# --- Filing, retention, and opening again -----------------------------------------------------------------------------


def test_filing_and_opening_again_change_nothing(open_hub: HubOpener) -> None:
    hub = open_hub(settings=ONE)
    for number in range(1, 200):
        hub.producer.send([letter(3 * number + n, NAMES[n]) for n in range(3)])
        if number % 9 == 0:
            taken(hub, "ben", max_messages=7)
    before = changes(hub)
    hub.file()
    assert changes(hub) == before
    hub = open_hub(settings=ONE)
    assert changes(hub) == before
    assert changes(hub, limit=37) == before


def large(hub: Hub, begin: int, mailbags: int = 8) -> None:
    """Mailbags that filing puts on a shelf of several segments."""
    for number in range(begin, begin + mailbags):
        hub.producer.send([letter(2 * number, data=bytes(MIB), weight=1024), letter(2 * number + 1, "ben", data=b"b")])


def segments(hub: Hub) -> list[int]:
    return [len(run.segments) for run in inside(hub).core.partitions[0].runs]


def test_a_shelf_of_several_segments_is_told_in_order(open_hub: HubOpener) -> None:
    hub = open_hub(settings=ONE)
    large(hub, 0, 5)
    taken(hub, "ben")
    large(hub, 5, 3)
    before = changes(hub)
    hub.file()
    assert len(segments(hub)) == 1 < segments(hub)[0]
    assert changes(hub) == before
    hub = open_hub(settings=ONE)
    assert changes(hub, limit=3) == before
    assert len(before) == 21


def test_what_retention_takes_from_a_large_shelf_is_gone_and_the_rest_is_not(hub: Hub, clock: FakeClock) -> None:
    large(hub, 0)
    hub.file()
    clock.advance(RETENTION_SECONDS / 2)
    hub.producer.send(letter(1_000))
    clock.advance(RETENTION_SECONDS / 2 + 1)
    hub.retain()
    with pytest.raises(PositionGone) as gone:
        changes(hub, after=0)
    assert gone.value.details["first"] == 17
    assert told(changes(hub)) == told(changes(hub, after=16)) == [(17, "published", 17)]
    assert (inside(hub).call(ReadFeed(0)).start, inside(hub).call(ReadFeed(0)).end) == (17, 17)


def test_a_start_that_moved_stays_moved(open_hub: HubOpener, clock: FakeClock) -> None:
    hub = open_hub(settings=ONE)
    large(hub, 0)
    hub.file()
    clock.advance(RETENTION_SECONDS + 1)
    hub.retain()
    hub = open_hub(settings=ONE)
    assert inside(hub).call(ReadFeed(0)).start == 17


def test_runs_too_old_to_stay_are_gone_when_a_large_shelf_is_made_of_them(hub: Hub, clock: FakeClock) -> None:
    large(hub, 0, 4)
    clock.advance(RETENTION_SECONDS + 1)
    large(hub, 4, 4)
    assert len(changes(hub, after=0)) == 16, "as mailbags they can be read, however old"
    hub.file()
    assert len(segments(hub)) == 1 < segments(hub)[0]
    assert inside(hub).call(ReadFeed(0)).start == 9
    assert [row["sequence_number"] for row in changes(hub)] == list(range(9, 17))


def test_small_shelves_are_told_however_old(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters(range(1, 100)))
    clock.advance(RETENTION_SECONDS + 1)
    hub.producer.send(letters(range(100, 200)))
    hub.file()
    hub.retain()
    assert len(changes(hub, after=0)) == 199


def test_forgotten_changes_are_gone_with_all_before_them(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2, 3]))
    taken(hub, max_messages=2)
    hub.producer.send(letter(4))
    clock.advance(RETENTION_SECONDS + 1)
    hub.retain()
    with pytest.raises(PositionGone):
        changes(hub, after=3)
    assert told(changes(hub, after=4)) == told(changes(hub)) == [(5, "published", 5)]


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_what_a_shelf_that_became_small_still_has_is_told_until_it_is_merged_again(
    hub: Hub, clock: FakeClock, pause: float
) -> None:
    large(hub, 0, 7)
    taken(hub, "ada", max_weight=10 * 1024)
    taken(hub, "ben")
    clock.advance(RETENTION_SECONDS / 2)
    hub.producer.send(letter(100, "cleo", data=bytes(300_000)))
    clock.advance(RETENTION_SECONDS * pause)
    hub.producer.send(letter(101, "cleo", data=bytes(300_000)))
    hub.file()
    assert segments(hub)[0] > 1
    clock.advance(RETENTION_SECONDS * (0.51 - pause))
    hub.retain()
    assert segments(hub) == [1], "most of it is forgotten"
    assert told(changes(hub, after=16)) == [(17, "published", 17), (18, "published", 18)]
    clock.advance(RETENTION_SECONDS / 2)
    hub.retain()
    assert len(inside(hub).core.partitions[0].feed_runs) == (1 if pause else 0)
    assert told(changes(hub, after=16)) == [(17, "published", 17), (18, "published", 18)], "the shelf has them"
    large(hub, 200, 7)
    hub.file()
    assert len(segments(hub)) == 1 < segments(hub)[0]
    first = 18 if pause else 17
    assert inside(hub).call(ReadFeed(0)).start == first, (
        "what stays of the first shelf has only the second of its messages"
    )
    assert [row["sequence_number"] for row in changes(hub)] == list(range(first, 33))


@pytest.mark.parametrize("wait", [0, 0.01])
def test_a_position_beyond_the_end_is_refused_so_that_nothing_is_skipped(hub: Hub, wait: float) -> None:
    hub.producer.send(letter(1))
    assert inside(hub).call(ReadFeed(0, after=1, wait=wait)).next == 1
    with pytest.raises(PositionAhead) as ahead:
        inside(hub).call(ReadFeed(0, after=2, wait=wait))
    assert ahead.value.details == {"end": 1}


# --- Damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("area", "at_byte"), [(Area.LEDGER, 5), (Area.LEDGER, -1), (Area.DATA, 0)])
def test_what_cannot_be_read_is_said_and_never_left_out(area: Area, at_byte: int) -> None:
    store = MemoryStore()
    fill(store)
    Patient(store).flip(area, at_byte)
    hub = restante.open(None, store=store, settings=msgspec.structs.replace(ONE, origins={}), clock=FakeClock())
    with pytest.raises(DataDamaged):
        changes(hub)
    with pytest.raises(DataDamaged):
        snapshot(hub)
    if area is Area.DATA:
        wish = FeedWish(columns=("id",))
        assert len(changes(hub, wish=wish)) > 0, "what is not asked for is not read"
    hub.close()


def test_the_doctor_finds_nothing_wrong_after_what_was_moved_is_forgotten(clock: FakeClock) -> None:
    store = MemoryStore()
    hub = restante.open(None, store=store, settings=ONE, clock=clock)
    hub.producer.send(letters([1, 2, 3]))
    hub.recipient("ada").set_aside(id_of(1))
    taken(hub, max_messages=1)
    hub.recipient("ada").release(id_of(1))
    clock.advance(RETENTION_SECONDS + 1)
    assert hub.retain() == 1
    hub.producer.send(letters([4, 5]))
    hub.file()
    assert [letter_.number for letter_ in kept(hub, "ada")] == [3, 6, 7, 8]
    hub.close()
    report = examine(store.survivor())
    assert report.findings == ()


# --- It is what history says ------------------------------------------------------------------------------------------


class Chance:
    """Does something to the mailboxes, the same for the same seed."""

    def __init__(self, seed: int, hub: Hub, clock: FakeClock) -> None:
        self.generator, self.hub, self.clock, self.sent = random.Random(seed), hub, clock, 0

    def act(self) -> None:
        name = self.generator.choice(NAMES)
        acts = [*[self.publish] * 5, self.collect, self.collect, self.settle, self.settle, self.wait, self.erase]
        # It was collected, or is held: chance may ask for what cannot be.
        with suppress(RestanteError):
            self.generator.choice(acts)(name)

    def publish(self, name: str) -> None:
        messages = []
        for _ in range(self.generator.choice([1, 3, 150])):
            self.sent += 1
            expires = at((self.clock.now - FakeClock().now) / 1e6 + 20) if self.generator.random() < 0.2 else None
            messages.append(
                letter(
                    self.sent,
                    self.generator.choice([name, *NAMES]),
                    kind=self.generator.choice("kl"),
                    data=self.generator.randbytes(self.generator.choice([0, 10, 300])),
                    properties={"n": str(self.sent)} if self.sent % 5 == 0 else {},
                    expires_at=expires,
                )
            )
        self.hub.producer.send(messages)

    def collect(self, name: str) -> None:
        bundle = self.hub.recipient(name).peek(max_messages=self.generator.choice([1, 5, 60]))
        if bundle is not None and self.generator.random() < 0.8:
            bundle.dequeue()

    def settle(self, name: str) -> None:
        recipient = self.hub.recipient(name)
        one = id_of(self.generator.randint(1, max(1, self.sent)))
        self.generator.choice([recipient.withdraw, *[recipient.set_aside] * 3, *[recipient.release] * 4])(one)

    def wait(self, _: str) -> None:
        self.clock.advance(self.generator.choice([1, 10]))
        self.hub.expire()

    def erase(self, name: str) -> None:
        if self.generator.random() < 0.1:
            self.hub.recipient(name).erase()


LONG = msgspec.structs.replace(ONE, collected_retention_seconds=10**6, feed_retention_seconds=10**6)


@pytest.mark.parametrize("seed", range(by_profile(dev=1, ci=6)))
def test_a_reader_knows_what_history_knows(open_hub: HubOpener, clock: FakeClock, seed: int) -> None:
    hub = open_hub(settings=LONG)
    chance, reader, late, position, since = Chance(seed, hub, clock), Replay(), Replay(), 0, 0
    steps = by_profile(dev=90, ci=240)
    middle = chance.generator.randint(40, steps - 40)
    for step in range(steps):
        chance.act()
        if step % 60 == 30:
            hub.file()
        if step % 80 == 50:
            hub = chance.hub = open_hub(settings=LONG)
        if chance.generator.random() < 0.1:
            rows = changes(hub, after=position, limit=chance.generator.choice([5, 20, None]))
            position = rows[-1]["sequence_number"] if rows else position
            reader.follow(rows)
        if step == middle:
            pages, since = snapshot(hub, limit=chance.generator.choice([3, 50, None]))
            late.load(pages)
    clock.advance(100)
    hub.expire()
    reader.follow(changes(hub, after=position))
    late.follow(changes(hub, after=since))
    for name in NAMES:
        assert reader.of(name) == kept(hub, name)
        assert late.of(name) == kept(hub, name)


def test_readers_with_other_limits_do_not_take_rows_from_each_other(hub: Hub) -> None:
    """A large run with change records between its messages is read in pages that end at a change, not at its end."""
    for first in range(1, 1_201, 200):
        hub.producer.send([letter(number, "ada") for number in range(first, first + 200)])
        for number in range(first, first + 10):
            hub.recipient("ada").withdraw(id_of(number))
    hub.file()
    everything = told(changes(hub, limit=100_000))
    assert len(everything) == 1_260
    for limit in (20, 77, 1_000):
        assert told(changes(hub, limit=limit)) == everything
        assert told(changes(hub, limit=100_000)) == everything


def test_an_erasure_tells_the_last_of_all_its_cabinets(hub: Hub) -> None:
    hub.producer.send([letter(1, "ada", kind="x"), letter(2, "ada", kind="y"), letter(3, "ada", kind="x")])
    hub.recipient("ada").erase()
    assert told(changes(hub)) == [(4, "erased", 3)]


def test_mail_that_comes_while_its_recipient_is_erased_is_not_told_as_erased(hub: Hub) -> None:
    hub.producer.send([letter(1, "ada"), letter(2, "ada")])
    hub.recipient("ada").erase()
    hub.producer.send(letter(3, "ada"))
    assert told(changes(hub)) == [(3, "erased", 2), (4, "published", 4)]
