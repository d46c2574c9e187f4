"""Workers beside a sample night: things to be done are accepted, and the worker that does them is replaced meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import msgspec

from restante.client.surface.surface import Batch, Hub
from restante.model.actions.wanted_action import WantedAction
from restante.model.figures import counted
from restante.samples.night_steps import NightResult, WatchStep, timed
from restante.work import App, Job
from restante.work.runner import WorkRunner
from restante.work.worker_process import WorkerPlace, work_async

ACTIONS = 500
THINGS = 50
"""The number of things. Actions of one thing are done in order; different things are worked on side by side."""
_ACTION = "tour_count"
_DO_SECONDS = 0.01
_PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.01


class TourTurn(msgspec.Struct):
    """The body of an action: which one it is of its thing."""

    number: int


class TourWorker:
    """A worker in a thread of its own, as `restante work` runs one in a process."""

    def __init__(self, app: App, place: WorkerPlace) -> None:
        self._begun = threading.Event()
        self._runner: WorkRunner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(
            target=self._work, args=(app, place), name=f"restante-worker-{place.member}", daemon=True
        )
        self._thread.start()
        self._begun.wait(_PATIENCE_SECONDS)

    def _work(self, app: App, place: WorkerPlace) -> None:
        try:
            asyncio.run(work_async(app, place, watch=self._watch))
        except Exception as error:  # noqa: BLE001  # told when the night is over
            self.error = error
        finally:
            self._begun.set()

    def _watch(self, runner: WorkRunner) -> None:
        self._runner, self._loop = runner, asyncio.get_running_loop()
        self._begun.set()

    def stop(self) -> None:
        """Begin nothing more, end what runs, leave."""
        if self._runner is not None and self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._runner.stop)
        self._thread.join(_PATIENCE_SECONDS)


class NightWork:
    """The actions of one night, and what the workers have done."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.app = App("tour")
        self.done: dict[str, list[int]] = defaultdict(list)
        self.app.action(_ACTION)(self._count)

    async def _count(self, turn: TourTurn, job: Job) -> None:
        await asyncio.sleep(_DO_SECONDS)
        self.done[job.concerns].append(turn.number)

    def ask(self, hub: Hub, batch: Batch) -> None:
        """Ask for all actions in one batch, which is complete when the last one is done."""
        hub.act_all([self._wanted(number) for number in range(ACTIONS)], batch=batch)
        batch.seal()

    def _wanted(self, number: int) -> WantedAction:
        body = msgspec.json.encode(TourTurn(number))
        return WantedAction(action=_ACTION, concerns=f"{self.name}-{number % THINGS}", data=body)

    @property
    def count(self) -> int:
        return sum(len(numbers) for numbers in self.done.values())

    @property
    def wrong(self) -> list[str]:
        """The faults, if actions were not done at least once and in order: one that was begun and not reported is done again."""
        disordered = [
            thing for thing, numbers in self.done.items() if list(dict.fromkeys(numbers)) != sorted(set(numbers))
        ]
        missing = ACTIONS - sum(len(set(numbers)) for numbers in self.done.values())
        texts = [f"Not done: {counted(missing, 'action')}."] if missing else []
        return texts + [f"What concerns {thing} was done out of order." for thing in disordered]


def act(hub: Hub, place: WorkerPlace, name: str, night: NightResult, watch: WatchStep) -> None:
    """Have workers do things, and replace the first worker when it has done some. The group goes at the end."""
    work = NightWork(name)
    batch = hub.batches.open(key=f"{name}-actions")
    with timed(night, watch, "act", ACTIONS) as (step, advance):
        first = TourWorker(work.app, replace(place, member="tour-1"))
        work.ask(hub, batch)
        _until(lambda: first.error is not None or work.count >= ACTIONS // 3)
        first.stop()
        by_first = work.count
        advance(by_first)
        second = TourWorker(work.app, replace(place, member="tour-2"))
        _until(lambda: second.error is not None or batch.status().completed_at is not None)
        second.stop()
        advance(work.count - by_first)
    step.detail = f"a worker did {by_first:,} and was replaced by another, which did the rest; each thing in its order"
    night.wrong += [*work.wrong, *(f"A worker ended: {one.error}." for one in (first, second) if one.error)]
    if batch.status().completed_at is None:
        night.wrong.append("The batch of actions is not complete.")
    hub.group(work.app.name).delete()


def _until(fulfilled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not fulfilled() and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
