"""A group over the processes of several shards and doors, which are killed under load, and members with them.

Every change is handled at least once, in order under each generation; a position is never ahead of what was handled; and when
the trouble ends, nothing is left to do.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import restante
from restante.client.surface import sync
from restante.errors import RestanteError
from restante.model.groups.group_answers import GroupStatus
from restante.model.publishing.message import Message
from tests.cluster.test_processes import Served, served
from tests.crash.campaign import LONG
from tests.groups.group_world import numbers_in
from tests.groups.member_processes import MemberProcesses
from tests.waiting import wait_until

HEARTBEAT = 2.0
KILLS = 40 if LONG else 6
MEMBERS = 3
PATIENCE = 120.0
GROUP = "work"

pytestmark = [pytest.mark.kills, pytest.mark.timeout(3_000 if LONG else 290)]


class InsistentPublisher(threading.Thread):
    """Publishes until it is told to end; what is not answered goes again."""

    def __init__(self, hub: sync.Hub) -> None:
        super().__init__(daemon=True)
        self.ending = threading.Event()
        self.stored = 0
        self._hub = hub

    def has_stored(self, count: int) -> bool:
        return self.stored >= count

    def finish(self) -> None:
        self.ending.set()
        self.join(PATIENCE)
        assert not self.is_alive(), "publishing goes on"

    def run(self) -> None:
        chance = random.Random(7)
        while not self.ending.wait(0.02):
            chosen = [chance.randrange(500) for _ in range(6)]
            messages = [
                Message(recipient=f"r{own}", kind="k", id=f"{self.stored}-{n}", data=b"x")
                for n, own in enumerate(chosen)
            ]
            insist(partial(self._hub.producer.send, messages))
            self.stored += len(messages)


def insist(deed: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            deed()
        except RestanteError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("RESTANTE_GROUPS__HEARTBEAT_SECONDS", str(HEARTBEAT))
    monkeypatch.setenv("RESTANTE_GROUPS__HANDOVER_SECONDS", "3")
    with served(tmp_path / "data", "--shards", "3", "--doors", "2") as running:
        yield running


@pytest.fixture
def members(running: Served, tmp_path: Path) -> Iterator[MemberProcesses]:
    made = MemberProcesses(running.url, tmp_path / "handled", "insistent")
    yield made
    made.close()


def test_whatever_is_killed_each_change_is_handled_and_no_position_is_ahead_of_it(
    running: Served, members: MemberProcesses
) -> None:
    with restante.connect(running.url) as hub:
        publisher = InsistentPublisher(hub)
        for _ in range(MEMBERS):
            members.join()
        publisher.start()
        try:
            seen = kill_often(running, hub, members, publisher)
        finally:
            publisher.finish()
        wait_until(lambda: lag(hub) == 0, "all is handled")
        seen.append(looked(hub, members))
        wanted = wanted_numbers(hub)
    check_handled(members.handled(), wanted)
    for positions, handled in seen:
        check_positions(positions, handled, wanted)
    assert sum(map(len, wanted.values())) == publisher.stored, "nothing was stored twice"


def kill_often(
    running: Served, hub: sync.Hub, members: MemberProcesses, publisher: InsistentPublisher
) -> list[tuple[dict[int, int], dict[int, set[int]]]]:
    """Shards, doors and members in turn; gives how far the group was after each kill, and what was handled by then."""
    chance, seen = random.Random(23), []
    wait_until(lambda: holders(hub) >= 2, "members share")
    for number in range(KILLS):
        if number % 3 == 2:
            members.kill(chance.choice(members.running))
            members.join()
        else:
            kill_process(running, number // 3 * 2 + number % 3)
        wait_until(partial(publisher.has_stored, publisher.stored + 30), "publishing goes on")
        wait_until(lambda: holders(hub) >= 1, "somebody reads")
        seen.append(looked(hub, members))
    return seen


def kill_process(running: Served, turn: int) -> None:
    """A shard or a door: one after the other, as they were started."""
    children = running.children()
    with suppress(ProcessLookupError):
        os.kill(children[turn % len(children)], signal.SIGKILL)


def status(hub: sync.Hub) -> GroupStatus | None:
    """None while somebody is away."""
    try:
        return hub.group(GROUP).status()
    except RestanteError:
        return None


def holders(hub: sync.Hub) -> int:
    found = status(hub)
    return 0 if found is None else len({own.member_id for own in found.partitions if own.member_id is not None})


def lag(hub: sync.Hub) -> int:
    found = status(hub)
    return -1 if found is None else found.lag


def looked(hub: sync.Hub, members: MemberProcesses) -> tuple[dict[int, int], dict[int, set[int]]]:
    """Positions first, then what was handled: what was done with by then was handled before."""
    found = status(hub)
    positions = {} if found is None else {own.partition: own.position for own in found.partitions}
    handled: dict[int, set[int]] = defaultdict(set)
    for (partition, _), numbers in members.handled().items():
        handled[partition].update(numbers)
    return positions, handled


def check_positions(positions: dict[int, int], handled: dict[int, set[int]], wanted: dict[int, list[int]]) -> None:
    for partition, position in positions.items():
        ahead = {number for number in wanted[partition] if number <= position} - handled[partition]
        assert not ahead, f"partition {partition} is at {position}, and {sorted(ahead)[:5]} was not handled"


def wanted_numbers(hub: sync.Hub) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    with hub.feed(kinds=["k"]) as feed:
        for page in feed:
            found[page.partition] += numbers_in(page.table)
    return found


def check_handled(handled: dict[tuple[int, int], list[int]], wanted: dict[int, list[int]]) -> None:
    for (partition, generation), numbers in handled.items():
        assert numbers == sorted(set(numbers)), f"partition {partition}, generation {generation}: in order, none twice"
    for partition, numbers in wanted.items():
        seen = {number for (own, _), found in handled.items() if own == partition for number in found}
        assert set(numbers) <= seen, f"partition {partition}: every change is handled"
