"""Reading along through the surface of programs that wait, in process and over a real socket."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pyarrow as pa
import pytest

import restante
from restante import errors
from restante.client.feed.feed_pages import FeedPage
from restante.client.feed.feed_sync import Feed
from restante.client.surface import sync
from restante.model.publishing.message import Message
from tests.client.conftest import SETTINGS
from tests.client.proxy import CuttingProxy

SECONDS = 20.0


def publish(hub: sync.Hub, count: int, kind: str = "default", origin: str = "default") -> None:
    """So many messages to many recipients, a few at a time: both partitions get some."""
    for start in range(0, count, 10):
        places = range(start, min(start + 10, count))
        hub.producer.send([Message(recipient=f"r{place}", data=place, kind=kind, origin=origin) for place in places])


def rows(page: FeedPage) -> list[tuple[int, int, str]]:
    """Each change as partition, number and what it is."""
    numbers, changes = page.table["sequence_number"].to_pylist(), page.table["change"].to_pylist()
    return [(page.partition, int(number or 0), str(change)) for number, change in zip(numbers, changes, strict=True)]


def all_of(pages: Iterable[FeedPage]) -> list[tuple[int, int, str]]:
    return sorted(row for page in pages for row in rows(page))


def ends(hub: sync.Hub) -> dict[int, int]:
    return {status.partition: status.visible_sequence for status in hub.partitions()}


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "restante-feed"]


def test_every_change_comes_once_and_in_order(either: sync.Hub) -> None:
    publish(either, 40)
    bundle = either.recipient("r0").peek()
    assert bundle is not None
    bundle.dequeue()
    seen: dict[int, list[int]] = defaultdict(list)
    feed = either.feed(limit=7)
    for page in feed:
        seen[page.partition] += [number for _, number, _ in rows(page)]
        assert (page.start, page.end, page.lag) == (1, ends(either)[page.partition], page.end - page.position)
    assert seen == {partition: list(range(1, end + 1)) for partition, end in ends(either).items()}
    assert feed.positions == ends(either)
    assert [row[2] for row in all_of(either.feed())].count("collected") == 1
    assert readers() == []


def test_positions_move_when_the_next_page_is_asked_for(either: sync.Hub) -> None:
    publish(either, 40)
    feed = either.feed(0, limit=3)
    pages = iter(feed)
    assert feed.positions == {}
    first = next(pages)
    assert feed.positions == {}
    second = next(pages)
    assert feed.positions == {0: first.position} == {0: 3}
    assert second.position == 6


def test_whoever_breaks_off_and_goes_on_from_the_positions_sees_each_change_once(either: sync.Hub) -> None:
    publish(either, 100)
    done: list[tuple[int, int, str]] = []
    positions: dict[int, int] | None = None
    for _ in range(100):
        feed = either.feed(after=positions, limit=4)
        finished = list(_until_crash(feed, pages=4))
        done += [row for page in finished for row in rows(page)]
        positions = feed.positions
        if positions == ends(either):
            break
        publish(either, 10) if len(done) < 60 else None
    assert sorted(done) == all_of(either.feed())
    assert len(done) == len(set(done))


def _until_crash(feed: Feed, *, pages: int) -> Iterator[FeedPage]:
    """The pages that were finished before the reader crashed in the midst of one."""
    held: FeedPage | None = None
    for number, page in enumerate(feed):
        if held is not None:
            yield held
        if number == pages:
            return
        held = page
    if held is not None:
        yield held


def test_the_same_feed_goes_on_where_it_was_left(either: sync.Hub) -> None:
    publish(either, 40)
    feed = either.feed(1, limit=5)
    first = next(iter(feed))
    again = next(iter(feed))
    assert rows(first) == rows(again)
    assert all_of(feed) == all_of(either.feed(1))
    assert list(feed) == []
    publish(either, 20)
    assert len(all_of(feed)) > 0


def test_iterating_anew_ends_an_earlier_iteration(either: sync.Hub) -> None:
    publish(either, 10)
    with either.feed(0, limit=1) as feed:
        earlier, later = iter(feed), iter(feed)
        assert rows(next(earlier)) == rows(next(later))
        with pytest.raises(errors.InvalidOperation):
            next(earlier)
        assert feed.positions == {}
        next(later)
        assert len(feed.positions) == 1


def test_reading_ends_where_the_partition_ended_when_it_began(either: sync.Hub) -> None:
    publish(either, 20)
    before = ends(either)[0]
    pages = 0
    for _ in either.feed(0, limit=1):
        pages += 1
        publish(either, 10)
    assert pages == before
    assert ends(either)[0] > before


def test_only_what_is_wished_for_is_read(either: sync.Hub) -> None:
    publish(either, 20, kind="a")
    publish(either, 20, kind="b", origin="o")
    table = pa.concat_tables([page.table for page in either.feed(kinds=["b"], columns=["kind", "origin"])])
    assert table.column_names == ["sequence_number", "change", "origin", "kind"]
    assert (set(table["kind"].to_pylist()), set(table["origin"].to_pylist()), table.num_rows) == ({"b"}, {"o"}, 20)
    feed = either.feed(recipients=["r1", "r2"], origins=["default"])
    assert len(all_of(feed)) == 2
    assert feed.positions == ends(either)
    pages = list(either.feed(kinds=["none"]))
    assert [page.table.num_rows for page in pages] == [0] * len(pages)
    assert {page.partition: page.position for page in pages} == ends(either)


def test_a_feed_of_nothing_ends_at_once_with_its_positions(either: sync.Hub) -> None:
    feed = either.feed()
    assert list(feed) == []
    assert feed.positions == {0: 0, 1: 0}
    assert list(either.feed([])) == []


@pytest.mark.parametrize("partition", [2, 99])
def test_a_partition_that_is_not_there_is_an_error(either: sync.Hub, partition: int) -> None:
    with pytest.raises(errors.PartitionUnknown):
        list(either.feed(partition))
    assert readers() == []


@pytest.mark.parametrize(
    "wrong", [{"columns": ["colour"]}, {"limit": 0}, {"reader": " "}, {"reader": "x" * 65}], ids=str
)
def test_what_the_hub_refuses_is_raised_to_the_reader(either: sync.Hub, wrong: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidRequest):
        list(either.feed(**wrong))  # type: ignore[arg-type]


class Follower:
    """Follows a feed in a thread; what it has read can be waited for."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._rows: SimpleQueue[tuple[int, int, str] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        for page in self.feed:
            for row in rows(page):
                self._rows.put(row)
        self._rows.put(None)

    def take(self, count: int) -> list[tuple[int, int, str]]:
        taken = [self._rows.get(timeout=SECONDS) for _ in range(count)]
        assert None not in taken, "it has not ended"
        return sorted(row for row in taken if row is not None)

    def close(self) -> None:
        self.feed.close()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def ended(self) -> bool:
        return self._rows.get(timeout=SECONDS) is None


def test_a_follower_sees_what_comes_at_every_partition(either: sync.Hub) -> None:
    publish(either, 20)
    with closing(Follower(either.feed(follow=True, limit=6))) as follower:
        before = follower.take(20)
        assert before == all_of(either.feed())
        for place in range(30):
            either.producer.send(Message(recipient=f"r{place}", data=place))
            (one,) = follower.take(1)
            assert one[2] == "published"
        publish(either, 200)
        follower.take(200)
    assert follower.ended()
    assert readers() == []


def test_a_follower_is_closed_while_it_waits(either: sync.Hub) -> None:
    follower = Follower(either.feed(follow=True))
    publish(either, 10)
    follower.take(10)
    follower.close()
    assert follower.ended()
    assert follower.feed.positions == ends(either)
    assert readers() == []


def test_leaving_the_statement_ends_all_reading(either: sync.Hub) -> None:
    publish(either, 20)
    with either.feed(follow=True, limit=1) as feed:
        pages = iter(feed)
        next(pages)
        assert len(readers()) == 2
    assert readers() == []
    assert list(pages) == []


def test_a_closed_feed_may_be_closed_again(either: sync.Hub) -> None:
    feed = either.feed(follow=True)
    feed.close()
    with feed:
        pass
    assert readers() == []


def test_a_follower_hears_that_the_hub_was_closed(tmp_path: Path) -> None:
    heard: SimpleQueue[Exception | None] = SimpleQueue()
    hub = restante.open(tmp_path / "data", settings=SETTINGS)
    publish(hub, 10)
    started = threading.Event()

    def follow() -> None:
        try:
            for _ in hub.feed(follow=True):
                started.set()
            heard.put(None)
        except errors.RestanteError as error:
            heard.put(error)

    thread = threading.Thread(target=follow)
    thread.start()
    assert started.wait(SECONDS)
    hub.close()
    assert isinstance(heard.get(timeout=SECONDS), errors.Unavailable)
    thread.join(SECONDS)
    assert readers() == []


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_connections_that_are_cut_lose_and_double_nothing(
    hub: sync.Hub, proxy: CuttingProxy, behind: sync.Hub, before: bool
) -> None:
    publish(hub, 60)
    cut = proxy.cut_before if before else proxy.cut_after
    cut()
    seen: list[tuple[int, int, str]] = []
    for page in behind.feed(limit=5):
        seen += rows(page)
        if (
            proxy.cuts < 5
        ):  # Partitions are read side by side: all cuts may hit one of them, and that is tried six times.
            cut()
    assert sorted(seen) == all_of(hub.feed())
    assert len(seen) == len(set(seen)) == 60
    assert proxy.cuts >= 3


def test_a_position_that_retention_has_passed_is_gone(tmp_path: Path) -> None:
    now = [1_790_000_000_000_000]
    settings = restante.Settings(partition_count=1, housekeeping_seconds=0, filing=False)
    with restante.open(tmp_path / "data", settings=settings, clock=lambda: now[0]) as hub:
        publish(hub, 10)
        for place in range(10):
            for bundle in hub.recipient(f"r{place}").bundles(idle=0):
                bundle.dequeue()
        now[0] += 3_650 * 86_400_000_000
        hub.file()
        hub.retain()
        publish(hub, 10)
        with pytest.raises(errors.PositionGone) as caught:
            list(hub.feed(after={0: 0}))
        first = caught.value.details["first"]
        assert isinstance(first, int)
        feed = hub.feed()
        assert min(all_of(feed))[1] >= first > 1
        assert {page.start for page in hub.feed(after={0: first - 1})} == {first}


def test_a_snapshot_and_the_feed_from_there_miss_nothing(either: sync.Hub) -> None:
    publish(either, 60)
    snapshot = either.snapshot(limit=7)
    pages = list(snapshot)
    assert snapshot.positions == ends(either)
    assert {page.partition: page.position for page in pages} == snapshot.positions
    assert sum(page.table.num_rows for page in pages) == 60
    assert max(page.table.num_rows for page in pages) <= 7
    publish(either, 20)
    assert len(all_of(either.feed(after=snapshot.positions))) == 20


def test_positions_of_a_snapshot_are_told_when_a_partition_is_done_with(either: sync.Hub) -> None:
    publish(either, 60)
    snapshot = either.snapshot(limit=100)
    pages = iter(snapshot)
    first = next(pages)
    assert snapshot.positions == {}
    next(pages)
    assert snapshot.positions == {0: first.position}


def test_a_snapshot_may_be_of_a_part(either: sync.Hub) -> None:
    publish(either, 20, kind="a")
    publish(either, 20, kind="b")
    (page,) = either.snapshot(1, kinds=["b"], columns=["recipient", "kind", "state"])
    assert set(page.table.column_names) >= {"recipient", "kind", "state"}
    assert "data" not in page.table.column_names
    assert set(page.table["kind"].to_pylist()) == {"b"}
    with pytest.raises(errors.PartitionUnknown):
        list(either.snapshot([7]))
    with pytest.raises(errors.InvalidRequest):
        list(either.snapshot(columns=["colour"]))


def test_a_snapshot_may_be_of_earlier_positions(either: sync.Hub) -> None:
    publish(either, 60)
    first = either.snapshot(limit=7)
    pages = list(first)
    publish(either, 20)
    again = either.snapshot(positions=first.positions, limit=7)
    for _ in range(2):
        assert [page.table for page in again] == [page.table for page in pages]
        assert again.positions == first.positions
    mixed = either.snapshot(positions={0: first.positions[0]})
    assert sum(page.table.num_rows for page in mixed) == 80 - (ends(either)[0] - first.positions[0])
    assert mixed.positions == {**ends(either), 0: first.positions[0]}


def test_positions_of_a_snapshot_that_cannot_be_are_refused(either: sync.Hub) -> None:
    publish(either, 5)
    with pytest.raises(errors.InvalidRequest, match="position must be from 0 to"):
        list(either.snapshot(positions={0: 99}))
    with pytest.raises(errors.InvalidRequest, match="positions names partition 99"):
        list(either.snapshot(positions={99: 0}))
    with pytest.raises(errors.InvalidRequest, match=r"keys of positions.*JSON"):
        either.snapshot(positions={"0": 3})  # type: ignore[dict-item]
    with pytest.raises(errors.InvalidRequest, match=r"positions must be a dict .* as snapshot\.positions is"):
        either.snapshot(positions=3)  # type: ignore[arg-type]


def test_positions_that_went_through_json_are_refused_with_a_hint(either: sync.Hub) -> None:
    with pytest.raises(errors.InvalidRequest, match="JSON"):
        either.feed(after={"0": 3})  # type: ignore[dict-item]
