"""Members of a group while shards end and come back, the home of groups among them: nothing is missed, nothing out of turn."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import pytest

import restante
from restante.client.groups.groups_sync import Group
from restante.client.surface import sync
from restante.errors import RestanteError
from restante.hub.engine import procedures
from restante.hub.engine.plan import RequestDraft
from restante.hub.groups import group_rows, home, members
from restante.hub.groups.home_memory import HomeMemory
from restante.hub.groups.memory import GroupMemory
from restante.model.groups.group import GROUPS_HOME
from restante.model.publishing.message import Message
from restante.model.shards.group_parts import PlacedPosition
from restante.settings import GroupSettings, Settings
from tests.cluster.several import SeveralHub
from tests.groups.group_world import SeveralWorld, numbers_in
from tests.waiting import wait_until

PARTITIONS = 8
SETTINGS = Settings(
    partition_count=PARTITIONS,
    housekeeping_seconds=0,
    filing=False,
    groups=GroupSettings(heartbeat_seconds=1, handover_seconds=5),
)
COUNT = 40


class Reader:
    """A member in a thread, which joins again whatever ended it, until it is told to leave."""

    def __init__(self, url: str, name: str) -> None:
        self.seen: dict[tuple[int, int], list[int]] = defaultdict(list)
        """By partition and generation, the numbers in the order in which they were handed out."""
        self._group: Group | None = None
        self._url, self._name, self._leaving = url, name, threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        with restante.connect(self._url) as hub:
            while not self._leaving.is_set():
                try:
                    self._group = hub.group("g", member=self._name)
                    self._read(self._group)
                except RestanteError:
                    self._leaving.wait(0.1)

    def _read(self, group: Group) -> None:
        with group:
            for page in group.pages():
                self.seen[page.partition, page.generation] += numbers_in(page.table)

    def leave(self) -> None:
        self._leaving.set()
        if self._group is not None:
            self._group.close()
        self._thread.join(120)
        assert not self._thread.is_alive()


@pytest.mark.wire
def test_members_go_on_while_shards_end_and_come_back(tmp_path: Path) -> None:
    several = SeveralHub(tmp_path / "data", SETTINGS)
    with restante.connect(several.url) as hub:
        readers = [Reader(several.url, name) for name in ("one", "two")]
        for turn, shard in enumerate((1, 0, 3, 0)):
            _publish(hub, turn)
            several.stop_shard(shard)
            if turn == 1:
                readers.append(Reader(several.url, "three"))
            several.start_shard(shard)
            _publish(hub, turn + 100)
        wait_until(lambda: _lag(hub) == 0, "all is done with")
        ends = {own.partition: own.visible_sequence for own in hub.partitions()}
        for reader in readers:
            reader.leave()
    several.stop()
    _check(readers, ends)


def _publish(hub: sync.Hub, turn: int) -> None:
    hub.producer.send([Message(recipient=f"r{n}", id=f"{turn}-{n}", data=n) for n in range(COUNT)])


def _lag(hub: sync.Hub) -> int:
    try:
        return hub.group("g").status().lag
    except RestanteError:
        return -1


def _check(readers: list[Reader], ends: dict[int, int]) -> None:
    """At least once, in order, and no generation anything twice."""
    found: dict[int, set[int]] = defaultdict(set)
    generations: dict[tuple[int, int], list[int]] = {}
    for reader in readers:
        for place, numbers in reader.seen.items():
            assert place not in generations, "a generation is one member's"
            generations[place] = numbers
            assert numbers == sorted(set(numbers)), f"out of turn, or twice, in {place}"
            found[place[0]] |= set(numbers)
    for partition, end in ends.items():
        assert set(range(1, end + 1)) <= found[partition], f"something of partition {partition} was not handed out"


def test_what_a_join_moves_is_not_moved_again_by_a_look_at_the_shards_in_the_same_commit(tmp_path: Path) -> None:
    """Moved twice, a partition has another generation than the member was told with its join."""
    world = SeveralWorld(tmp_path / "data")
    world.define()
    core = world.core_of(GROUPS_HOME)

    def join_and_look(draft: RequestDraft) -> int:
        members._plan_join(core, "g", "m", draft)
        home._plan_agree(core, ("g",), draft)
        return sum(isinstance(one, partial) and one.func is group_rows._set_due for one in draft.applies)

    assert core.commit(join_and_look) == 1
    world.hub.close()


@pytest.mark.parametrize("moved", range(4))
def test_a_look_at_the_shards_between_a_move_and_its_answer_moves_nothing_again(tmp_path: Path, moved: int) -> None:
    """The look hears of the new generation before the answer comes: so the move is not due any more, in home's own partition or another."""
    world = SeveralWorld(tmp_path / "data")
    world.define()
    core = world.core_of(GROUPS_HOME)
    core.commit(partial(members._plan_join, core, "g", "m"))
    moves = home.moving(core, "g")
    step = next(moves)
    generations: dict[int, int] = {}
    with suppress(StopIteration):
        while True:
            rows = cast("tuple[PlacedPosition, ...]", procedures._answered(core, step))
            generations |= {placed.partition: placed.row.generation for placed in rows}
            if moved in generations:
                members.keep_shard(core)
            step = moves.send(rows)
    now = {p: world.core_of(p).memory(GroupMemory).groups["g"].positions[p].generation for p in generations}
    assert now == generations
    assert not core.memory(HomeMemory).due
    world.hub.close()
