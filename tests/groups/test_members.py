"""Programs as members of a group: in process and over the network, waiting and asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import restante
import restante.aio as aio_door
from restante.calls.groups import DefineGroup, JoinGroup
from restante.client.groups import groups_async
from restante.client.groups.groups_sync import Group, SharedPage
from restante.client.surface import asynchronous, sync
from restante.errors import (
    GenerationStale,
    GroupConflict,
    GroupUnknown,
    InvalidRequest,
    PositionAhead,
)
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub, start
from restante.settings import GroupSettings, Settings
from tests.cluster.several import SeveralHub
from tests.groups.group_world import numbers_in
from tests.waiting import wait_until

PARTITIONS = 4
SETTINGS = Settings(
    partition_count=PARTITIONS,
    housekeeping_seconds=0,
    filing=False,
    groups=GroupSettings(heartbeat_seconds=2, handover_seconds=60),
)
"""A lease is three heartbeats: a machine that has too much to do must not end one while a test runs."""
COUNT = 40


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    with start(tmp_path_factory.mktemp("groups") / "data", SETTINGS) as running:
        with restante.connect(running.url) as hub:
            publish(hub, 0)
        yield running


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralHub]:
    running = SeveralHub(tmp_path_factory.mktemp("groups") / "data", SETTINGS)
    with restante.connect(running.url) as hub:
        publish(hub, 0)
    yield running
    running.stop()


@pytest.fixture(params=["in process", "served", "doors"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def url_of(place: str, request: pytest.FixtureRequest) -> str | None:
    """Of the hub that is served there; None: it is in this process."""
    fixture = {"served": "served", "doors": "several"}.get(place)
    return None if fixture is None else str(request.getfixturevalue(fixture).url)


@pytest.fixture
def hub(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sync.Hub]:
    url = url_of(place, request)
    if url is not None:
        with restante.connect(url) as connected:
            yield connected
    else:
        with restante.open(tmp_path / "here", settings=SETTINGS) as opened:
            publish(opened, 0)
            yield opened


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"g{abs(hash(request.node.nodeid))}"


def publish(hub: sync.Hub, first: int, *, kind: str = "k") -> None:
    hub.producer.send([Message(recipient=f"r{n}", kind=kind, data=str(n)) for n in range(first, first + COUNT)])


def stored(hub: sync.Hub) -> int:
    return sum(own.visible_sequence for own in hub.partitions())


@asynccontextmanager
async def aio(hub: sync.Hub, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[asynchronous.Hub]:
    """The same hub for an asynchronous program; in process, one of its own."""
    url = url_of(request.getfixturevalue("place"), request)
    if url is not None:
        async with aio_door.connect(url) as other:
            yield other
    else:
        async with aio_door.open(folder / "there", settings=SETTINGS) as other:
            await other.producer.send([Message(recipient=f"r{n}", kind="k", data=str(n)) for n in range(COUNT)])
            yield other


def test_a_loop_gets_all_and_what_it_passed_is_done_with(hub: sync.Hub, name: str) -> None:
    seen: Counter[tuple[int, int]] = Counter()
    group, total = hub.group(name), stored(hub)
    for page in group.pages():
        numbers = numbers_in(page.table)
        assert numbers == sorted(numbers)
        assert page.lag == page.end - page.position
        seen.update((page.partition, number) for number in numbers)
        if len(seen) >= total:
            page.done()
            break
    assert set(seen.values()) == {1}
    status = group.status()
    assert (status.lag, status.members) == (0, ()), "who left the loop has left the group"


def test_a_loop_that_is_left_by_an_error_leaves_its_page_undone(hub: sync.Hub, name: str) -> None:
    group, passed = hub.group(name, limit=5), 0

    def work() -> None:
        nonlocal passed
        for page in group.pages():
            passed += page.table.num_rows
            if passed > 10:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    left = group.status().lag
    assert left > stored(hub) - passed
    again: set[tuple[int, int]] = set()
    for page in group.pages():
        again |= {(page.partition, number) for number in numbers_in(page.table)}
        if len(again) >= left:
            page.done()
            break
    assert group.status().lag == 0


def test_a_group_reads_what_its_filter_says(hub: sync.Hub, name: str) -> None:
    group = hub.group(name, kinds=["other"], start="end")
    ready, found = threading.Event(), []

    def follow() -> None:
        for page in group.pages():
            found.extend(page.table["kind"].to_pylist())
            if len(found) >= COUNT:
                page.done()
                ready.set()
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    wait_until(lambda: _there(hub, name))
    publish(hub, 1_000, kind="k")
    publish(hub, 2_000, kind="other")
    ready.wait()
    thread.join()
    assert set(found) == {"other"}
    with pytest.raises(GroupConflict):
        next(hub.group(name, kinds=["another"]).pages())


def _there(hub: sync.Hub, name: str) -> bool:
    try:
        return bool(hub.group(name).status().members)
    except GroupUnknown:
        return False


def test_run_handles_partitions_side_by_side_and_ends_with_what_the_function_raises(hub: sync.Hub, name: str) -> None:
    seen: Counter[tuple[int, int]] = Counter()
    total = stored(hub)
    together, lock = threading.Barrier(2), threading.Lock()

    class Enough(Exception):
        pass

    def handle(page: object) -> None:
        assert isinstance(page, SharedPage)
        if together.n_waiting or not seen:
            together.wait()  # which ends only if two are handled at a time
        with lock:
            seen.update((page.partition, number) for number in numbers_in(page.table))
            if len(seen) >= total:
                raise Enough

    with pytest.raises(Enough):
        hub.group(name).run(handle, partitions_at_once=2)
    assert set(seen.values()) == {1}
    with pytest.raises(InvalidRequest):
        hub.group(name).run(handle, partitions_at_once=0)


def test_two_members_share_and_the_second_takes_over_when_the_first_leaves(hub: sync.Hub, name: str) -> None:
    first, second = hub.group(name, member="one"), hub.group(name, member="two")
    seen: dict[str, list[int]] = {"one": [], "two": []}

    def work(group: Group) -> None:
        for page in group.pages():
            seen[group.member].append(page.partition)

    threads = [threading.Thread(target=work, args=(own,), daemon=True) for own in (first, second)]
    for thread in threads:
        thread.start()
    wait_until(lambda: _there(hub, name))
    wait_until(lambda: sorted(len(own.partitions) for own in first.status().members) == [2, 2])
    wait_until(lambda: first._crews and second._crews, "both know that they are members")
    first.close()
    wait_until(lambda: [len(own.partitions) for own in second.status().members] == [4])
    publish(hub, 5_000)
    wait_until(lambda: not second.status().lag)
    second.close()
    for thread in threads:
        thread.join()
    assert set(seen["two"]) == set(range(PARTITIONS))


def test_a_page_of_a_partition_that_was_reset_cannot_be_written(hub: sync.Hub, name: str) -> None:
    group = hub.group(name)
    for page in group.pages():
        group.reset(page.partition, "beginning")
        with pytest.raises(GenerationStale):
            page.done()
        break
    with pytest.raises(PositionAhead):
        group.reset(0, 10_000)
    with pytest.raises(InvalidRequest):
        group.reset(0, "yesterday")


def test_a_member_whose_name_another_takes_stops_and_joins_again(hub: sync.Hub, name: str) -> None:
    group, joined = hub.group(name, member="one"), threading.Event()
    generations: list[int] = []
    for page in group.pages():
        generations.append(page.generation)
        if len(generations) == 1:
            hub._link.call(JoinGroup(name, "one"))
            group.reset(page.partition, "beginning")
        elif page.generation > generations[0] + 1:
            joined.set()
            break
    assert joined.is_set()


def test_a_paused_group_waits_and_goes_on(hub: sync.Hub, name: str) -> None:
    group, found = hub.group(name, member="one"), threading.Event()

    def follow() -> None:
        for _ in group.pages():
            found.set()

    thread = threading.Thread(target=follow, daemon=True)
    hub._link.call(DefineGroup(name))
    group.pause()
    thread.start()
    wait_until(lambda: bool(group.status().members))
    assert not found.wait(0.3)
    group.resume()
    found.wait()
    group.close()
    thread.join()
    assert name in [own.group for own in hub.groups()]
    group.delete()
    with pytest.raises(GroupUnknown):
        group.status()


def test_asynchronous_programs_loop_and_run(
    hub: sync.Hub, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async def work() -> None:
        async with aio(hub, request, tmp_path) as other:
            seen: set[tuple[int, int]] = set()
            total = sum(own.visible_sequence for own in await other.partitions())
            async with other.group(name) as group:
                async for page in group.pages():
                    seen |= {(page.partition, number) for number in numbers_in(page.table)}
                    if len(seen) >= total:
                        await page.done()
                        break
            assert (await group.status()).lag == 0
            assert [own.group async for own in other.groups() if own.group == name] == [name]
            await _run_all(other, name, total)

    asyncio.run(work())


async def _run_all(hub: asynchronous.Hub, name: str, total: int) -> None:
    group = hub.group(name)
    for partition in range(PARTITIONS):
        await group.reset(partition, 0)
    seen: Counter[tuple[int, int]] = Counter()

    async def handle(page: groups_async.SharedPage) -> None:
        seen.update((page.partition, number) for number in numbers_in(page.table))
        if len(seen) >= total:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await group.run(handle, partitions_at_once=3)
    assert set(seen.values()) == {1}
    running = asyncio.create_task(group.run(lambda page: None))
    async with asyncio.timeout(120):
        # Nobody here knows when the hub has the member, and the member that it is one.
        while not ((await group.status()).members and group._crews):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await group.status()).members == ()


def test_a_group_that_is_closed_while_its_member_joins_runs_no_further(
    hub: sync.Hub, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A close that came before the member was there was forgotten, and the program waited for ever."""

    async def story() -> None:
        async with aio(hub, request, tmp_path) as opened:
            group = opened.group(name)
            running = asyncio.create_task(group.run(lambda _: None))
            await asyncio.sleep(0)  # It has asked to join.
            await group.close()
            await asyncio.wait_for(running, 60)

    asyncio.run(story())
