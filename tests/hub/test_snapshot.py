"""A snapshot: everything stored as of one moment, however long its pages take, and the feed goes on from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from restante.calls.feed import ReadSnapshot
from restante.client.surface.surface import Hub
from restante.errors import InvalidRequest, PositionGone
from restante.limits import MIB
from restante.model.feed.feed_answers import FeedWish, SnapshotAnswer
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA
from tests.crash.seen import inside
from tests.hub.conftest import HubOpener
from tests.hub.engines import Engine, FakeClock, MemoryEngine, SqliteEngine
from tests.hub.feed_reading import Replay, Row, changes, kept, snapshot
from tests.hub.letters import RETENTION_SECONDS, SETTINGS, at, id_of, letter, letters, taken

ONE = msgspec.structs.replace(SETTINGS, partition_count=1)
NAMES = ("ada", "ben", "cleo", "dora")


@pytest.fixture(params=[MemoryEngine, SqliteEngine], ids=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    made: Callable[[Path], Engine] = request.param
    return made(tmp_path / "data")


@pytest.fixture
def hub(open_hub: HubOpener) -> Hub:
    return open_hub(settings=ONE)


def states(rows: list[Row]) -> dict[int, str]:
    """By what tells messages apart."""
    found = {UUID(bytes=row["id"]).int: row["state"] for row in rows}
    assert len(found) == len(rows), "each message once"
    return found


class Pages:
    """A snapshot read page by page, with whatever happens in between."""

    def __init__(self, hub: Hub, limit: int) -> None:
        self.hub, self.limit = hub, limit
        self.rows: list[Row] = []
        self.page: SnapshotAnswer = inside(hub).call(ReadSnapshot(0, limit=limit))
        self.rows += self.page.table.to_pylist()

    def rest(self) -> list[Row]:
        while self.page.next is not None:
            self.page = inside(self.hub).call(ReadSnapshot(0, after=self.page.next, limit=self.limit))
            self.rows += self.page.table.to_pylist()
        return self.rows


@pytest.mark.parametrize("filed", [False, True])
@pytest.mark.parametrize("limit", [1, 7, None])
def test_it_has_every_stored_message_once_with_its_state(
    hub: Hub, clock: FakeClock, limit: int | None, filed: bool
) -> None:  # a parameter of the test
    hub.producer.send([letter(n, NAMES[n % 4], kind=f"k{n % 3}", properties={"n": str(n)}) for n in range(1, 41)])
    hub.producer.send([letter(n, "ada", kind="one") for n in range(41, 61)])
    hub.producer.send(letter(61, "eve", expires_at=at(5)))
    clock.advance(1)
    collected = taken(hub, "ben", max_messages=3)
    hub.recipient("ada").withdraw(id_of(50))
    hub.recipient("ada").set_aside(id_of(51))
    if filed:
        hub.file()
    rows, position = snapshot(hub, limit=limit)
    expected = dict.fromkeys(range(1, 62), "waiting") | dict.fromkeys(collected, "collected")
    assert states(rows) == expected | {50: "withdrawn", 51: "set_aside"}
    assert position == 64
    by_number = {row["sequence_number"]: row for row in rows}
    assert [by_number[n]["data"] for n in range(1, 62)] == [b"letter %d" % n for n in range(1, 62)]
    assert [by_number[n]["collected_at"] for n in collected] == [at(1)] * 3
    assert by_number[7]["properties"] == [("n", "7")]
    clock.advance(10)
    assert snapshot(hub, limit=limit)[0] == rows, "the clock alone changes nothing"


def test_what_happens_between_pages_is_told_by_the_feed_instead(hub: Hub) -> None:
    hub.producer.send([letter(n, NAMES[n % 4]) for n in range(1, 81)])
    hub.recipient("ada").set_aside(id_of(4))
    taken(hub, "ada", max_messages=2)
    pages = Pages(hub, 9)
    hub.producer.send([letter(n, NAMES[n % 4]) for n in range(81, 120)])
    for name in NAMES:
        taken(hub, name, max_messages=6)
        hub.recipient(name).withdraw(id_of(40 + NAMES.index(name)))
    hub.recipient("ada").release(id_of(4))
    hub.file()
    rows = pages.rest()
    found = states(rows)
    assert set(found) == set(range(1, 81))
    assert found[4] == "set_aside"
    assert sorted(n for n, state in found.items() if state == "collected") == [8, 12]
    assert [n for n, state in found.items() if state == "withdrawn"] == []
    reader = Replay()
    reader.load(rows)
    reader.follow(changes(hub, after=pages.page.position))
    for name in NAMES:
        assert reader.of(name) == kept(hub, name)


def test_pages_go_on_after_the_hub_was_opened_again(open_hub: HubOpener) -> None:
    hub = open_hub(settings=ONE)
    hub.producer.send([letter(n, NAMES[n % 4]) for n in range(1, 41)])
    pages = Pages(hub, 6)
    hub.producer.send(letter(100))
    pages.hub = open_hub(settings=ONE)
    assert set(states(pages.rest())) == set(range(1, 41))


def test_a_message_moved_to_the_end_is_shown_once(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    hub.recipient("ada").set_aside(id_of(1))
    taken(hub)
    before = Pages(hub, 1)
    hub.recipient("ada").release(id_of(1))
    assert states(before.rest()) == {1: "set_aside", 2: "collected"}
    after, _ = snapshot(hub)
    assert sorted((row["sequence_number"], row["state"]) for row in after) == [(2, "collected"), (5, "waiting")]


def test_what_was_set_aside_so_long_ago_that_no_change_tells_is_still_set_aside(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1), letter(2, "ben")])
    hub.recipient("ada").set_aside(id_of(1))
    clock.advance(RETENTION_SECONDS + 1)
    hub.retain()
    assert states(snapshot(hub)[0]) == {1: "set_aside", 2: "waiting"}
    pages = Pages(hub, 1)
    hub.recipient("ada").release(id_of(1))
    assert states(pages.rest())[1] == "set_aside"


@pytest.mark.parametrize("how", ["withdraw", "purge"])
def test_what_was_withdrawn_later_was_set_aside_before_though_no_change_tells_it(
    hub: Hub, clock: FakeClock, how: str
) -> None:
    hub.producer.send([letter(1), letter(2), letter(3, "ben")])
    ada = hub.recipient("ada")
    ada.set_aside(id_of(1))
    clock.advance(RETENTION_SECONDS + 1)
    hub.retain()
    rows, position = snapshot(hub)
    assert states(rows) == {1: "set_aside", 2: "waiting", 3: "waiting"}
    if how == "withdraw":
        ada.withdraw(id_of(1))
    else:
        assert ada.purge(all=True) == 2
    assert snapshot(hub, position=position)[0] == rows


def test_pages_that_take_longer_than_changes_are_kept_are_gone_rather_than_wrong(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1), letter(2, "ben")])
    pages = Pages(hub, 1)
    for number, name in ((1, "ada"), (2, "ben")):
        hub.recipient(name).set_aside(id_of(number))
    clock.advance(RETENTION_SECONDS + 1)
    hub.retain()
    with pytest.raises(PositionGone):
        pages.rest()


def test_forgotten_and_erased_messages_are_not_shown(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(n, NAMES[n % 4]) for n in range(1, 13)])
    taken(hub, "ada", max_messages=2)
    clock.advance(RETENTION_SECONDS + 1)
    hub.retain()
    pages = Pages(hub, 1)
    hub.recipient("ben").erase()
    rows = states(pages.rest())
    assert rows.keys() - {1, 5, 9} == {2, 3, 6, 7, 10, 11, 12}
    assert states(snapshot(hub)[0]).keys() == {2, 3, 6, 7, 10, 11, 12}


def test_filters_and_columns_leave_out_what_is_not_asked_for(hub: Hub) -> None:
    hub.producer.send([letter(n, NAMES[n % 4], kind=f"k{n % 3}", origin=f"o{n % 2}") for n in range(1, 61)])
    taken(hub, "ada", max_messages=2)
    everything, _ = snapshot(hub)
    for wish in (
        FeedWish(recipients=("ada", "cleo")),
        FeedWish(kinds=("k1",)),
        FeedWish(origins=("o1",), kinds=("k0",)),
    ):
        chosen = [
            row
            for row in everything
            if (not wish.recipients or row["recipient"] in wish.recipients)
            and (not wish.kinds or row["kind"] in wish.kinds)
            and (not wish.origins or row["origin"] in wish.origins)
        ]
        assert len(chosen) < len(everything)
        assert snapshot(hub, wish=wish)[0] == snapshot(hub, wish=wish, limit=2)[0] == chosen
    page = inside(hub).call(ReadSnapshot(0, wish=FeedWish(columns=("state", "recipient"))))
    assert page.table.column_names == ["sequence_number", "recipient", "state"]
    assert inside(hub).call(ReadSnapshot(0)).table.schema == MESSAGE_SCHEMA


def test_a_page_ends_at_64_mebibytes_but_has_one_message(hub: Hub) -> None:
    for begin in range(1, 72, 10):
        hub.producer.send([letter(n, data=bytes(MIB), weight=1024) for n in range(begin, begin + 10)])
    page = inside(hub).call(ReadSnapshot(0))
    assert page.table.num_rows == 63
    rest = inside(hub).call(ReadSnapshot(0, after=page.next))
    assert (rest.table.num_rows, rest.next) == (17, None)


@pytest.mark.parametrize("filed", [False, True])
def test_a_page_may_be_cut_behind_any_of_its_messages(hub: Hub, filed: bool) -> None:
    hub.producer.send([letter(n, NAMES[n % 4], kind=f"k{n % 3}") for n in range(1, 31)])
    if filed:
        hub.file()
    whole = inside(hub).call(ReadSnapshot(0))
    assert whole.next is None
    assert whole.after is not None
    rows = whole.table.to_pylist()
    for count in range(1, len(rows)):
        assert inside(hub).call(ReadSnapshot(0, after=whole.after(count))).table.to_pylist() == rows[count:]


def test_an_empty_partition_has_an_empty_snapshot(hub: Hub) -> None:
    page = inside(hub).call(ReadSnapshot(0))
    assert (page.table.num_rows, page.next, page.position) == (0, None, 0)
    assert page.table.schema == MESSAGE_SCHEMA


def test_a_token_of_nobody_is_refused(hub: Hub) -> None:
    hub.producer.send(letters(range(1, 5)))
    token = inside(hub).call(ReadSnapshot(0, limit=1)).next
    assert token is not None
    for bad in ("", "x", token[:-1], token + "A", "é", "_" * 32):
        with pytest.raises(InvalidRequest, match="after"):
            inside(hub).call(ReadSnapshot(0, after=bad))
    with pytest.raises(InvalidRequest, match="colour"):
        inside(hub).call(ReadSnapshot(0, wish=FeedWish(columns=("colour",))))
    with pytest.raises(InvalidRequest, match="limit"):
        inside(hub).call(ReadSnapshot(0, limit=0))


def busy_days(hub: Hub, clock: FakeClock) -> list[tuple[int, list[Row]]]:
    """Everything that can happen to messages, and the snapshot as of the moment after each of it."""
    recipient = hub.recipient("ada")

    def expire() -> None:
        clock.advance(10)
        hub.expire()

    steps: list[Callable[[], object]] = [
        lambda: hub.producer.send([letter(n, NAMES[n % 4], kind=f"k{n % 3}") for n in range(1, 41)]),
        lambda: hub.producer.send([letter(n, expires_at=at(5)) for n in range(41, 45)]),
        lambda: taken(hub, "ben", max_messages=3),
        lambda: recipient.set_aside(id_of(4)),
        lambda: recipient.set_aside(id_of(8)),
        lambda: recipient.set_aside(id_of(16)),
        lambda: recipient.withdraw(id_of(12)),
        hub.file,
        lambda: recipient.release(id_of(8)),
        expire,
        lambda: taken(hub, "ada", max_messages=60),
        lambda: recipient.release(id_of(4)),
        hub.file,
        lambda: hub.producer.send([letter(n, NAMES[n % 4]) for n in range(45, 60)]),
        lambda: hub.recipient("cleo").purge(all=True),
        lambda: taken(hub, "ada"),
        hub.file,
    ]
    seen = [(0, list[Row]())]
    for step in steps:
        step()
        rows, position = snapshot(hub)
        seen.append((position, rows))
    return seen


def test_an_earlier_position_shows_what_was_shown_then(hub: Hub, clock: FakeClock) -> None:
    seen = busy_days(hub, clock)
    assert len({repr(rows) for _, rows in seen}) == len(seen) - 3, "all but filing changes something"
    for position, rows in seen:
        for limit in (3, None):
            assert snapshot(hub, position=position, limit=limit) == (rows, position)


def test_an_earlier_position_is_shown_by_a_hub_that_was_opened_again(open_hub: HubOpener, clock: FakeClock) -> None:
    seen = busy_days(open_hub(settings=ONE), clock)
    hub = open_hub(settings=ONE)
    for position, rows in seen:
        wish = FeedWish(recipients=("ada",))
        assert snapshot(hub, position=position, wish=wish)[0] == [row for row in rows if row["recipient"] == "ada"]


def test_an_earlier_position_does_not_show_what_was_erased_since(hub: Hub) -> None:
    hub.producer.send([letter(n, NAMES[n % 4]) for n in range(1, 13)])
    rows, position = snapshot(hub)
    hub.recipient("ben").erase()
    assert snapshot(hub, position=position)[0] == [row for row in rows if row["recipient"] != "ben"]


def test_an_earlier_position_does_not_show_what_was_forgotten_since(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(n, NAMES[n % 4]) for n in range(1, 13)])
    taken(hub, "ben", max_messages=2)
    rows, position = snapshot(hub)
    hub.producer.send(letter(13))
    clock.advance(RETENTION_SECONDS + 1)
    hub.retain()
    left = [row for row in rows if row["state"] != "collected"]
    assert len(left) == len(rows) - 2
    assert snapshot(hub, position=position)[0] == left


def test_a_position_from_which_changes_are_forgotten_is_gone(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1), letter(2, "ben")])
    hub.recipient("ada").set_aside(id_of(1))
    clock.advance(RETENTION_SECONDS + 1)
    hub.retain()
    with pytest.raises(PositionGone, match="snapshot as of now") as gone:
        snapshot(hub, position=2)
    assert gone.value.details["first"] == 4
    assert states(snapshot(hub, position=3)[0]) == {1: "set_aside", 2: "waiting"}


def test_a_position_must_be_one_that_there_was(hub: Hub) -> None:
    hub.producer.send(letters(range(1, 5)))
    for bad in (-1, 5, 2**63):
        with pytest.raises(InvalidRequest, match="position must be from 0 to 4"):
            inside(hub).call(ReadSnapshot(0, position=bad))
    token = inside(hub).call(ReadSnapshot(0, position=3, limit=1)).next
    hub.producer.send(letter(5))
    page = inside(hub).call(ReadSnapshot(0, after=token, position=3))
    assert (page.position, page.table.num_rows, page.next) == (3, 2, None)
    assert inside(hub).call(ReadSnapshot(0, after=token)).table.equals(page.table)
    with pytest.raises(InvalidRequest, match="at position 3, not 4"):
        inside(hub).call(ReadSnapshot(0, after=token, position=4))
