"""Tasks are the background work of subjects. Each has a thread of its own beside the committer.

A subject defines its tasks and chores beside its other code, and names them in its `HubSubject`. So adding a subject changes
no other one. A task names the component of health that is red when its thread has died.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from restante.errors import DataDamaged, Unavailable
from restante.hub.engine.core import Core
from restante.hub.engine.health_sources import HealthSources
from restante.model.health.bounds import Reading, flag

Chore = Callable[[Core], int]
"""Work that is done now and then; returns how much there was to do."""
_RETRY_SECONDS = 1.0
_LEAVE_SECONDS = 1.0
"""How long closing waits for threads that may be waiting for another system."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one thread until the hub closes."""

    name: str
    run: Callable[[Core], None]
    """Returns soon after `core.closing` is set and `wake` was called."""
    wake: Callable[[Core], None] = lambda _: None
    is_wanted: Callable[[Core], bool] = lambda _: True
    prepare: Callable[[Core, Tasks], None] = lambda _, __: None
    """Is called before the threads begin, for a task that starts more of them later."""
    waits_outside: bool = False
    """Whether the thread may wait long for another system. Closing then waits for it no longer than `_LEAVE_SECONDS`."""
    component: str | None = None
    """The component of health that needs the thread."""


class Tasks:
    """The threads of an open hub beside its committer."""

    def __init__(self, core: Core, tasks: Iterable[Task]) -> None:
        self._core = core
        self._tasks = tuple(tasks)
        self._threads: list[tuple[threading.Thread, Task]] = []

    def begin(self) -> None:
        """Start every task that this hub wants."""
        for task in self._tasks:
            task.prepare(self._core, self)
        for component in dict.fromkeys(task.component for task in self._tasks if task.component is not None):
            self._core.memory(HealthSources).register(component, partial(self._measure, component))
        for task in self._tasks:
            if task.is_wanted(self._core):
                self.start(task)

    def running(self, name: str) -> int:
        """How many threads were started for tasks with this name."""
        return sum(task.name == name for _, task in tuple(self._threads))

    def start(self, task: Task) -> None:
        """Start one more thread for a task."""
        thread = threading.Thread(target=task.run, args=(self._core,), name=f"restante-{task.name}", daemon=True)
        thread.start()
        self._threads.append((thread, task))

    def _measure(self, component: str) -> Iterator[Reading]:
        """Whether the threads that a component needs are alive. Nothing is measured if it has none."""
        needed = [(thread, task.name) for thread, task in tuple(self._threads) if task.component == component]
        ended = [] if self._core.closing.is_set() else [name for thread, name in needed if not thread.is_alive()]
        if needed:
            died = f"The thread of {' and '.join(ended)} has died. Start the hub again." if ended else None
            yield flag("dead_threads", died)

    def wake(self) -> None:
        """Wake the threads after `core.closing` was set, so that they end."""
        for task in self._tasks:
            task.wake(self._core)

    def close(self) -> None:
        """Wait until the threads have ended, after `core.closing` was set."""
        self.wake()
        deadline = time.monotonic() + _LEAVE_SECONDS
        for thread, task in tuple(self._threads):
            # Not waiting is safe: the next hub repeats a call to another system that was under way.
            thread.join(max(0.0, deadline - time.monotonic()) if task.waits_outside else None)


def housekeeping(chores: Sequence[Chore]) -> Task:
    """The task that does the chores of all subjects, one after the other, every `housekeeping_seconds`."""

    def keep_house(core: Core) -> None:
        while not core.closing.wait(core.settings.housekeeping_seconds):
            for chore in chores:
                guarded(core, chore)

    return Task(
        "housekeeping",
        keep_house,
        is_wanted=lambda core: core.settings.housekeeping_seconds > 0,
        component="housekeeping",
    )


def when_told(name: str, told: Callable[[Core], threading.Event], chore: Chore) -> Task:
    """A task between shards: do `chore` when the event is set, and every second in case a shard could not be reached."""

    def run(core: Core) -> None:
        while not core.closing.is_set():
            told(core).wait(_RETRY_SECONDS)
            told(core).clear()
            if not core.closing.is_set():
                guarded(core, chore)

    return Task(
        name,
        run,
        wake=lambda core: told(core).set(),
        is_wanted=lambda core: core.shard is not None,
        waits_outside=True,
    )


def guarded(core: Core, chore: Chore) -> int:
    """Do a chore. A failure is logged, and the chore is tried again later: background work changes no answer."""
    try:
        return chore(core)
    except (DataDamaged, Unavailable) as error:
        if not core.closing.is_set():
            _log.error("%s: %s", threading.current_thread().name, error)
        core.closing.wait(_RETRY_SECONDS)
    except Exception:  # noqa: BLE001  # a defect in one chore must not end the others of its thread
        _log.exception("%s", threading.current_thread().name)
        core.closing.wait(_RETRY_SECONDS)
    return 0
