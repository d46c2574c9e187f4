"""Members killed, stopped longer than their lease, leaving and joining at random, while others publish."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import restante
from restante.calls.groups import ReadNext
from restante.client.surface import sync
from restante.hub.door import in_process_groups
from restante.hub.engine.core import Core
from restante.hub.groups.memory import GroupMemory
from restante.hub.groups.next_pages import look_next
from restante.model.groups.group_answers import NextAnswer
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub, start
from restante.settings import GroupSettings, Settings
from tests.crash.campaign import LONG
from tests.groups.group_world import numbers_in
from tests.groups.member_processes import MemberProcesses
from tests.waiting import wait_until

HEARTBEAT = 0.6  # A machine that stands still for less than a lease is to end none.
LEASE = 3 * HEARTBEAT
PARTITIONS = 8
SETTINGS = Settings(
    partition_count=PARTITIONS,
    housekeeping_seconds=0,
    groups=GroupSettings(heartbeat_seconds=HEARTBEAT, handover_seconds=3),
)
TROUBLES = 40 if LONG else 6
EACH = ("stop", "kill", "join", "leave")
PATIENCE = 90.0

pytestmark = [pytest.mark.kills, pytest.mark.timeout(3_600 if LONG else 300)]


class HandedOut:
    """Looks at each answer of the hub: nothing at or below a position that was written before is in it."""

    def __init__(self, look: Callable[[Core, ReadNext], NextAnswer]) -> None:
        self._look = look
        self.pages = 0
        self.faults: list[str] = []

    def __call__(self, core: Core, call: ReadNext) -> NextAnswer:
        known = core.memory(GroupMemory).groups[call.group]
        before = [row.position for row in known.positions]
        answer = self._look(core, call)
        for page in answer.pages:
            self.pages += 1
            first = page.table["sequence_number"][0].as_py() if page.table.num_rows else page.next
            if first <= before[page.partition]:
                self.faults.append(
                    f"{first} of partition {page.partition}, though {before[page.partition]} was written"
                )
        return answer


@pytest.fixture
def handed_out(monkeypatch: pytest.MonkeyPatch) -> HandedOut:
    watching = HandedOut(look_next)
    monkeypatch.setattr(in_process_groups, "look_next", watching)
    return watching


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data", SETTINGS) as running:
        yield running


@pytest.fixture
def members(served: ServedHub, tmp_path: Path) -> Iterator[MemberProcesses]:
    made = MemberProcesses(served.url, tmp_path / "handled")
    yield made
    made.close()


def publish(hub: sync.Hub, ending: threading.Event) -> None:
    """Of the group's kind and of another, a few at a time, until it is told to end."""
    chance = random.Random(7)
    while not ending.wait(0.01):
        kinds = chance.choices(("k", "other"), k=6)
        hub.producer.send([Message(recipient=f"r{chance.randrange(500)}", kind=kind, data=b"x") for kind in kinds])


def test_every_change_is_handled_in_order_whatever_becomes_of_members(
    served: ServedHub, members: MemberProcesses, handed_out: HandedOut
) -> None:
    chance, ending = random.Random(11), threading.Event()
    with restante.connect(served.url) as hub:
        publishing = threading.Thread(target=publish, args=(hub, ending), daemon=True)
        for _ in range(3):
            members.join()
        publishing.start()
        wait_until(lambda: len(owners(hub)) == 3, "three members have partitions")
        for what in (*EACH, *chance.choices(EACH, k=TROUBLES - len(EACH))):
            trouble(members, what, chance.choice(members.running))
            wait_until(lambda: len(owners(hub)) >= 2, "the living share")
        ending.set()
        publishing.join(PATIENCE)
        wait_until(lambda: status(hub).lag == 0, "all is handled")
        wanted = wanted_numbers(hub)
    members.close()
    check(members.handled(), wanted)
    assert handed_out.faults == []
    assert handed_out.pages


def trouble(members: MemberProcesses, what: str, member: subprocess.Popen[bytes]) -> None:
    if what == "kill":
        members.kill(member)
        members.join()
    elif what == "stop":
        members.stop_for_long(member, 1.5 * LEASE)
    elif what == "leave" and len(members.running) > 2:
        members.end(member)
    else:
        members.join()


def status(hub: sync.Hub) -> Any:
    return hub.group("work").status()


def owners(hub: sync.Hub) -> set[str]:
    if "work" not in [group.group for group in hub.groups()]:
        return set()
    return {own.member_id for own in status(hub).partitions if own.member_id is not None}


def wanted_numbers(hub: sync.Hub) -> dict[int, list[int]]:
    """By partition, the numbers of all changes that the group's filter wants."""
    found: dict[int, list[int]] = {}
    with hub.feed(kinds=["k"]) as feed:
        for page in feed:
            found.setdefault(page.partition, []).extend(numbers_in(page.table))
    return found


def check(handled: dict[tuple[int, int], list[int]], wanted: dict[int, list[int]]) -> None:
    for (partition, generation), numbers in handled.items():
        place = wanted[partition].index(numbers[0])
        expected = wanted[partition][place : place + len(numbers)]
        assert numbers == expected, (
            f"partition {partition}, generation {generation}: in order, none twice, none left out"
        )
    for partition, numbers in wanted.items():
        seen = {number for (own, _), found in handled.items() if own == partition for number in found}
        assert seen == set(numbers), f"partition {partition}: every change is handled"
    assert len(handled) > PARTITIONS, "partitions changed hands"
