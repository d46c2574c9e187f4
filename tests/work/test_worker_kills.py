"""Faults under load: hub and workers killed at every step, stopped for long, a database gone, poison that cannot be written.

Whatever happens, no action is lost, none overtakes another of its thing, and none counts as done that was not.
"""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import restante
from restante.client.surface import sync
from restante.client.transport.options import Retrying
from restante.model.actions.action_answers import ActionStatus
from restante.model.actions.wanted_action import WantedAction
from restante.server.serve import start
from tests.crash.campaign import LONG, Crowd
from tests.crash.served import Served
from tests.waiting import wait_until
from tests.work.dying_worker import STEPS
from tests.work.ledger_app import ledger, make_ledger
from tests.work.workers import HEARTBEAT, SETTINGS, WorkerHere, ended

pytestmark = [pytest.mark.kills, pytest.mark.timeout(3_600 if LONG else 300)]

THINGS = tuple(f"thing {number}" for number in range(6))
LEASE = 3 * HEARTBEAT
PATIENT = Retrying(times=10_000, seconds=240, first_pause=0.01, longest_pause=0.2)
TROUBLES = 60 if LONG else 8


class Workers(Crowd):
    """Processes that run the app of the ledger."""

    def __init__(self, url: str, file: Path) -> None:
        super().__init__(LEDGER=str(file), RESTANTE_SERVER__LOG_LEVEL="error")
        self._url = url

    def start(self) -> subprocess.Popen[bytes]:
        return self.begin("-m", "restante", "work", "tests.work.ledger_app:app", "--hub", self._url)

    def start_dying(self, step: str, count: int) -> subprocess.Popen[bytes]:
        return self.begin("-m", "tests.work.dying_worker", self._url, step, str(count))


class Load(threading.Thread):
    """Asks for one turn after another of each thing, until it is told to end."""

    def __init__(self, url: str, *, most: int = 1_000_000) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._most = most
        self.ending = threading.Event()
        self.accepted: dict[str, list[str]] = {thing: [] for thing in THINGS}
        """By thing, the ids of its actions in the order of their turns."""
        self.start()

    def run(self) -> None:
        with restante.connect(self._url, retries=PATIENT) as hub:
            turn = 0
            while turn < self._most and not self.ending.wait(0.005):
                wanted = [
                    WantedAction(action="take_turn", concerns=thing, data=b'{"turn":%d}' % turn) for thing in THINGS
                ]
                for each in hub.act_all(wanted):
                    self.accepted[each.concerns].append(each.id)
                turn += 1

    def end(self) -> None:
        self.ending.set()
        self.join()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    make_ledger(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    settings = {"partition_count": 4, "groups__heartbeat_seconds": HEARTBEAT, "groups__handover_seconds": 3}
    with Served(tmp_path / "data", **settings) as running:
        yield running


@pytest.fixture
def workers(served: Served, file: Path) -> Iterator[Workers]:
    made = Workers(served.url, file)
    yield made
    made.close()


def check(hub: sync.Hub, load: Load, file: Path) -> None:
    """Every accepted action is done, once, in order; and the hub says so."""
    for thing, ids in load.accepted.items():
        ended(hub, hub.outcome(ids[-1], concerns=thing))
        states = {hub.outcome(each, concerns=thing).state.value for each in ids}
        assert states == {"done"}
    assert ledger(file) == {thing: list(range(len(ids))) for thing, ids in load.accepted.items()}


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_killed_at_any_step_loses_nothing_and_does_nothing_twice(
    step: str, served: Served, workers: Workers, file: Path
) -> None:
    with restante.connect(served.url, retries=PATIENT) as hub:
        load = Load(served.url, most=15)
        for count in (1,) if step in ("joined", "read") else (1, 4):
            dying = workers.start_dying(step, count)
            assert dying.wait() == -signal.SIGKILL
            workers.running.remove(dying)
        load.end()
        workers.start()
        check(hub, load, file)


def test_an_action_that_ends_its_worker_at_once_becomes_poison(served: Served, workers: Workers) -> None:
    """No heartbeat comes while it runs: the worker names it to the hub before it begins what others may have died of."""
    with restante.connect(served.url, retries=PATIENT) as hub:
        killer = hub.act("end_worker", concerns="a")
        beside = [hub.act("take_turn", concerns=thing, data={"turn": 0}) for thing in THINGS]
        after = hub.act("take_turn", concerns="a", data={"turn": 0})
        for death in range(1, 4):
            assert workers.start().wait() == -signal.SIGKILL
            workers.running.pop()
            wait_until(lambda death=death: hub.outcome(killer.id).deaths == death, "the death is counted")  # type: ignore[misc]
        status = hub.outcome(killer.id)
        assert (status.state.value, status.problem and status.problem.code) == ("poisoned", "worker_died")
        workers.start()
        wait_until(lambda: hub.outcome(after.id).is_final, "what follows poison is done")
        assert hub.outcome(after.id).state.value == "done"
        wait_until(lambda: all(hub.outcome(each.id).is_final for each in beside), "what ran beside it is done")
        found = [hub.outcome(each.id) for each in beside]
        assert {each.state.value for each in found} == {"done"}, "what ran beside the cause is not poisoned with it"


def test_an_action_that_comes_to_a_worker_and_ends_it_at_once_counts_from_the_first_death(
    served: Served, workers: Workers
) -> None:
    """The worker has its partitions, and no heartbeat has named the action when it dies."""
    with restante.connect(served.url, retries=PATIENT) as hub:
        worker = workers.start()
        before = hub.act("take_turn", concerns="a", data={"turn": 0})
        assert ended(hub, before).state.value == "done"
        killer = hub.act("end_worker", concerns="a")
        for death in range(1, 4):
            worker = worker if death == 1 else workers.start()
            assert worker.wait() == -signal.SIGKILL
            workers.running.pop()
            wait_until(lambda death=death: hub.outcome(killer.id).deaths == death, "the death is counted")  # type: ignore[misc]
        status = hub.outcome(killer.id)
        assert (status.state.value, status.problem and status.problem.code) == ("poisoned", "worker_died")


def test_whatever_is_killed_or_stopped_every_action_is_done_once_and_in_order(
    served: Served, workers: Workers, file: Path
) -> None:
    chance = random.Random(7)
    kinds = ("kill a worker", "kill the hub", "stop a worker for long", "end a worker")
    with restante.connect(served.url, retries=PATIENT) as hub:
        for _ in range(2):
            workers.start()
        load = Load(served.url)
        for kind in (*kinds, *chance.choices(kinds, k=TROUBLES - len(kinds))):
            time.sleep(chance.uniform(0.2, 1.0))
            trouble(kind, served, workers, chance)
        load.end()
        check(hub, load, file)
    for worker in tuple(workers.running):
        assert workers.end(worker) == 0
    served.end()
    served.check_folder()


def trouble(kind: str, served: Served, workers: Workers, chance: random.Random) -> None:
    worker = chance.choice(workers.running)
    if kind == "kill the hub":
        served.kill()
        time.sleep(chance.uniform(0, 2 * LEASE))
        served.start()
    elif kind == "kill a worker":
        workers.kill(worker)
        workers.start()
    elif kind == "end a worker":
        assert workers.end(worker) == 0
        workers.start()
    else:
        workers.stop_for_long(worker, 1.5 * LEASE)


def test_a_database_that_is_gone_for_a_while_makes_no_poison(
    served: Served, workers: Workers, file: Path, tmp_path: Path
) -> None:
    with restante.connect(served.url, retries=PATIENT) as hub:
        workers.start()
        load = Load(served.url)
        wait_until(lambda: bool(ledger(file)), "something is done")
        away = tmp_path / "away"
        away.mkdir()
        for part in sorted(tmp_path.glob("ledger.db*")):
            part.rename(away / part.name)
        time.sleep(20.0 if LONG else 4.0)
        for part in sorted(away.iterdir()):
            part.rename(tmp_path / part.name)
        load.end()
        assert list(hub.group("ledger").poison()) == []
        check(hub, load, file)


def test_poison_that_cannot_be_written_is_reported_until_it_is(served: Served, workers: Workers, file: Path) -> None:
    with restante.connect(served.url, retries=PATIENT) as hub:
        worker = workers.start()
        first = ended(hub, hub.act("take_turn", concerns="a", data={"turn": 0}))
        assert first.state.value == "done"
        worker.send_signal(signal.SIGSTOP)
        bad = hub.act("break_down", concerns="a")
        after = hub.act("take_turn", concerns="a", data={"turn": 1})
        served.kill()
        worker.send_signal(signal.SIGCONT)
        time.sleep(LEASE)
        served.start()
        status = ended(hub, after)
        assert status.state.value == "done"
        poisoned = hub.outcome(bad.id)
        assert (poisoned.state.value, _code(poisoned)) == ("poisoned", "error")
        assert [each.id for each in hub.group("ledger").poison()] == [bad.id]
    assert ledger(file) == {"a": [0, 1]}


def _code(status: ActionStatus) -> str | None:
    return None if status.problem is msgspec.UNSET else status.problem.code


def test_a_step_of_the_hubs_clock_changes_nothing(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour on, and two hours back: leases and waits are measured by clocks that only go forward."""
    from tests.work import ledger_app

    monkeypatch.setenv("LEDGER", str(file))
    step = 0

    def clock() -> int:
        return time.time_ns() // 1_000 + step * 3_600_000_000

    with (
        start(tmp_path / "stepped", SETTINGS, clock=clock) as running,
        WorkerHere(ledger_app.app, running.url) as worker,
    ):
        generations = None
        with restante.connect(running.url, retries=PATIENT) as hub:
            load = Load(running.url)
            for step in (0, 1, -1, 0):  # noqa: B007 - the clock looks at it
                time.sleep(2 * LEASE)
                generations = generations or dict(worker.runner.core.partitions)
                assert dict(worker.runner.core.partitions) == generations, "no lease was lost"
            load.end()
            check(hub, load, file)
